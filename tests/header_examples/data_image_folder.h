#include <limits.h>
extern yk_status st;
void use(const char *path, uint32_t class);
