extern int fd;
void handle(uint32_t kind, const char *data, uint32_t bytes);
