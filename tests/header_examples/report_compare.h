#include <stdio.h>
extern yk_run runs[];
extern yk_facts facts[];
extern size_t n;
