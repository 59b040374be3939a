#include <stdlib.h>
extern yk_status st;
extern const uint32_t *indices;
extern const float *values;
extern size_t n;
extern yk_key_space keys;
extern yk_rows rows;
extern const uint8_t *record;
void use(const uint8_t *bytes, size_t size);
