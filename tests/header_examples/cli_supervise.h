#include <stdio.h>
extern yk_config config;
extern yk_plan plan;
extern yk_host *host;
extern size_t n;
extern char **argv;
