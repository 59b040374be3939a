extern yk_sweep_plan plan;
extern char *path;
extern yk_sweep_run_state *state;
extern yk_sweep_result *result;
extern double *took;
