#include "base/status.h"
#include <stdatomic.h>
extern atomic_bool arrived;
