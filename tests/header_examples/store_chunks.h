extern yk_rows rows;
extern size_t unit, row;
extern int servers;
extern uint32_t bias_key;
