/* synth:images, images of any size and number of classes that can be learned, in place of CIFAR-10 and ImageNet.
 *
 *     synth:images?size=32&classes=10&channels=3&examples=50000&test=10000&seed=1
 *
 * Each class has three kinds of objects. An object is a smooth color pattern (value noise with a period of at most 64
 * pixels) with the soft outline of one of a few blobs. An image shows an object of its class, shifted by up to a fifth of
 * the size, in front of a background pattern that is independent of the class. Contrast, brightness and noise vary:
 *
 *     pixel = contrast * (background + outline * (object - background)) + brightness + noise
 *
 * The amounts are tuned so that at size 32 with 10 classes a linear model classifies about half of the images correctly and
 * a small convolutional network nearly all. Integer arithmetic only.
 */
#include "base/rng.h"
#include "data/synth.h"
#include <stdlib.h>
#include <string.h>

/* ---- tuned amounts */
#define MAX_TILE     64 /* largest period of a pattern, in pixels */
#define KINDS        3  /* kinds of objects in a class */
#define BACKGROUNDS  24
#define OUTLINES     12
#define CELLS        4  /* cells of a pattern's lattice, in each direction */
#define RADIUS       56 /* of an outline, of 256: from RADIUS to RADIUS + RADIUS_RANGE */
#define RADIUS_RANGE 40
#define GROUND       56 /* backgrounds are from GROUND to 255 - GROUND */
#define JITTER       5  /* an object is shifted by up to size / JITTER in each direction */
#define CONTRAST_MIN 40 /* of 64 */
#define CONTRAST_MAX 64
#define BRIGHT       24 /* brightness, up or down */
#define NOISE        24 /* largest amplitude of the noise */

typedef int16_t i16x8 __attribute__((vector_size(16)));
typedef uint8_t u8x8 __attribute__((vector_size(8)));

typedef struct {
    uint32_t tile, margin, stride; /* stride: of an outline's row */
    /* [classes * KINDS + BACKGROUNDS][channels][tile][2 * tile]: rows are stored twice, so that reading can start at any
     * column */
    uint8_t *patterns;
    size_t pattern_bytes;
    uint8_t *outlines; /* [OUTLINES][size + 2 margin][stride], 0 .. 127 */
    size_t outline_bytes;
} generator;

/* ---- patterns and outlines, drawn once */

/* Smooth step from 0 to 256: 3t^2 - 2t^3 for t = at / of. */
static uint32_t smooth(uint32_t at, uint32_t of)
{
    uint64_t t = (uint64_t)at * 4096 / of;
    return (uint32_t)(t * t * (3 * 4096 - 2 * t) >> 28);
}

static int blend(int a, int b, uint32_t of256)
{
    return a + (b - a) * (int)of256 / 256;
}

/* A periodic pattern: values on a lattice, interpolated smoothly. Every pattern has the same values in a different order, so
 * that no class is brighter or redder than another. */
static void draw_plane(yk_rng *r, uint32_t tile, int dark, int light, uint8_t *plane)
{
    uint8_t lattice[CELLS][CELLS] = {{0}};
    for (int i = 0; i < CELLS * CELLS; i++) {
        int j = (int)yk_rng_below(r, (uint32_t)i + 1);
        lattice[i / CELLS][i % CELLS] = lattice[j / CELLS][j % CELLS];
        lattice[j / CELLS][j % CELLS] = (uint8_t)(dark + i * (light - dark) / (CELLS * CELLS - 1));
    }
    for (uint32_t y = 0; y < tile; y++) {
        uint32_t cy = y * CELLS / tile, fy = smooth(y * CELLS % tile, tile);
        for (uint32_t x = 0; x < tile; x++) {
            uint32_t cx = x * CELLS / tile, fx = smooth(x * CELLS % tile, tile);
            const uint8_t *above = lattice[cy], *below = lattice[(cy + 1) % CELLS];
            int top = blend(above[cx], above[(cx + 1) % CELLS], fx);
            int bottom = blend(below[cx], below[(cx + 1) % CELLS], fx);
            plane[y * 2 * tile + x] = (uint8_t)blend(top, bottom, fy);
        }
        memcpy(plane + y * 2 * tile + tile, plane + y * 2 * tile, tile);
    }
}

