/* A batch as sparse rows: as it is, or packed from dense rows into memory of the worker's own. Inside of the models. */
#ifndef YK_MODEL_PACKED_H
#define YK_MODEL_PACKED_H

#include "base/rows.h"
#include "kern/matrix.h"

typedef struct {
    const yk_matrix_ops *kern;
    yk_rows rows;
    uint32_t *pick; /* 0, 1, 2 ... */
} yk__packed;

/* Nothing to be had for sparse data. */
yk_status yk__packed_init(yk__packed *p, yk_rows_kind kind, size_t dim, size_t max_batch);
void yk__packed_fini(yk__packed *p);

yk_batch yk__packed_batch(yk__packed *p, const yk_batch *b);

#endif
