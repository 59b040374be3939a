#include "model/conv_groups.h"

#include "base/mem.h"
#include <stdlib.h>

enum { TILE = 4, MOST_KINDS = 8 }; /* pixels of a group, at least; kinds on either side of an image, about */
enum {
    MOST_TERMS = 1 << 15
}; /* of a pixel: with more of them, tables of many groups would need too much memory */

/* Rows of a product, or its columns. */
typedef struct {
    bool back;
    size_t from, to; /* lines of its factor and of its result */
    size_t kernel, stride, pad;
    size_t least; /* lines of a kind */
} axis;

/* Lines first, first + step, ... that are reached by the same taps. */
typedef struct {
    uint64_t taps;
    size_t first, lines;
} kind;

typedef struct {
    kind *of;
    size_t n;
} kinds;

/* Lines this far apart may be of one kind. */
static size_t step_of(const axis *a)
{
    return a->back ? a->stride : 1;
}

/* The line of the factor that a tap meets, from the one where its line begins; it divides where the tap reaches at all. */
static int64_t moved(const axis *a, size_t line, size_t tap)
{
    const int64_t s = (int64_t)a->stride, pad = (int64_t)a->pad;
    return a->back ? ((int64_t)(line % a->stride) + pad - (int64_t)tap) / s : (int64_t)tap - pad;
}

static int64_t base(const axis *a, size_t line)
{
    return (int64_t)(a->back ? line / a->stride : line * a->stride);
}

static uint64_t taps_of(const axis *a, size_t line)
{
    uint64_t taps = 0;
    for (size_t tap = 0; tap < a->kernel; tap++) {
        const bool divides = !a->back || ((int64_t)(line + a->pad) - (int64_t)tap) % (int64_t)a->stride == 0;
        const int64_t at = base(a, line) + moved(a, line, tap);
        if (divides && at >= 0 && at < (int64_t)a->from)
            taps |= UINT64_C(1) << tap;
    }
    return taps;
}

/* At least so many lines each, if there are as many. */
static yk_status kinds_of(const axis *a, size_t least, kinds *out)
{
    const size_t step = step_of(a);
    least = least > a->least ? least : a->least;
    *out = (kinds){.of = yk_alloc(a->to, sizeof(kind), "a layer's tables")};
    if (!out->of)
        return YK_ESYSTEM;
    for (size_t first = 0; first < step && first < a->to; first++) {
        const size_t begin = out->n;
        uint64_t before = 0;
        for (size_t line = first; line < a->to; line += step) {
            const uint64_t taps = taps_of(a, line);
            if (line == first || (taps != before && out->of[out->n - 1].lines >= least))
                out->of[out->n++] = (kind){.first = line};
            out->of[out->n - 1].taps |= taps;
            out->of[out->n - 1].lines++;
            before = taps;
        }
        if (out->n > begin + 1 && out->of[out->n - 1].lines < least) {
            out->n--;
            out->of[out->n - 1].taps |= out->of[out->n].taps;
            out->of[out->n - 1].lines += out->of[out->n].lines;
        }
    }
    return YK_OK;
}

static size_t count(uint64_t taps)
{
    return (size_t)__builtin_popcountll(taps);
}

static bool has(const kind *k, size_t tap)
{
    return k->taps >> tap & 1;
}

static int32_t *table(size_t n)
{
    return yk_alloc(n ? n : 1, sizeof(int32_t), "a layer's tables");
}

/* Where things are: forward, and back. */
typedef struct {
    size_t channels; /* of the factor */
    size_t weights;  /* of one of them */
    yk__strides from, to;
} layout;

