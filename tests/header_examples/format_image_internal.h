#include <stdlib.h>
extern yk_status st;
extern const uint8_t *bytes;
extern size_t n;
extern yk_image_decoder *decoder;
