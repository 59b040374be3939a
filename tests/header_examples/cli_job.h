extern yoke_options *options;
extern int argc;
extern char **argv;
int train(const yoke_options *options);
