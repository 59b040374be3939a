extern size_t column[2];
extern void use(const char *text);
