extern yk_optim_config config;
extern uint64_t step;
