extern void part(void *context, int me, int all);
extern void *context;
