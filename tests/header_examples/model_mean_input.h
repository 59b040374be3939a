extern float *floats, *x, *gradient;
extern size_t dim, examples, outputs, i;
extern int n;
