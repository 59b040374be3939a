extern const char *data;
extern size_t size;
