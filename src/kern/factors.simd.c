/* The kernels of factors.h, compiled once per instruction set. The loops over a vector are written once, for a width that is
 * a constant in most calls, and inlined for each of these widths. */
#include "kern/factors.h"

#include "kern/vmath.h"
#include "kern/wide.h"

/* Prefetch distances in rows: for the start of a row, for its indices, and for the vectors of those indices. Each needs the
 * result of the one before. */
enum { START_AHEAD = 12, INDEX_AHEAD = 8, VECTOR_AHEAD = 3 };

/* Always inlined: gcc thinks that a function that only prefetches has no effect, and drops calls to it. */
#define INLINE static inline __attribute__((always_inline)) YK_RACY

INLINE void prefetch_ahead(const yk_view *v, uint32_t width, const yk_batch *b, size_t i)
{
    enum { LINE = 16 }; /* floats */
    const yk_rows *rows = b->rows;
    const size_t end = b->n + b->ahead;
    if (i + START_AHEAD < end)
        __builtin_prefetch(rows->start + b->pick[i + START_AHEAD]);
    if (i + INDEX_AHEAD < end) {
        const uint64_t s = rows->start[b->pick[i + INDEX_AHEAD]];
        for (size_t line = 0; line < 3; line++) {
            __builtin_prefetch(rows->index + s + line * LINE);
            if (rows->value)
                __builtin_prefetch(rows->value + s + line * LINE);
        }
    }
    if (i + VECTOR_AHEAD >= end)
        return;
    const size_t row = b->pick[i + VECTOR_AHEAD];
    for (uint64_t e = rows->start[row]; e < rows->start[row + 1]; e++)
        for (uint32_t j = 0; j < width; j += LINE)
            __builtin_prefetch(yk_view_wide(v, rows->index[e], width) + j);
}

/* A row of a batch. */
typedef struct {
    const uint32_t *key;
    const float *value; /* NULL: all are 1 */
    const uint16_t *field;
    size_t n;
} row;

INLINE row row_of(const yk_batch *b, size_t i)
{
    const yk_rows *rows = b->rows;
    const uint64_t s = rows->start[b->pick[i]];
    return (row){rows->index + s, rows->value ? rows->value + s : NULL, rows->field ? rows->field + s : NULL,
                 (size_t)(rows->start[b->pick[i] + 1] - s)};
}

/* Of a batch that is a list of entries. */
INLINE row entries_of(const yk_batch *b)
{
    return (row){b->rows->index, b->rows->value, b->rows->field, b->n};
}

/* Calls f(width, ...) with a width that is a constant, if it is a common one. */
#define WITH_WIDTH(f, width, ...)                                                                            \
    do {                                                                                                     \
        if ((width) == 8)                                                                                    \
            f(8, __VA_ARGS__);                                                                               \
        else if ((width) == 16)                                                                              \
            f(16, __VA_ARGS__);                                                                              \
        else                                                                                                 \
            f(width, __VA_ARGS__);                                                                           \
    } while (0)

/* ---- interactions ---- */

/* Columns j .. j + WIDE of a row: their sum, and the sum over them of sum^2 - squares, by lane. */
INLINE wide interact_wide(const yk_view *v, uint32_t width, const row *r, uint32_t j, float *sum)
{
    wide s = {0}, t = {0}, q = {0}, p = {0};
    size_t e = 0;
    for (; e + 2 <= r->n; e += 2) {
        wide x = load(yk_view_wide(v, r->key[e], width) + j),
             y = load(yk_view_wide(v, r->key[e + 1], width) + j);
        if (r->value) {
            x *= r->value[e];
            y *= r->value[e + 1];
        }
        s += x;
        q += x * x;
        t += y;
        p += y * y;
    }
    if (e < r->n) {
        const wide x = (r->value ? r->value[e] : 1.0f) * load(yk_view_wide(v, r->key[e], width) + j);
        s += x;
        q += x * x;
    }
    s += t;
    store(sum + j, s);
    return s * s - (q + p);
}

INLINE float interact_one(const yk_view *v, uint32_t width, const row *r, uint32_t j, float *sum)
{
    float s = 0.0f, q = 0.0f;
    for (size_t e = 0; e < r->n; e++) {
        const float x = (r->value ? r->value[e] : 1.0f) * yk_view_wide(v, r->key[e], width)[j];
        s += x;
        q += x * x;
    }
    sum[j] = s;
    return s * s - q;
}

