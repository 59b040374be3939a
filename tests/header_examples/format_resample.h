extern yk_status st;
extern yk_frame frame;
extern uint8_t *planes;
extern const uint8_t *row;
