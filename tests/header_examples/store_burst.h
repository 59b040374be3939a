extern yk_local *s;
extern int me;
void train(const yk_view *view, float lr, size_t steps);
