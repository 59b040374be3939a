extern float *x;
extern size_t n;