/* A blob: a disc with a soft edge whose radius depends on the direction: right, below, left, above, and the four diagonals
 * between them. x and y are relative to the center, in units of size / 256. */
static int blob(const int straight[4], const int between[4], int x, int y)
{
    int ax = abs(x), ay = abs(y), large = ax > ay ? ax : ay, small = ax > ay ? ay : ax;
    int side = ax > ay ? straight[x < 0 ? 2 : 0] : straight[y < 0 ? 3 : 1];
    int corner = between[(y < 0 ? 2 : 0) + (x < 0)];
    int r = large ? side + (corner - side) * small / large : side;
    int d2 = x * x + y * y, inner = r - 12, outer = r + 12;
    if (d2 <= inner * inner)
        return 127;
    if (d2 >= outer * outer)
        return 0;
    return (outer * outer - d2) * 127 / (outer * outer - inner * inner);
}

static void draw_outline(yk_rng *r, const generator *p, int size, uint8_t *out)
{
    int radius[8], margin = (int)p->margin;
    for (int i = 0; i < 8; i++)
        radius[i] = RADIUS + (int)yk_rng_below(r, RADIUS_RANGE);
    for (int y = 0; y < size + 2 * margin; y++)
        for (int x = 0; x < size + 2 * margin; x++) {
            int bx = (2 * (x - margin) + 1 - size) * 128 / size,
                by = (2 * (y - margin) + 1 - size) * 128 / size;
            out[(size_t)y * p->stride + (size_t)x] = (uint8_t)blob(radius, radius + 4, bx, by);
        }
}

static generator *create(yk_synth *s)
{
    const size_t size = s->base.height, channels = s->base.channels,
                 objects = (size_t)s->base.classes * KINDS;
    generator head = {.tile = size < MAX_TILE ? (uint32_t)size : MAX_TILE, .margin = (uint32_t)size / JITTER};
    head.stride = (uint32_t)size + 2 * head.margin + 8;
    size_t patterns = objects + BACKGROUNDS;
    size_t plane = (size_t)head.tile * 2 * head.tile;
    head.pattern_bytes = channels * plane;
    head.outline_bytes = head.stride * (size + 2 * head.margin);
    size_t header = YK_ROUND_UP(sizeof head, YK_ALIGN);
    size_t bytes = header + patterns * head.pattern_bytes + OUTLINES * head.outline_bytes + 16;
    uint8_t *block = yk_arena_alloc(&s->base.arena, bytes, 1, "image patterns");
    if (!block)
        return NULL;
    generator *p = (generator *)block;
    *p = head;
    p->patterns = block + header;
    p->outlines = p->patterns + patterns * p->pattern_bytes;
    uint64_t seed = yk_mix64(s->seed ^ 0x706963747572u); /* differs from the streams of examples */
    for (size_t i = 0; i < patterns; i++) {
        yk_rng r = yk_rng_seed(seed, i);
        bool object = i < objects;
        for (size_t c = 0; c < channels; c++)
            draw_plane(&r, p->tile, object ? 0 : GROUND, object ? 255 : 255 - GROUND,
                       p->patterns + i * p->pattern_bytes + c * plane);
    }
    for (size_t i = 0; i < OUTLINES; i++) {
        yk_rng r = yk_rng_seed(seed, UINT64_MAX - i);
        draw_outline(&r, p, (int)size, p->outlines + i * p->outline_bytes);
    }
    return p;
}

/* ---- one image */

typedef struct {
    i16x8 contrast, level; /* contrast is of 64; level is added after it */
    i16x8 noise;
} tone;

static i16x8 all(int v)
{
    int16_t w = (int16_t)v;
    return (i16x8){w, w, w, w, w, w, w, w};
}

static inline i16x8 load8(const uint8_t *p)
{
    u8x8 v;
    memcpy(&v, p, sizeof v);
    return __builtin_convertvector(v, i16x8);
}

/* Eight pixels. All products fit in 16 bits: 255 * 127, 255 * 64, 128 * NOISE. */
static inline u8x8 mix8(const uint8_t *object, const uint8_t *ground, const uint8_t *outline, uint64_t draw,
                        const tone *t)
{
    i16x8 g = load8(ground), v = g + (((load8(object) - g) * load8(outline)) >> 7);
    i16x8 grain = load8((const uint8_t *)&draw) - 128;
    v = ((v * t->contrast) >> 6) + t->level + ((grain * t->noise) >> 7);
    v = v & (v > 0); /* a true comparison is all ones */
    v = (v & (v < 255)) | (255 & (v >= 255));
    return __builtin_convertvector(v, u8x8);
}

