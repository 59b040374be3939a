#include "model/conv_groups.h"

enum { MAX_KINDS = 8 };       /* roughly, on each side of an image */
enum { MAX_TERMS = 1 << 15 }; /* per pixel: with more, the tables of many groups would need too much memory */

/* The rows or the columns of a product. A line is one of them. */
typedef struct {
    bool back, all;  /* all: every line has all taps */
    size_t from, to; /* lines of the factor and of the result */
    size_t kernel, stride, pad;
    size_t min; /* lines of a kind */
} axis;

/* Lines first, first + step, ... that use the same taps. */
typedef struct {
    uint64_t taps;
    size_t first, lines;
} kind;

typedef struct {
    kind *kind; /* in the arena */
    size_t n;
} kinds;

static const char what[] = "a layer's tables";

/* Distance between the lines of a kind. */
static size_t step_of(const axis *a)
{
    return a->back ? a->stride : 1;
}

/* The line of the factor that a tap reads is base() + shift(). For taps that taps_of() excludes, the division has a remainder. */
static int64_t shift(const axis *a, size_t line, size_t tap)
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
        const int64_t at = base(a, line) + shift(a, line, tap);
        if (a->all || (divides && at >= 0 && at < (int64_t)a->from))
            taps |= UINT64_C(1) << tap;
    }
    return taps;
}

/* Divides the lines into kinds of at least `min` lines, where possible. */
static kinds kinds_of(const axis *a, size_t min, yk_arena *memory)
{
    const size_t step = step_of(a);
    min = min > a->min ? min : a->min;
    kinds k = {.kind = yk_arena_alloc(memory, a->to, sizeof(kind), what)};
    for (size_t first = 0; k.kind && first < step && first < a->to; first++) {
        const size_t begin = k.n;
        uint64_t before = 0;
        for (size_t line = first; line < a->to; line += step) {
            const uint64_t taps = taps_of(a, line);
            if (line == first || (taps != before && k.kind[k.n - 1].lines >= min))
                k.kind[k.n++] = (kind){.first = line};
            k.kind[k.n - 1].taps |= taps;
            k.kind[k.n - 1].lines++;
            before = taps;
        }
        if (k.n > begin + 1 && k.kind[k.n - 1].lines < min) {
            k.n--;
            k.kind[k.n - 1].taps |= k.kind[k.n].taps;
            k.kind[k.n - 1].lines += k.kind[k.n].lines;
        }
    }
    return k;
}

static size_t count(uint64_t taps)
{
    return (size_t)__builtin_popcountll(taps);
}

static bool has(const kind *k, size_t tap)
{
    return k->taps >> tap & 1;
}

/* Layout of the factor, the weights and the result. */
typedef struct {
    size_t channels; /* of the factor */
    size_t weights;  /* between two of them */
    yk__strides from, to;
} layout;

static yk__conv_group make_group(const axis rc[2], const kind *rows, const kind *columns, const layout *at,
                                 yk_arena *memory)
{
    const axis *ra = &rc[0], *ca = &rc[1];
    const size_t terms = at->channels * count(rows->taps) * count(columns->taps),
                 pixels = rows->lines * columns->lines;
    const yk__conv_group g = {.terms = terms,
                              .pixels = pixels,
                              .work = pixels * (terms + 1),
                              .a_k = yk_arena_alloc(memory, terms, sizeof(int32_t), what),
                              .b_k = yk_arena_alloc(memory, terms, sizeof(int32_t), what),
                              .b_p = yk_arena_alloc(memory, pixels, sizeof(int32_t), what),
                              .c_p = yk_arena_alloc(memory, pixels, sizeof(int32_t), what)};
    if (memory->status)
        return g;
    size_t k = 0, p = 0;
    for (size_t i = 0; i < at->channels; i++)
        for (size_t r = 0; r < ra->kernel; r++)
            for (size_t c = 0; c < ca->kernel; c++)
                if (has(rows, r) && has(columns, c)) {
                    g.a_k[k] = (int32_t)(i * at->weights + r * ca->kernel + c);
                    g.b_k[k++] = (int32_t)((int64_t)(i * at->from.channel) +
                                           shift(ra, rows->first, r) * (int64_t)at->from.row +
                                           shift(ca, columns->first, c) * YK_LANES);
                }
    for (size_t i = 0; i < rows->lines; i++)
        for (size_t j = 0; j < columns->lines; j++) {
            const size_t y = rows->first + i * step_of(ra), x = columns->first + j * step_of(ca);
            g.b_p[p] = yk__offset(&at->from, 0, base(ra, y), base(ca, x));
            g.c_p[p++] = yk__offset(&at->to, 0, (int64_t)y, (int64_t)x);
        }
    return g;
}

static axis axis_of(const yk__layer *l, yk__conv_product product, size_t in, size_t out, size_t kernel,
                    bool fine)
{
    const bool back = product == YK__CONV_INPUT_GRADIENT;
    return (axis){.back = back,
                  .all = product == YK__CONV_WEIGHT_GRADIENT,
                  .from = back ? out : in,
                  .to = back ? in : out,
                  .kernel = kernel,
                  .stride = l->stride,
                  .pad = l->pad,
                  .min = fine ? kernel / (MAX_KINDS * (back ? l->stride : 1)) + 1 : SIZE_MAX};
}

yk__conv_groups yk__conv_groups_make(const yk__layer *l, yk__conv_product product, yk_arena *memory)
{
    const yk__edge *in = &l->in_edge, *to = &l->out_edge;
    const size_t taps = l->kernel_h * l->kernel_w;
    const bool back = product == YK__CONV_INPUT_GRADIENT;
    const layout at = {.channels = back ? to->channels : in->channels,
                       .weights = back ? in->channels * taps : taps,
                       .from = back ? l->dy : l->x,
                       .to = back                          ? l->dx
                             : product == YK__CONV_FORWARD ? l->y
                                                           : l->dy};
    const bool fine = product != YK__CONV_WEIGHT_GRADIENT && at.channels * taps <= MAX_TERMS;
    const axis rc[2] = {axis_of(l, product, in->height, to->height, l->kernel_h, fine),
                        axis_of(l, product, in->width, to->width, l->kernel_w, fine)};
    const kinds rows = kinds_of(&rc[0], 1, memory), most = kinds_of(&rc[1], 1, memory);
    yk__conv_groups out = {.group = yk_arena_alloc(memory, rows.n * most.n, sizeof *out.group, what)};
    for (size_t i = 0; i < rows.n; i++) {
        const size_t lines = rows.kind[i].lines;
        const kinds columns = kinds_of(&rc[1], (YK__CONV_TILE + lines - 1) / lines, memory);
        for (size_t j = 0; !memory->status && j < columns.n; j++) {
            out.group[out.n] = make_group(rc, &rows.kind[i], &columns.kind[j], &at, memory);
            out.work += out.group[out.n++].work;
        }
    }
    return out;
}
