extern yk_local_config config;
extern int me;
extern yk_batch batch;
extern yk_view view[YK_MAX_GROUPS];
extern yk_grad grad;
extern yk_step_result result;
void compute(const yk_batch *batch, const yk_view *view, yk_grad *grad);
