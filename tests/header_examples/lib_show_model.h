#include <stdlib.h>
extern yk_result result;
