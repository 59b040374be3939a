#include <stdio.h>
extern yk_run runs[];
extern size_t n;
