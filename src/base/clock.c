#include "base/clock.h"

_Thread_local const yk_clock *yk__thread_clock;
