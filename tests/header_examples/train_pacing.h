extern yk__loop *w;
extern yk_step_result result;
extern yk_status take_a_step(yk__loop *w, yk_step_result *out);
extern yk_status st;
