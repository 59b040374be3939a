/* synth:digits, digits that look handwritten: 28 x 28 pixels, ten classes. They make a download of MNIST unnecessary.
 *
 * A digit is one of several skeletons of strokes: splines through control points. The points are jittered, the whole is
 * rotated, sheared, scaled and shifted, and drawn with a pen of random width, softness and ink. Clutter and noise are added.
 * The amounts are tuned so that a linear model reaches about 92 % and a small convolutional network more than 98 %, as on
 * MNIST.
 */
#include "base/rng.h"
#include "data/synth.h"
#include <string.h>

#define SIDE   28
#define PIXELS (SIDE * SIDE)

/* ---- skeletons, in a box of 100 x 100, y pointing down. A stroke of two points is a line; a longer one is a Catmull-Rom
 * spline through its points, from the first to the last. */
#define MAX_POINTS  14
#define MAX_STROKES 4 /* including a last one without points, which ends a skeleton */

typedef struct {
    uint8_t n;
    uint8_t at[2 * MAX_POINTS]; /* x, y of each point */
} stroke;

static const stroke skeletons[][MAX_STROKES] = {
    /* 0: round, narrow, open at the upper right */
    {{9, {50, 0, 20, 12, 6, 50, 20, 88, 50, 100, 80, 88, 94, 50, 80, 12, 50, 0}}},
    {{9, {52, 0, 32, 14, 22, 52, 32, 90, 50, 100, 68, 88, 78, 48, 68, 12, 52, 0}}},
    {{9, {78, 8, 45, 2, 14, 30, 8, 68, 34, 98, 72, 90, 92, 54, 84, 20, 60, 8}}},
    /* 1: a bar, with a flag, with flag and foot */
    {{2, {50, 0, 50, 100}}},
    {{2, {52, 0, 52, 100}}, {2, {52, 0, 28, 24}}},
    {{2, {52, 0, 52, 100}}, {2, {52, 0, 28, 22}}, {2, {26, 100, 78, 100}}},
    /* 2: with a straight foot, with a loop, angular */
    {{7, {10, 26, 24, 5, 54, 0, 84, 14, 84, 38, 56, 66, 8, 100}}, {2, {8, 100, 94, 98}}},
    {{11, {12, 22, 34, 2, 66, 2, 84, 24, 70, 54, 40, 84, 14, 96, 10, 82, 34, 80, 62, 96, 94, 94}}},
    {{6, {14, 12, 48, 0, 82, 10, 86, 32, 50, 64, 10, 96}}, {3, {10, 96, 50, 92, 90, 100}}},
    /* 3: two bows, flat-topped, with a deep waist */
    {{5, {10, 10, 44, 0, 82, 12, 78, 38, 44, 48}}, {5, {44, 48, 86, 58, 90, 82, 54, 100, 10, 90}}},
    {{2, {12, 2, 84, 0}}, {2, {84, 0, 42, 40}}, {5, {42, 40, 86, 52, 90, 80, 54, 100, 10, 92}}},
    {{9, {14, 6, 56, 0, 84, 20, 62, 42, 36, 48, 70, 54, 88, 76, 60, 100, 10, 96}}},
    /* 4: closed, open, rounded like a y */
    {{2, {66, 0, 6, 66}}, {2, {6, 66, 96, 66}}, {2, {66, 0, 66, 100}}},
    {{2, {30, 0, 10, 56}}, {2, {10, 56, 92, 54}}, {2, {72, 18, 68, 100}}},
    {{5, {14, 0, 10, 28, 24, 52, 56, 52, 84, 36}}, {3, {86, 0, 82, 50, 74, 100}}},
    /* 5: with a hat, rounded, with a slanted back */
    {{2, {88, 0, 22, 2}}, {2, {22, 2, 16, 44}}, {6, {16, 44, 50, 36, 86, 50, 88, 78, 54, 100, 10, 90}}},
    {{7, {30, 4, 18, 40, 46, 40, 82, 56, 80, 84, 48, 100, 10, 96}}, {2, {30, 4, 90, 2}}},
    {{2, {86, 2, 40, 0}}, {6, {40, 0, 22, 42, 64, 46, 82, 70, 56, 98, 12, 98}}},
    /* 6: round, straight-backed, with a small bowl */
    {{9, {76, 2, 36, 20, 10, 56, 14, 88, 46, 100, 82, 88, 84, 62, 50, 48, 14, 66}}},
    {{8, {58, 0, 24, 40, 10, 76, 32, 100, 70, 96, 82, 70, 50, 56, 14, 72}}},
    {{9, {88, 6, 50, 4, 20, 34, 12, 74, 34, 100, 66, 96, 70, 70, 44, 60, 16, 74}}},
    /* 7: plain, crossed, curved */
    {{2, {8, 0, 92, 0}}, {2, {92, 0, 38, 100}}},
    {{2, {8, 2, 92, 0}}, {2, {92, 0, 42, 100}}, {2, {36, 52, 88, 50}}},
    {{3, {6, 12, 40, 4, 88, 8}}, {4, {88, 8, 66, 40, 50, 70, 44, 100}}},
    /* 8: one stroke, two rings, slanted */
    {{13, {50, 46, 20, 30, 24, 6,  50,  0,  76, 6,  80, 30, 50,
           46, 14, 70, 18, 94, 50, 100, 82, 94, 86, 70, 50, 46}}},
    {{7, {50, 0, 24, 12, 26, 38, 50, 46, 74, 38, 76, 12, 50, 0}},
     {7, {50, 46, 16, 60, 18, 90, 50, 100, 82, 90, 84, 60, 50, 46}}},
    {{10, {84, 8, 50, 0, 24, 18, 46, 44, 76, 70, 62, 100, 24, 94, 26, 66, 60, 44, 86, 10}}},
    /* 9: with a straight leg, with a hook, open */
    {{7, {84, 20, 50, 0, 16, 16, 16, 42, 46, 54, 78, 40, 84, 20}}, {3, {84, 20, 82, 60, 70, 100}}},
    {{10, {84, 22, 54, 0, 18, 16, 22, 46, 56, 48, 86, 22, 88, 62, 64, 98, 30, 98, 16, 86}}},
    {{8, {80, 6, 40, 4, 16, 30, 44, 52, 82, 34, 82, 8, 76, 54, 58, 100}}},
};
#define NSKELETONS (sizeof skeletons / sizeof *skeletons)
#define STYLES     3 /* each digit has three, in order */
_Static_assert(NSKELETONS == 10 * STYLES, "three skeletons for each digit");

