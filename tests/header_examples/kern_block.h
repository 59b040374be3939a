extern size_t terms, filters, pixels, channel;
extern float *weights, *x, *y, *bias;
extern int32_t *a_k, *b_p, *b_k, *c_p;
