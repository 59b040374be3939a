extern int workers;
extern uint64_t epochs, epoch, cursor[YK_CURSOR];
extern yk_status st;
