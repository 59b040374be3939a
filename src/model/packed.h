/* Converts dense batches to sparse rows, for models whose kernels need those. A sparse batch is used as it is.
 *
 * Example:
 *     yk__packed packed;
 *     st = yk__packed_init(&packed, kind, dim, 64);               // for batches of up to 64 examples
 *     yk_batch rows = yk__packed_batch(&packed, &batch);          // borrowed until the next call
 *     yk__packed_fini(&packed);
 *
 * Owned by one worker. yk__packed_batch() allocates nothing.
 */
#ifndef YK_MODEL_PACKED_H
#define YK_MODEL_PACKED_H

#include "core/rows.h"
#include "kern/matrix.h"

typedef struct {
    const yk_matrix_ops *kern;
    yk_rows rows;   /* owned */
    uint32_t *pick; /* 0, 1, 2 ... */
} yk__packed;

/* Allocates nothing if `kind` is sparse. */
yk_status yk__packed_init(yk__packed *p, yk_rows_kind kind, size_t dim, size_t max_batch);
void yk__packed_fini(yk__packed *p);

yk_batch yk__packed_batch(yk__packed *p, const yk_batch *b);

#endif
