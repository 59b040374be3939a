extern yk_rows rows;
extern size_t chunk_rows, row;
extern int servers;
extern uint32_t bias_key;
