extern uint64_t examples, epochs, batch;
extern int workers, worker;
