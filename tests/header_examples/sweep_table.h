#include "sweep/dir.h"
#include <stdlib.h>
extern yk_sweep_plan plan;
extern json_t *summary;
