/* The kernels in plain C, as references for those with vectors: X_ref.c implements src/kern/X.h. */
#ifndef YK_TESTS_REFERENCES_H
#define YK_TESTS_REFERENCES_H

#include "kern/block.h"
#include "kern/factors.h"
#include "kern/lanes.h"
#include "kern/linear.h"
#include "kern/matrix.h"
#include "kern/pixels.h"

extern const yk_block_ops yk_block_ref;
extern const yk_factors_ops yk_factors_ref;
extern const yk_lanes_ops yk_lanes_ref;
extern const yk_linear_ops yk_linear_ref;
extern const yk_matrix_ops yk_matrix_ref;
extern const yk_pixels_ops yk_pixels_ref;

#endif
