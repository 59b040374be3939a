#include <string.h>
extern yk_comm *comm;
extern float gradient[100];
static const size_t bytes = sizeof gradient;