INLINE void interact_rows(uint32_t width, const yk_view *v, const yk_batch *b, float *sum, float *z)
{
    for (size_t i = 0; i < b->n; i++) {
        const row r = row_of(b, i);
        wide lanes = {0};
        float all = 0.0f;
        uint32_t j = 0;
        prefetch_ahead(v, width, b, i);
        for (; j + WIDE <= width; j += WIDE)
            lanes += interact_wide(v, width, &r, j, sum + i * width);
        for (; j < width; j++)
            all += interact_one(v, width, &r, j, sum + i * width);
        for (int k = 0; k < WIDE; k++)
            all += lanes[k];
        z[i] += 0.5f * all;
    }
}

static YK_RACY void interact(const yk_view *v, uint32_t width, const yk_batch *b, float *sum, float *z)
{
    WITH_WIDTH(interact_rows, width, v, b, sum, z);
}

/* grad += err x (sum - x v), for an entry e of a row. */
INLINE void interact_grad_entry(uint32_t width, const yk_view *v, const row *r, size_t e, const float *sum,
                                float err, float *grad)
{
    const float *from = yk_view_wide(v, r->key[e], width), x = r->value ? r->value[e] : 1.0f, by = err * x;
    uint32_t j = 0;
    for (; j + WIDE <= width; j += WIDE)
        store(grad + j, load(grad + j) + by * (load(sum + j) - x * load(from + j)));
    for (; j < width; j++)
        grad[j] += by * (sum[j] - x * from[j]);
}

INLINE void interact_grad_rows(uint32_t width, const yk_view *v, const yk_batch *b, const uint32_t *at,
                               const float *sum, const float *err, const uint32_t *slot, float *grad)
{
    const row all = entries_of(b);
    for (size_t e = 0; at && e < b->n; e++)
        interact_grad_entry(width, v, &all, e, sum + (size_t)at[e] * width, err[at[e]],
                            grad + (size_t)slot[e] * width);
    for (size_t i = 0; !at && i < b->n; i++) {
        const row r = row_of(b, i);
        for (size_t e = 0; e < r.n; e++)
            interact_grad_entry(width, v, &r, e, sum + i * width, err[i], grad + (size_t)slot[e] * width);
        slot += r.n;
    }
}

static YK_RACY void interact_grad(const yk_view *v, uint32_t width, const yk_batch *b, const uint32_t *at,
                                  const float *sum, const float *err, const uint32_t *slot, float *grad)
{
    WITH_WIDTH(interact_grad_rows, width, v, b, at, sum, err, slot, grad);
}

/* ---- embeddings ---- */

/* to += x from */
INLINE void add(float *to, const float *from, float x, uint32_t width)
{
    uint32_t j = 0;
    for (; j + WIDE <= width; j += WIDE)
        store(to + j, load(to + j) + x * load(from + j));
    for (; j < width; j++)
        to[j] += x * from[j];
}

INLINE void embed_rows(uint32_t width, const yk_view *v, const yk_batch *b, size_t fields, float *out)
{
    memset(out, 0, b->n * fields * width * sizeof *out);
    for (size_t i = 0; i < b->n; i++, out += fields * width) {
        const row r = row_of(b, i);
        prefetch_ahead(v, width, b, i);
        for (size_t e = 0; e < r.n; e++)
            add(out + (r.field ? r.field[e] : 0) * width, yk_view_wide(v, r.key[e], width),
                r.value ? r.value[e] : 1.0f, width);
    }
}

static YK_RACY void embed(const yk_view *v, uint32_t width, const yk_batch *b, size_t fields, float *out)
{
    WITH_WIDTH(embed_rows, width, v, b, fields, out);
}

INLINE void embed_grad_rows(uint32_t width, const yk_batch *b, const uint32_t *at, size_t first,
                            size_t fields, const float *d, const uint32_t *slot, float *grad)
{
    const row all = entries_of(b);
    for (size_t e = 0; at && e < b->n; e++)
        add(grad + (size_t)slot[e] * width,
            d + ((at[e] - first) * fields + (all.field ? all.field[e] : 0)) * width,
            all.value ? all.value[e] : 1.0f, width);
    for (size_t i = 0; !at && i < b->n; i++, d += fields * width) {
        const row r = row_of(b, i);
        for (size_t e = 0; e < r.n; e++)
            add(grad + (size_t)slot[e] * width, d + (r.field ? r.field[e] : 0) * width,
                r.value ? r.value[e] : 1.0f, width);
        slot += r.n;
    }
}

static void embed_grad(uint32_t width, const yk_batch *b, const uint32_t *at, size_t first, size_t fields,
                       const float *d, const uint32_t *slot, float *grad)
{
    WITH_WIDTH(embed_grad_rows, width, b, at, first, fields, d, slot, grad);
}

const yk_factors_ops YK_ISA_NAME(yk_factors) = {interact, interact_grad, embed, embed_grad};
