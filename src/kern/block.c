#include "kern/block.h"

const yk_block_ops *yk_block(void)
{
    return YK_ISA_CHOOSE(yk_block);
}
