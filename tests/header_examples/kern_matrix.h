extern float *W, *G, *bias, *logits;
extern size_t ld, classes;
extern yk_batch batch;