static yk_status make_group(const axis rc[2], const kind *rows, const kind *columns, const layout *at,
                            yk__conv_group *g)
{
    const axis *ra = &rc[0], *ca = &rc[1];
    *g = (yk__conv_group){.terms = at->channels * count(rows->taps) * count(columns->taps),
                          .pixels = rows->lines * columns->lines};
    g->work = g->pixels * (g->terms + 1);
    const bool ok = (g->a_k = table(g->terms)) && (g->b_k = table(g->terms)) && (g->b_p = table(g->pixels)) &&
                    (g->c_p = table(g->pixels));
    if (!ok)
        return YK_ESYSTEM;
    size_t k = 0, p = 0;
    for (size_t i = 0; i < at->channels; i++)
        for (size_t r = 0; r < ra->kernel; r++)
            for (size_t c = 0; c < ca->kernel; c++)
                if (has(rows, r) && has(columns, c)) {
                    g->a_k[k] = (int32_t)(i * at->weights + r * ca->kernel + c);
                    g->b_k[k++] = (int32_t)((int64_t)(i * at->from.channel) +
                                            moved(ra, rows->first, r) * (int64_t)at->from.row +
                                            moved(ca, columns->first, c) * YK_LANES);
                }
    for (size_t i = 0; i < rows->lines; i++)
        for (size_t j = 0; j < columns->lines; j++) {
            const size_t y = rows->first + i * step_of(ra), x = columns->first + j * step_of(ca);
            g->b_p[p] = yk__offset(&at->from, 0, base(ra, y), base(ca, x));
            g->c_p[p++] = yk__offset(&at->to, 0, (int64_t)y, (int64_t)x);
        }
    return YK_OK;
}

/* Those of one kind of rows. */
static yk_status add_groups(const axis rc[2], const kind *rows, const layout *at, yk__conv_groups *out,
                            size_t *cap)
{
    kinds columns;
    yk_status st = kinds_of(&rc[1], (TILE + rows->lines - 1) / rows->lines, &columns);
    yk__conv_group *grown =
        st ? NULL : yk_grow(out->of, cap, out->n + columns.n, sizeof *grown, "a layer's tables");
    if (grown)
        out->of = grown;
    else
        st = YK_ESYSTEM;
    for (size_t i = 0; !st && i < columns.n; i++) {
        st = make_group(rc, rows, &columns.of[i], at, &out->of[out->n]);
        out->work += out->of[out->n++].work;
    }
    yk_free(columns.of);
    return st;
}

static axis axis_of(const yk__layer *l, bool back, size_t in, size_t out, size_t kernel, bool fine)
{
    const size_t step = back ? l->stride : 1;
    return (axis){.back = back,
                  .from = back ? out : in,
                  .to = back ? in : out,
                  .kernel = kernel,
                  .stride = l->stride,
                  .pad = l->pad,
                  .least = fine ? kernel / (MOST_KINDS * step) + 1 : SIZE_MAX};
}

yk_status yk__conv_groups_make(const yk__layer *l, bool back, yk__conv_groups *out)
{
    const yk__edge *in = &l->in_edge, *to = &l->out_edge;
    const size_t taps = l->kernel_h * l->kernel_w;
    const layout at = {.channels = back ? to->channels : in->channels,
                       .weights = back ? in->channels * taps : taps,
                       .from = back ? yk__strides_of(to, to->grad_border) : yk__strides_of(in, in->border),
                       .to = back ? yk__strides_of(in, in->grad_border) : yk__strides_of(to, to->border)};
    const bool fine = at.channels * taps <= MOST_TERMS;
    const axis rc[2] = {axis_of(l, back, in->height, to->height, l->kernel_h, fine),
                        axis_of(l, back, in->width, to->width, l->kernel_w, fine)};
    size_t cap = 0;
    kinds rows;
    *out = (yk__conv_groups){0};
    yk_status st = kinds_of(&rc[0], 1, &rows);
    for (size_t i = 0; !st && i < rows.n; i++)
        st = add_groups(rc, &rows.of[i], &at, out, &cap);
    yk_free(rows.of);
    return st;
}

void yk__conv_groups_free(yk__conv_groups *g)
{
    for (size_t i = 0; i < g->n; i++) {
        yk_free(g->of[i].a_k);
        yk_free(g->of[i].b_k);
        yk_free(g->of[i].b_p);
        yk_free(g->of[i].c_p);
    }
    free(g->of);
    *g = (yk__conv_groups){0};
}
