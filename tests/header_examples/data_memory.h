extern size_t n, dim;
extern float *x;
extern int32_t *labels;
extern yk_source_options options;
