#include "kern/lanes.h"

extern float *W, *G, *Z, *bias, *transposed;
extern size_t ld, classes;
extern yk_rows rows;
extern yk_batch batch;
extern yk_spans spans;
