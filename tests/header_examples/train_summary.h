#include <stdio.h>
#include <stdlib.h>

extern yk_config config;
extern yk_result result;
