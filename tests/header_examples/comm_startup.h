extern yk_startup_config config;
void start_mpi(void);
void load_data(void);
