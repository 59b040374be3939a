#include "kern/pixels.h"

const yk_pixels_ops *yk_pixels(void)
{
    return YK_ISA_CHOOSE(yk_pixels);
}
