extern yk_store *s;
extern int me;
extern yk_batch next_batch, batch;
extern uint64_t cursor[YK_CURSOR_SIZE];
extern yk_view view[YK_MAX_GROUPS];
extern yk_grad grad;
extern yk_step_result result;
extern yk_status st;
void compute(const yk_batch *batch, const yk_view *view, yk_grad *grad);
