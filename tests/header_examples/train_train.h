#include "base/clock.h"
#include <stdio.h>

extern yk_config config;
extern volatile sig_atomic_t stop;
