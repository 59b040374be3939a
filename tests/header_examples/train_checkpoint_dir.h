#include "format/safetensors.h"
#include <stdlib.h>

extern yk_tensor tensors[];
extern size_t n;
