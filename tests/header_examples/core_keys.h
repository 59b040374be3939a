extern uint32_t key;
extern float sum;
