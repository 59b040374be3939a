extern yk_status st;
extern const uint8_t *bytes;
extern size_t n;
extern uint8_t *planes;
