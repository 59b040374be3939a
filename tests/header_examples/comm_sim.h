yk_status rank_main(void *context, int rank);
extern void *context;