/* ---- tuned amounts */
#define ROTATE  0.10 /* tangent of half the angle, standard deviation */
#define SHEAR   0.15
#define SCALE   0.10 /* of width and of height */
#define SHIFT   1.0  /* pixels */
#define JITTER  5.0  /* of control points, in the box of 100 */
#define HEIGHT  19.0 /* pixels */
#define WIDTH   14.0
#define CLUTTER 2  /* stray strokes, at most */
#define NOISE   40 /* largest amplitude of the noise, of 255 */

/* ---- drawing. The canvas has a margin, so that the inner loop needs no clipping. */
#define MARGIN 4
#define STRIDE (SIDE + 2 * MARGIN + 4) /* the inner loop draws 4 pixels at a time and may overrun */
#define ROWS   (SIDE + 2 * MARGIN)

typedef struct {
    float gain; /* ink is (outer^2 - distance^2) * gain, held in 0..1 */
    float outer, outer2;
    float ink;
} pen;

static float clampf(float v, float min, float max)
{
    v = v < min ? min : v;
    return v > max ? max : v;
}

static pen pen_make(double radius, double soft, double ink)
{
    double inner = radius - soft < 0.0 ? 0.0 : radius - soft, outer = radius + soft;
    return (pen){(float)(1.0 / (outer * outer - inner * inner)), (float)outer, (float)(outer * outer),
                 (float)ink};
}

