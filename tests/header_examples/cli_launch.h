extern yk_config config;
extern int argc;
extern char **argv;
