#include <stddef.h>
extern size_t n;
extern long step;
extern double loss;
void print_line(void *context, yk_log_level level, const char *text);
