extern yk__schedule *s;
extern uint64_t step, epoch;
extern unsigned rounds;
extern bool stop;
bool train_round(void);
void evaluate_and_save(yk__due due);
