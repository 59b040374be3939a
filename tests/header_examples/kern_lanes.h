extern const uint8_t *image[YK_LANES];
extern size_t pixels, classes;
extern float *x, *logits;
extern yk_batch batch;
