extern int workers;
extern uint64_t epochs, epoch, cursor[YK_CURSOR_SIZE];
extern yk_status st;
