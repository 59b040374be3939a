extern uint8_t first[16], out[16];
extern size_t n, got;
extern const char *why;
