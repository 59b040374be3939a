/* The functions of lanes.h, compiled once per instruction set. */
#include "kern/lanes.h"

#include "kern/vmath.h"
#include <math.h>
#include <string.h>

enum { Q = YK_LANES / YK_VW };
typedef uint32_t vu __attribute__((vector_size(YK_VW * 4)));

YK_ALWAYS_INLINE yk_vf activated(yk_activation kind, yk_vf x)
{
    if (kind == YK_RELU)
        return yk_vselect(x < 0.0f, yk_vset(0.0f), x); /* NaN stays NaN */
    /* tanh(x) = 2 sigmoid(2x) - 1; near 0, where that loses digits, the Taylor series */
    yk_vf z = kind == YK_TANH ? 2.0f * x : x;
    yk_vf s = 1.0f / (1.0f + yk_vexp(-z));
    if (kind == YK_SIGMOID)
        return s;
    yk_vf x2 = x * x,
          series = x * (1.0f + x2 * (-1.0f / 3.0f + x2 * (2.0f / 15.0f + x2 * (-17.0f / 315.0f))));
    return yk_vselect(x2 < 0.04f, series, 2.0f * s - 1.0f);
}

static void activate(yk_activation kind, float *x, size_t n)
{
    for (size_t i = 0; i < n; i += YK_VW)
        yk_vstore(x + i, activated(kind, yk_vload(x + i)));
}

static void activate_back(yk_activation kind, const float *y, float *dy, size_t n)
{
    if (kind == YK_RELU)
        for (size_t i = 0; i < n; i += YK_VW)
            yk_vstore(dy + i, yk_vselect(yk_vload(y + i) > 0.0f, yk_vload(dy + i), yk_vset(0.0f)));
    else
        for (size_t i = 0; i < n; i += YK_VW) {
            yk_vf v = yk_vload(y + i);
            yk_vstore(dy + i, yk_vload(dy + i) * (kind == YK_TANH ? 1.0f - v * v : v * (1.0f - v)));
        }
}

static void dropout(float *x, size_t n, float rate, uint64_t noise, uint64_t first)
{
    const uint32_t seed = (uint32_t)(noise ^ (noise >> 32)), limit = (uint32_t)((double)rate * 4294967295.0);
    const float scale = 1.0f / (1.0f - rate);
    vu count;
    for (int l = 0; l < YK_VW; l++)
        count[l] = (uint32_t)first + (uint32_t)l;
    for (size_t i = 0; i < n; i += YK_VW) {
        vu h = (count + (uint32_t)i) * 0x9e3779b1u ^ seed;
        h = (h ^ (h >> 16)) * 0x85ebca6bu;
        h = (h ^ (h >> 13)) * 0xc2b2ae35u;
        h ^= h >> 16;
        yk_vstore(x + i, yk_vselect((yk_vi)(h < limit), yk_vset(0.0f), yk_vload(x + i) * scale));
    }
}

YK_ALWAYS_INLINE const float *at(const float *plane, size_t row, size_t y, size_t x, int q)
{
    return plane + y * row + x * YK_LANES + (size_t)q * YK_VW;
}

/* size, stride and average are constants in most calls. */
YK_ALWAYS_INLINE void windows(const yk_pool *p, size_t size, size_t stride, bool average)
{
    const float scale = 1.0f / (float)(size * size);
    for (size_t y = 0; y < p->out_height; y++)
        for (size_t x = 0; x < p->out_width; x++)
            for (int q = 0; q < Q; q++) {
                yk_vf out = average ? yk_vset(0.0f) : yk_vload(at(p->x, p->x_row, y * stride, x * stride, q));
                for (size_t a = 0; a < size; a++)
                    for (size_t b = 0; b < size; b++) {
                        yk_vf v = yk_vload(at(p->x, p->x_row, y * stride + a, x * stride + b, q));
                        out =
                            average ? out + v : yk_vselect((v > out) | (v != v), v, out); /* NaN stays NaN */
                    }
                yk_vstore((float *)at(p->out, p->y_row, y, x, q), average ? out * scale : out);
            }
}

static void pool(const yk_pool *p)
{
    if (p->average)
        windows(p, p->size, p->stride, true);
    else if (p->size == 2 && p->stride == 2)
        windows(p, 2, 2, false);
    else
        windows(p, p->size, p->stride, false);
}

/* Whether every pixel is in exactly one window: then gradients are written instead of added to zeros. */
static bool tiled(const yk_pool *p)
{
    return p->size == p->stride && p->height == p->out_height * p->stride &&
           p->width == p->out_width * p->stride;
}