/* One row of `size` pixels. Patterns repeat after `tile` pixels. */
static void mix_row(yk_rng *r, const tone *t, uint32_t size, uint32_t tile, const uint8_t *object,
                    const uint8_t *ground, const uint8_t *outline, uint8_t *out)
{
    for (uint32_t x = 0; x < size; x += tile) {
        uint32_t n = size - x < tile ? size - x : tile, i = 0;
        for (; i + 8 <= n; i += 8) {
            u8x8 v = mix8(object + i, ground + i, outline + x + i, yk_rng_u64(r), t);
            memcpy(out + x + i, &v, sizeof v);
        }
        if (i < n) { /* reads up to 7 bytes further: rows are stored twice, and the allocation is padded */
            u8x8 v = mix8(object + i, ground + i, outline + x + i, yk_rng_u64(r), t);
            memcpy(out + x + i, &v, n - i);
        }
    }
}

/* One random number per declarator: C does not define the order of evaluation within an expression. */
static yk_status make_image(const yk_synth *s, uint64_t number, yk_rows *rows)
{
    const generator *p = s->state;
    const uint32_t size = (uint32_t)s->base.height, tile = p->tile, margin = p->margin;
    uint8_t *pixels;
    yk_status st = yk_rows_dense_u8(rows, &pixels);
    if (st)
        return st;
    yk_rng r = yk_rng_seed(s->seed, s->stream + number);
    uint32_t class = yk_rng_below(&r, s->base.classes), kind = yk_rng_below(&r, KINDS);
    uint32_t back = yk_rng_below(&r, BACKGROUNDS);
    uint32_t dx = yk_rng_below(&r, 2 * margin + 1), dy = yk_rng_below(&r, 2 * margin + 1);
    uint32_t gx = yk_rng_below(&r, tile), gy = yk_rng_below(&r, tile);
    int contrast = CONTRAST_MIN + (int)yk_rng_below(&r, CONTRAST_MAX - CONTRAST_MIN + 1);
    int bright = (int)yk_rng_below(&r, 2 * BRIGHT + 1) - BRIGHT;
    int noise = (int)yk_rng_below(&r, NOISE + 1);
    tone t = {all(contrast), all(128 - 128 * contrast / 64 + bright), all(noise)};
    size_t which = (size_t) class * KINDS + kind, plane = (size_t)tile * 2 * tile;
    const uint8_t *object = p->patterns + which * p->pattern_bytes;
    const uint8_t *ground = p->patterns + ((size_t)s->base.classes * KINDS + back) * p->pattern_bytes;
    const uint8_t *outline = p->outlines + which % OUTLINES * p->outline_bytes;
    for (size_t c = 0; c < s->base.channels; c++, object += plane, ground += plane)
        for (uint32_t y = 0; y < size; y++)
            mix_row(&r, &t, size, tile, object + (size_t)((y + dy) % tile) * 2 * tile + dx % tile,
                    ground + (size_t)((y + gy) % tile) * 2 * tile + gx,
                    outline + (size_t)(y + dy) * p->stride + dx, pixels + (c * size + y) * size);
    return yk_rows_commit(rows, 0, (int32_t) class);
}

yk_status yk__synth_images(yk_synth *s)
{
    yk_source *b = &s->base;
    yk_spec *spec = &b->parsed;
    const size_t size = (size_t)yk_spec_u64(spec, "size", 32, 16, 512);
    b->classes = (uint32_t)yk_spec_u64(spec, "classes", 10, 2, 10000);
    yk__set_images(b, size, size, yk_spec_choice(spec, "channels", "1 3", 1) ? 3 : 1);
    const size_t block = b->dim < (1u << 20) / 64 ? (1u << 20) / b->dim : 64; /* about a megabyte */
    s->make = make_image;
    yk_status st = yk__synth_common(s, block, 50000, 10000);
    if (st)
        return st;
    return (s->state = create(s)) ? YK_OK : YK_ESYSTEM;
}
