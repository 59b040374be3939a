extern yk_text text;
extern const char *name;
extern size_t count;
