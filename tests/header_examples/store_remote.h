extern yk_remote_config config;
extern int channel, thread;
extern yk_batch batch;
extern uint64_t cursor[YK_CURSOR_SIZE];
extern yk_remote_pushed gradient;
void compute(const yk_batch *batch, const yk_remote_answer *answer, yk_remote_pushed *gradient);
