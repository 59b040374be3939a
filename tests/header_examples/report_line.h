extern const char *text;
extern size_t size;
