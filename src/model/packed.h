/* Converts dense batches to sparse rows, for models whose kernels need those. A sparse batch is used as it is.
 *
 * Example:
 *     yk_arena memory = {0};
 *     yk__packed packed;
 *     yk__packed_init(&packed, &memory, kind, dim, 64);           // for batches of up to 64 examples
 *     yk_batch rows = yk__packed_batch(&packed, &batch);          // borrowed until the next call
 *
 * Owned by one worker. yk__packed_batch() allocates nothing.
 */
#ifndef YK_MODEL_PACKED_H
#define YK_MODEL_PACKED_H

#include "base/arena.h"
#include "core/rows.h"
#include "kern/matrix.h"

typedef struct {
    const yk_matrix_ops *kern;
    yk_rows rows;   /* in the arena */
    uint32_t *pick; /* 0, 1, 2 ... */
} yk__packed;

/* Allocates nothing if `kind` is sparse. */
void yk__packed_init(yk__packed *p, yk_arena *memory, yk_rows_kind kind, size_t dim, size_t max_batch);

yk_batch yk__packed_batch(yk__packed *p, const yk_batch *b);

#endif
