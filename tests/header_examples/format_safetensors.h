#include <string.h>
extern yk_status st;
extern float *weight;
