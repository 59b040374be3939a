#include "kern/lanes.h"

const yk_lanes_ops *yk_lanes(void)
{
    return YK_ISA_CHOOSE(yk_lanes);
}
