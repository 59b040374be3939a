extern yk_status st;
extern yk_input *in;
extern yk_file *file;
extern const void *data;
extern size_t size;
void use(const uint8_t *data, size_t size);
