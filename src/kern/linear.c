#include "kern/linear.h"

const yk_linear_ops *yk_linear(void)
{
    return YK_ISA_CHOOSE(yk_linear);
}