/* Ink depends on the distance of a pixel's center from the line; where lines overlap, the darker one is used. */
static void draw_line(float canvas[ROWS][STRIDE], const pen *p, float x0, float y0, float x1, float y1)
{
    const float low = -MARGIN, high = SIDE + MARGIN - 1;
    x0 = clampf(x0, low, high);
    x1 = clampf(x1, low, high);
    y0 = clampf(y0, low, high);
    y1 = clampf(y1, low, high);
    float dx = x1 - x0, dy = y1 - y0, length2 = dx * dx + dy * dy;
    float ux = length2 > 1e-6f ? dx / length2 : 0.0f, uy = length2 > 1e-6f ? dy / length2 : 0.0f;
    float reach = p->outer;
    int left = (int)(clampf((x0 < x1 ? x0 : x1) - reach, low, high) + MARGIN);
    int right = (int)(clampf((x0 < x1 ? x1 : x0) + reach, low, high) + MARGIN) + 1;
    int top = (int)(clampf((y0 < y1 ? y0 : y1) - reach, low, high) + MARGIN);
    int bottom = (int)(clampf((y0 < y1 ? y1 : y0) + reach, low, high) + MARGIN) + 1;
    bottom = bottom < ROWS - 1 ? bottom : ROWS - 1;
    right = right < ROWS - 1 ? right : ROWS - 1;
    for (int y = top; y <= bottom; y++) {
        float py = (float)(y - MARGIN) - y0;
        for (int x = left; x <= right; x += 4) {
            float *to = &canvas[y][x];
            for (int k = 0; k < 4; k++) {
                float px = (float)(x + k - MARGIN) - x0;
                float t = px * ux + py * uy;
                t = t < 0.0f ? 0.0f : t;
                t = t > 1.0f ? 1.0f : t;
                float ex = px - t * dx, ey = py - t * dy;
                float v = (p->outer2 - (ex * ex + ey * ey)) * p->gain;
                v = v > 1.0f ? 1.0f : v;
                v = v * p->ink;
                to[k] = to[k] > v ? to[k] : v;
            }
        }
    }
}

/* About normal, variance 1, from one random number: the sum of four uniforms. */
static double normal(yk_rng *r)
{
    uint64_t u = yk_rng_u64(r);
    u = (u & 0x0000ffff0000ffffu) + ((u >> 16) & 0x0000ffff0000ffffu);
    double sum = (double)((u & 0xffffffffu) + (u >> 32)); /* 0 .. 4 * 65535 */
    return (sum * 0x1p-16 - 2.0) * 1.7320508075688772;
}

static double between(yk_rng *r, double min, double max)
{
    return min + (max - min) * yk_rng_unit(r);
}

#define SPLINE_PIECES 3

/* One stroke through n points, in canvas coordinates. */
static void draw_stroke(float canvas[ROWS][STRIDE], const pen *p, float at[][2], int n)
{
    /* Catmull-Rom weights of the four nearest control points, at 1/3 and 2/3 of a segment */
    static const float weight[SPLINE_PIECES - 1][4] = {
        {-2.0f / 27.0f, 21.0f / 27.0f, 9.0f / 27.0f, -1.0f / 27.0f},
        {-1.0f / 27.0f, 9.0f / 27.0f, 21.0f / 27.0f, -2.0f / 27.0f},
    };
    for (int i = 0; i + 1 < n; i++) {
        const float *a = at[i > 0 ? i - 1 : 0], *b = at[i], *c = at[i + 1],
                    *d = at[i + 2 < n ? i + 2 : n - 1];
        float x = b[0], y = b[1];
        for (int k = 0; n > 2 && k < SPLINE_PIECES - 1; k++) {
            const float *w = weight[k];
            float nx = w[0] * a[0] + w[1] * b[0] + w[2] * c[0] + w[3] * d[0];
            float ny = w[0] * a[1] + w[1] * b[1] + w[2] * c[1] + w[3] * d[1];
            draw_line(canvas, p, x, y, nx, ny);
            x = nx;
            y = ny;
        }
        draw_line(canvas, p, x, y, c[0], c[1]);
    }
}

