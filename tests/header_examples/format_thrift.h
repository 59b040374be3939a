#include <stddef.h>
#include <stdint.h>
extern const uint8_t *bytes;
extern size_t n;
yk_status take(void *sum, const yk__thrift_value *v);
