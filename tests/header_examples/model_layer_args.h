extern char **arg;
extern size_t count;
extern const char *error;
