extern void *run(void *context);
extern void *context;
extern yk_mutex m;
extern yk_cond changed;
extern _Bool ready;
