extern yk_rows sample, rows;
extern size_t features;
extern uint32_t key;
extern float *w;
