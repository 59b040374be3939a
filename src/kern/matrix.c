#include "kern/matrix.h"

const yk_matrix_ops *yk_matrix(void)
{
    return YK_ISA_CHOOSE(yk_matrix);
}
