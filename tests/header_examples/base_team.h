extern yk_status work(void *context, int me);
extern void *context;
