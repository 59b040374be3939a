extern yk_status run(void *context);
extern void *context;
