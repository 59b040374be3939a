extern int rank;
extern uint64_t begin_ns, took_ns, now_ns;