/* Draws a digit, row by row; 0 is background, 255 is ink. Returns which digit it is. At most one random number per declarator
 * or statement: C does not define the order in which arguments and initializers are evaluated, and compilers differ. */
static int draw_digit(uint64_t seed, uint64_t stream, uint8_t pixels_out[PIXELS])
{
    yk_rng r = yk_rng_seed(seed, stream);
    const uint32_t style = yk_rng_below(&r, NSKELETONS);
    float canvas[ROWS][STRIDE];
    memset(canvas, 0, sizeof canvas);

    /* the affine map from the box to the canvas: scale, shear, rotate, shift */
    double width = WIDTH / 100.0 * (1.0 + SCALE * normal(&r)),
           height = HEIGHT / 100.0 * (1.0 + SCALE * normal(&r));
    double shear = SHEAR * normal(&r), half = ROTATE * normal(&r);
    double cosine = (1.0 - half * half) / (1.0 + half * half), sine = 2.0 * half / (1.0 + half * half);
    double xx = cosine * width, xy = (-sine - cosine * shear) * height;
    double yx = sine * width, yy = (cosine - sine * shear) * height;
    double mid = (SIDE - 1) / 2.0;
    double mx = mid + SHIFT * normal(&r), my = mid + SHIFT * normal(&r);

    double radius = between(&r, 0.7, 1.9), soft = between(&r, 0.5, 0.9), ink = between(&r, 0.65, 1.0);
    pen p = pen_make(radius, soft, ink);
    for (const stroke *s = skeletons[style]; s->n; s++) {
        float at[MAX_POINTS][2];
        for (int k = 0; k < s->n; k++) {
            double bx = s->at[2 * k] - 50.0 + JITTER * normal(&r),
                   by = s->at[2 * k + 1] - 50.0 + JITTER * normal(&r);
            at[k][0] = (float)(mx + xx * bx + xy * by);
            at[k][1] = (float)(my + yx * bx + yy * by);
        }
        draw_stroke(canvas, &p, at, s->n);
    }

    /* clutter: short stray strokes anywhere */
    for (uint32_t i = yk_rng_below(&r, CLUTTER + 1); i > 0; i--) {
        double thick = between(&r, 0.5, 1.1), pale = between(&r, 0.3, 0.8);
        double x = between(&r, 0.0, SIDE - 1), y = between(&r, 0.0, SIDE - 1);
        double dx = 2.2 * normal(&r), dy = 2.2 * normal(&r);
        pen stray = pen_make(thick, 0.6, pale);
        draw_line(canvas, &stray, (float)x, (float)y, (float)(x + dx), (float)(y + dy));
    }

    /* noise: eight pixels from each random number */
    uint32_t noise = yk_rng_below(&r, NOISE + 1);
    for (int y = 0; y < SIDE; y++) {
        const float *row = &canvas[y + MARGIN][MARGIN];
        uint8_t *to = pixels_out + y * SIDE;
        uint8_t grain[32];
        for (int k = 0; k < 32; k += 8) {
            uint64_t draw = yk_rng_u64(&r);
            memcpy(grain + k, &draw, sizeof draw);
        }
        for (int x = 0; x < SIDE; x++) {
            int v = (int)(row[x] * 255.0f + 0.5f);
            int g = (int)((grain[x] * noise) >> 8);
            v = v > 127 ? v - g : v + g; /* reduces contrast, and stays within 0 .. 255 */
            to[x] = (uint8_t)v;
        }
    }
    return (int)(style / STYLES);
}

static yk_status make_digit(const yk_synth *s, uint64_t number, yk_rows *rows)
{
    uint8_t *pixels;
    yk_status st = yk_rows_dense_u8(rows, &pixels);
    if (st)
        return st;
    int digit = draw_digit(s->seed, s->stream + number, pixels);
    return yk_rows_commit(rows, 0, digit);
}

yk_status yk__synth_digits(yk_synth *s)
{
    s->make = make_digit;
    s->base.classes = 10;
    yk__set_images(&s->base, SIDE, SIDE, 1);
    return yk__synth_common(s, 1024, 60000, 10000);
}
