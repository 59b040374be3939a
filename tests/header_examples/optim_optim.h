extern yk_optim_config config;
extern uint64_t step;
extern yk_view view;
extern size_t n;
extern float *g, examples;
extern uint32_t *key;
