/* Kernels of models with a vector of `width` floats per key (an embedding): pairwise interactions of a factorization machine,
 * and sums of vectors per field.
 *
 * Example:
 *     const yk_factors_ops *ops = yk_factors();
 *     ops->interact(&view, 8, &batch, sum, z);                         // adds the interactions to z
 *     double loss = yk_linear()->logistic(z, &batch, err);
 *     ops->interact_grad(&view, 8, &batch, NULL, sum, err, slot, gradient);  // gradient[slot][8]
 *
 * Entries are numbered in the order of the batch: first those of row pick[0], then those of row pick[1]. slot[e] is the index
 * of the key of entry e (yk_merger_slots). The vector of key k is at yk_view_wide(v, k, width). Any thread may call these
 * functions at any time. They allocate nothing. tests/factors_ref.c has the reference implementation.
 */
#ifndef YK_KERN_FACTORS_H
#define YK_KERN_FACTORS_H

#include "core/rows.h"
#include "core/view.h"
#include "kern/isa.h"

enum { YK_MAX_WIDTH = 256 };

typedef struct {
    /* sum[i] = sum over row i of x v;   z[i] += (|sum[i]|^2 - sum over row i of |x v|^2) / 2: the sum of (x v).(y u) over
     * all pairs of entries (Rendle 2010). */
    void (*interact)(const yk_view *v, uint32_t width, const yk_batch *b, float *sum, float *z);

    /* grad[slot[e]] += err[i] x (sum[i] - x v), for every entry e of every row i: the gradient of the interactions.
     * at: if not NULL, the batch is a list of n entries (rows->index, and so on), and entry e is one of row at[e]. */
    void (*interact_grad)(const yk_view *v, uint32_t width, const yk_batch *b, const uint32_t *at,
                          const float *sum, const float *err, const uint32_t *slot, float *grad);

    /* out[i][field] = sum over the entries of row i in this field of x v, for `fields` fields. Rows without field numbers
     * have one field. */
    void (*embed)(const yk_view *v, uint32_t width, const yk_batch *b, size_t fields, float *out);

    /* grad[slot[e]] += x d[i][field of e], for every entry e of every row i. at: as above; d begins with row `first`. */
    void (*embed_grad)(uint32_t width, const yk_batch *b, const uint32_t *at, size_t first, size_t fields,
                       const float *d, const uint32_t *slot, float *grad);
} yk_factors_ops;

YK_ISA_FAMILY(yk_factors_ops, yk_factors) /* yk_factors(): the fastest for this processor */

#endif
