#include "kern/linear.h"
extern yk_view view;
extern yk_batch batch;
extern float *sum, *z, *err, *gradient;
extern uint32_t *slot;
