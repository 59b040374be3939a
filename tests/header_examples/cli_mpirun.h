#include <unistd.h>
extern const yk_config *config;
extern yk_mpirun mpirun;
extern yk_job_paths paths;
extern int argc;
extern char **argv;
