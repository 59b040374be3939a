#include <fcntl.h>
extern const char *data;
extern size_t n;