static void clear(const yk_pool *p)
{
    for (size_t y = 0; y < p->height; y++)
        memset(p->out + y * p->dx_row, 0, p->width * YK_LANES * sizeof *p->out);
}

YK_ALWAYS_INLINE void windows_back(const yk_pool *p, size_t size, size_t stride, bool average, bool add)
{
    const float scale = 1.0f / (float)(size * size);
    for (size_t y = 0; y < p->out_height; y++)
        for (size_t x = 0; x < p->out_width; x++)
            for (int q = 0; q < Q; q++) {
                yk_vf max = average ? yk_vset(0.0f) : yk_vload(at(p->y, p->y_row, y, x, q)),
                      grad = yk_vload(at(p->dy, p->dy_row, y, x, q)) * (average ? scale : 1.0f);
                for (size_t a = 0; a < size; a++)
                    for (size_t b = 0; b < size; b++) {
                        float *dx = (float *)at(p->out, p->dx_row, y * stride + a, x * stride + b, q);
                        yk_vf part = grad;
                        if (!average) {
                            yk_vi here =
                                yk_vload(at(p->x, p->x_row, y * stride + a, x * stride + b, q)) == max;
                            part = yk_vselect(here, grad, yk_vset(0.0f));
                            grad = yk_vselect(here, yk_vset(0.0f), grad);
                        }
                        yk_vstore(dx, add ? yk_vload(dx) + part : part);
                    }
            }
}

static void pool_back(const yk_pool *p)
{
    const bool add = !tiled(p);
    if (add)
        clear(p);
    if (p->average)
        windows_back(p, p->size, p->stride, true, add);
    else if (add)
        windows_back(p, p->size, p->stride, false, true);
    else if (p->size == 2)
        windows_back(p, 2, 2, false, false);
    else
        windows_back(p, p->size, p->stride, false, false);
}

/* The bracket in the formula of yk_lrn, for vector i of channel c. */
YK_ALWAYS_INLINE yk_vf bracket(const yk_lrn p, size_t c, size_t i)
{
    size_t begin = c >= p.size / 2 ? c - p.size / 2 : 0,
           end = c + (p.size + 1) / 2 < p.channels ? c + (p.size + 1) / 2 : p.channels;
    yk_vf sum = yk_vset(0.0f);
    for (size_t j = begin; j < end; j++) {
        yk_vf v = yk_vload(p.x + j * p.channel + i);
        sum += v * v;
    }
    return p.bias + p.alpha / (float)p.size * sum;
}

static void normalize(const yk_lrn *lrn)
{
    const yk_lrn p = *lrn; /* a copy: the compiler then knows that stores to `out` do not change it */
    for (size_t c = 0; c < p.channels; c++)
        for (size_t i = 0; i < p.n * YK_LANES; i += YK_VW) {
            const size_t at = c * p.channel + i;
            yk_vstore(p.out + at, yk_vload(p.x + at) * yk_vexp(-p.beta * yk_vlog(bracket(p, c, i))));
        }
}

static void normalize_back(const yk_lrn *lrn)
{
    const yk_lrn p = *lrn;
    const float factor = 2.0f * p.alpha * p.beta / (float)p.size;
    for (size_t c = 0; c < p.channels; c++) {
        /* channels j whose window includes c */
        size_t begin = c + 1 >= (p.size + 1) / 2 ? c + 1 - (p.size + 1) / 2 : 0;
        size_t end = c + p.size / 2 + 1 < p.channels ? c + p.size / 2 + 1 : p.channels;
        for (size_t i = 0; i < p.n * YK_LANES; i += YK_VW) {
            const size_t at = c * p.channel + i;
            yk_vf sum = yk_vset(0.0f), own = bracket(p, c, i);
            for (size_t j = begin; j < end; j++)
                sum +=
                    yk_vload(p.dy + j * p.channel + i) * yk_vload(p.y + j * p.channel + i) / bracket(p, j, i);
            yk_vf direct = yk_vload(p.dy + at) * yk_vexp(-p.beta * yk_vlog(own));
            yk_vstore(p.out + at, direct - factor * yk_vload(p.x + at) * sum);
        }
    }
}

