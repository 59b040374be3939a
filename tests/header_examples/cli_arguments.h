extern int argc;
extern char **argv;
