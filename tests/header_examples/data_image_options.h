extern yk_status st;
extern yk_spec *spec;
extern yk_source *source;
extern const uint8_t *first;
extern size_t n;