static double softmax(float *logits, size_t classes, const yk_batch *b, size_t first, size_t n, float *p)
{
    const bool weighted = yk_batch_weighted(b);
    double loss = 0.0;
    for (int q = 0; q < Q; q++) {
        float *z = logits + (size_t)q * YK_VW, right[YK_VW] = {0}, losses[YK_VW];
        const size_t done = (size_t)q * YK_VW, lanes = n > done ? (n - done < YK_VW ? n - done : YK_VW) : 0;
        int32_t label[YK_VW] = {0};
        yk_vf max = yk_vload(z), sum = yk_vset(0.0f);
        for (size_t c = 1; c < classes; c++)
            max = yk_vmax(yk_vload(z + c * YK_LANES), max);
        for (size_t l = 0; l < lanes; l++) {
            label[l] = b->rows->label[b->pick[first + done + l]];
            right[l] = z[(size_t)label[l] * YK_LANES + l];
        }
        for (size_t c = 0; c < classes; c++) {
            yk_vf e = yk_vexp(yk_vload(z + c * YK_LANES) - max);
            sum += e;
            yk_vstore(z + c * YK_LANES, e);
        }
        /* yk_vlog does not propagate NaN, and the loss must. The difference first: it is exact when the loss is small. */
        yk_vstore(losses, yk_vselect(sum == sum, yk_vlog(sum), sum) + (max - yk_vload(right)));
        yk_vf inverse = 1.0f / sum;
        for (size_t c = 0; c < classes; c++) {
            yk_vstore(z + c * YK_LANES, yk_vload(z + c * YK_LANES) * inverse);
            for (size_t l = 0; p && l < lanes; l++)
                p[(done + l) * classes + c] = z[c * YK_LANES + l];
            for (size_t l = lanes; l < YK_VW; l++)
                z[c * YK_LANES + l] = 0.0f;
        }
        for (size_t l = 0; l < lanes; l++) {
            const float weight = weighted ? yk_batch_weight(b, first + done + l) : 1.0f;
            z[(size_t)label[l] * YK_LANES + l] -= 1.0f;
            loss += (double)weight * (double)losses[l];
            for (size_t c = 0; weighted && c < classes; c++)
                z[c * YK_LANES + l] *= weight;
        }
    }
    return loss;
}

typedef uint8_t bytes __attribute__((vector_size(16)));

/* Transposes 16 x 16 bytes. Interleaving the first 8 vectors with the last 8 rotates the index of each byte (4 bits of row, 4
 * bits of column) by one bit; after four rounds, row and column are exchanged. */
YK_ALWAYS_INLINE void transpose(bytes v[16])
{
    for (int round = 0; round < 4; round++) {
        bytes t[16];
        for (int i = 0; i < 8; i++) {
            const bytes a = v[i], b = v[i + 8];
            t[2 * i] = __builtin_shufflevector(a, b, 0, 16, 1, 17, 2, 18, 3, 19, 4, 20, 5, 21, 6, 22, 7, 23);
            t[2 * i + 1] =
                __builtin_shufflevector(a, b, 8, 24, 9, 25, 10, 26, 11, 27, 12, 28, 13, 29, 14, 30, 15, 31);
        }
        memcpy(v, t, sizeof t);
    }
}

/* Pixels at .. at + m, at most 16. */
YK_ALWAYS_INLINE void interleave_tile(const uint8_t *const *row, size_t at, size_t m, float scale, float *x)
{
    bytes tile[YK_LANES] = {0}; /* [image][pixel] */
    for (size_t l = 0; l < YK_LANES; l++)
        if (row[l])
            memcpy(&tile[l], row[l] + at, m);
    transpose(tile);
    for (size_t j = 0; j < m; j++)
        for (int l = 0; l < YK_LANES; l++)
            x[j * YK_LANES + (size_t)l] = (float)tile[j][l] * scale;
}

static void interleave_u8(const uint8_t *const *row, size_t first, size_t n, float scale, float *x)
{
    if (n < 16)
        interleave_tile(row, first, n, scale, x);
    for (size_t i = 0; n >= 16 && i < n; i += 16) {
        const size_t at = i + 16 <= n ? i : n - 16; /* the last tile overlaps the one before */
        interleave_tile(row, first + at, 16, scale, x + at * YK_LANES);
    }
}

static void interleave_f32(const float *const *row, size_t first, size_t n, float *x)
{
    for (size_t l = 0; l < YK_LANES; l++)
        for (size_t i = 0; i < n; i++)
            x[i * YK_LANES + l] = row[l] ? row[l][first + i] : 0.0f;
}

const yk_lanes_ops YK_ISA_NAME(yk_lanes) = {activate,      activate_back, dropout,        pool,
                                            pool_back,     normalize,     normalize_back, softmax,
                                            interleave_u8, interleave_f32};
