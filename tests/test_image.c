/* format/image.h: JPEG and PNG of every kind, resized, valid and damaged. */
#include "encode.h"

#include "base/rng.h"
#include "format/image.h"
#include "format/resample.h"
#include <math.h>

static uint8_t bytes[1 << 20], planes[3 * 512 * 512 + 1];

static yk_image_decoder *decoder(void)
{
    static yk_image_decoder *d; /* one for all tests: a failure must not affect the next image */
    if (!d)
        assert_int_equal(yk_image_decoder_create(&d), YK_OK);
    return d;
}

static int free_decoder(void **state)
{
    (void)state;
    yk_image_decoder_free(decoder());
    return 0;
}

static yk_status decode(size_t n, size_t height, size_t width, size_t channels, yk_fit fit)
{
    const yk_image_form form = {height, width, channels, fit};
    memset(planes, 77, sizeof planes);
    yk_status st = yk_image_decode(decoder(), bytes, n, &form, planes);
    assert_int_equal(planes[height * width * channels], 77); /* bytes after it are unchanged */
    return st;
}

/* The largest difference from the formula over all channels. */
static int worst(size_t w, size_t h, size_t channels)
{
    int max = 0;
    for (size_t c = 0; c < channels; c++)
        for (size_t y = 0; y < h; y++)
            for (size_t x = 0; x < w; x++) {
                int d = abs(planes[(c * h + y) * w + x] - pixel_at(x, y, c, w, h));
                max = d > max ? d : max;
            }
    return max;
}

/* ---- the filter */

/* The definition: a triangle over all source pixels, in double precision. */
static double reference(const uint8_t *from, size_t w, size_t h, double cx, double cy, double rx, double ry)
{
    double sum = 0.0, weights = 0.0;
    for (size_t y = 0; y < h; y++)
        for (size_t x = 0; x < w; x++) {
            double wx = 1.0 - fabs((double)x + 0.5 - cx) / rx, wy = 1.0 - fabs((double)y + 0.5 - cy) / ry;
            if (wx > 0.0 && wy > 0.0) {
                sum += wx * wy * from[y * w + x];
                weights += wx * wy;
            }
        }
    return sum / weights;
}

static void resampling_equals_its_definition(void **state)
{
    (void)state;
    yk_rng r = yk_rng_seed(5, 0);
    yk_resampler to = {0};
    for (int round = 0; round < 60; round++) {
        size_t w = 1 + yk_rng_below(&r, 40), h = 1 + yk_rng_below(&r, 40);
        size_t ow = 1 + yk_rng_below(&r, 40), oh = 1 + yk_rng_below(&r, 40);
        size_t channels = round % 2 ? 3 : 1;
        uint8_t plane[3][1600], row[4 * 40] = {0}, out[3 * 1600];
        for (size_t c = 0; c < channels; c++)
            for (size_t i = 0; i < w * h; i++)
                plane[c][i] = (uint8_t)yk_rng_below(&r, 256);
        double left = yk_rng_unit(&r) * (double)w * 0.4, top = yk_rng_unit(&r) * (double)h * 0.4;
        yk_frame f = {.in = {h, w, channels},
                      .out = {oh, ow, channels},
                      .left = left,
                      .top = top,
                      .region_width = (double)w - 2.0 * left,
                      .region_height = (double)h - 2.0 * top,
                      .box_w = ow,
                      .box_h = oh};
        assert_int_equal(yk_resampler_begin(&to, f, out), YK_OK);
        for (size_t y = 0; y < h; y++) {
            for (size_t x = 0; x < w; x++)
                for (size_t c = 0; c < channels; c++)
                    row[x * (channels == 1 ? 1 : 4) + c] = plane[c][y * w + x];
            yk_resampler_row(&to, row);
        }
        double sx = f.region_width / (double)ow, sy = f.region_height / (double)oh;
        for (size_t c = 0; c < channels; c++)
            for (size_t y = 0; y < oh; y++)
                for (size_t x = 0; x < ow; x++) {
                    double want =
                        reference(plane[c], w, h, left + ((double)x + 0.5) * sx, top + ((double)y + 0.5) * sy,
                                  sx > 1.0 ? sx : 1.0, sy > 1.0 ? sy : 1.0);
                    assert_true(fabs(out[(c * oh + y) * ow + x] - want) < 0.502);
                }
    }
    yk_resampler_fini(&to);
}

static void uniform_colors_are_preserved(void **state)
{
    (void)state;
    yk_resampler to = {0};
    uint8_t row[4 * 301], out[3 * 97 * 89];
    for (size_t i = 0; i < sizeof row; i++)
        row[i] = i % 4 == 0 ? 255 : i % 4 == 1 ? 1 : 128;
    for (size_t w = 1; w <= 301; w += 50) {
        yk_frame f = {.in = {211, w, 3},
                      .out = {89, 97, 3},
                      .region_width = (double)w,
                      .region_height = 211,
                      .box_w = 97,
                      .box_h = 89};
        assert_int_equal(yk_resampler_begin(&to, f, out), YK_OK);
        for (int y = 0; y < 211; y++)
            yk_resampler_row(&to, row);
        for (size_t i = 0; i < 97 * 89; i++)
            assert_true(out[i] == 255 && out[97 * 89 + i] == 1 && out[2 * 97 * 89 + i] == 128);
    }
    yk_resampler_fini(&to);
}

/* ---- kinds of files */

static void png_of_every_kind(void **state)
{
    (void)state;
    static const struct {
        png_kind kind;
        size_t channels;
    } cases[] = {
        {{PNG_COLOR_TYPE_RGB, 8, false}, 3},       {{PNG_COLOR_TYPE_RGB, 16, false}, 3},
        {{PNG_COLOR_TYPE_RGB, 8, true}, 3},        {{PNG_COLOR_TYPE_RGB_ALPHA, 8, false}, 3},
        {{PNG_COLOR_TYPE_RGB_ALPHA, 16, true}, 3}, {{PNG_COLOR_TYPE_GRAY, 8, false}, 1},
        {{PNG_COLOR_TYPE_GRAY, 16, true}, 1},      {{PNG_COLOR_TYPE_GRAY_ALPHA, 8, true}, 1},
    };
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        size_t n = encode_png(37, 23, &cases[i].kind, bytes, sizeof bytes);
        yk_image_form own;
        assert_int_equal(yk_image_measure(decoder(), bytes, n, &own), YK_OK);
        assert_int_equal(own.width, 37);
        assert_int_equal(own.height, 23);
        assert_int_equal(own.channels, cases[i].channels);
        assert_int_equal(own.fit, YK_FIT_EXACT);
        assert_int_equal(decode(n, 23, 37, cases[i].channels, YK_FIT_EXACT), YK_OK);
        assert_true(worst(37, 23, cases[i].channels) <= (cases[i].kind.depth == 16 ? 1 : 0));
    }
    size_t n = encode_png(37, 23, &(png_kind){PNG_COLOR_TYPE_PALETTE, 8, false}, bytes, sizeof bytes);
    assert_int_equal(decode(n, 23, 37, 3, YK_FIT_EXACT), YK_OK);
    assert_int_equal(planes[2 * 37 + 5], 7);
    assert_int_equal(planes[2 * 23 * 37 + 2 * 37 + 5], 255 - 7);
    /* gray from color, and color from gray */
    assert_int_equal(decode(n, 23, 37, 1, YK_FIT_EXACT), YK_OK);
    assert_int_equal(planes[2 * 37 + 5], (int)(7 * 0.886 + 248 * 0.114 + 0.5));
    n = encode_png(37, 23, &(png_kind){PNG_COLOR_TYPE_GRAY, 8, false}, bytes, sizeof bytes);
    assert_int_equal(decode(n, 23, 37, 3, YK_FIT_EXACT), YK_OK);
    assert_memory_equal(planes, planes + 23 * 37, 23 * 37);
    assert_memory_equal(planes, planes + 2 * 23 * 37, 23 * 37);
}

static void jpeg_of_every_kind(void **state)
{
    (void)state;
    static const jpeg_kind kinds[] = {
        {1, 95, false}, {3, 95, false}, {4, 95, false}, {1, 95, true}, {3, 95, true}};
    for (size_t i = 0; i < sizeof kinds / sizeof kinds[0]; i++) {
        size_t n = encode_jpeg(121, 85, &kinds[i], bytes, sizeof bytes);
        size_t channels = kinds[i].components == 1 ? 1 : 3;
        yk_image_form own;
        assert_int_equal(yk_image_measure(decoder(), bytes, n, &own), YK_OK);
        assert_int_equal(own.height * 1000 + own.width * 10 + own.channels, 85 * 1000 + 121 * 10 + channels);
        assert_int_equal(decode(n, 85, 121, channels, YK_FIT_EXACT), YK_OK);
        assert_true(worst(121, 85, channels) <= 9);
        assert_int_equal(decode(n, 85, 121, channels == 1 ? 3 : 1, YK_FIT_EXACT), YK_OK);
    }
    /* gray from color, converted by libjpeg and by yoke */
    size_t n = encode_jpeg(64, 64, &kinds[1], bytes, sizeof bytes);
    assert_int_equal(decode(n, 64, 64, 1, YK_FIT_EXACT), YK_OK);
    double gray = 0.299 * pixel_at(20, 30, 0, 64, 64) + 0.587 * pixel_at(20, 30, 1, 64, 64) +
                  0.114 * pixel_at(20, 30, 2, 64, 64);
    assert_true(fabs(planes[30 * 64 + 20] - gray) < 4.0);
}

static void images_are_resized(void **state)
{
    (void)state;
    /* stretched: the formula gives the same image at every size, also if libjpeg scales it down by 2, 4, 8 */
    size_t n = encode_jpeg(500, 375, &(jpeg_kind){.components = 3, .quality = 95}, bytes, sizeof bytes);
    for (size_t side = 16; side <= 512; side = side * 5 / 3) {
        assert_int_equal(decode(n, side, side, 3, YK_FIT_RESIZE), YK_OK);
        assert_true(worst(side, side, 3) <= (side < 30 ? 9 : 6));
    }
    /* cropped: the middle 375 of 500 columns */
    assert_int_equal(decode(n, 75, 75, 3, YK_FIT_CROP), YK_OK);
    for (size_t x = 0; x < 75; x++)
        assert_true(abs(planes[30 * 75 + x] - pixel_at(62 + 5 * x + 2, 152, 0, 500, 375)) <= 5);
    /* padded: 100 x 75 in the middle of 100 x 100 */
    assert_int_equal(decode(n, 100, 100, 3, YK_FIT_PAD), YK_OK);
    for (size_t x = 0; x < 100; x++) {
        assert_int_equal(planes[11 * 100 + x], 0);
        assert_true(abs(planes[12 * 100 + x] - pixel_at(x, 0, 0, 100, 75)) <= 5);
        assert_true(abs(planes[10000 + 86 * 100 + x] - pixel_at(x, 74, 1, 100, 75)) <= 5);
        assert_int_equal(planes[10000 + 87 * 100 + x], 0);
    }
    assert_int_equal(decode(n, 100, 100, 3, YK_FIT_EXACT), YK_EUSAGE);
    assert_message("the image has 375 x 500 pixels, but the others have 100 x 100: choose one size");
    /* portrait images, and extreme shapes */
    n = encode_png(10, 400, &(png_kind){PNG_COLOR_TYPE_RGB, 8, false}, bytes, sizeof bytes);
    for (yk_fit fit = YK_FIT_CROP; fit <= YK_FIT_RESIZE; fit++) {
        assert_int_equal(decode(n, 1, 300, 3, fit), YK_OK);
        assert_int_equal(decode(n, 300, 1, 1, fit), YK_OK);
        assert_int_equal(decode(n, 512, 512, 3, fit), YK_OK);
        assert_int_equal(decode(n, 1, 1, 3, fit), YK_OK);
    }
    n = encode_png(1, 1, &(png_kind){PNG_COLOR_TYPE_RGB, 8, false}, bytes, sizeof bytes);
    assert_int_equal(decode(n, 64, 48, 3, YK_FIT_RESIZE), YK_OK);
    assert_int_equal(planes[64 * 48 - 1], pixel_at(0, 0, 0, 1, 1));
}

/* PNG and the filter are exact: every platform has to give these bytes. */
static void resized_golden(void **state)
{
    (void)state;
    uint64_t h = 0;
    size_t n = encode_png(300, 200, &(png_kind){PNG_COLOR_TYPE_RGB, 8, false}, bytes, sizeof bytes);
    static const size_t sides[] = {31, 224, 400};
    for (size_t k = 0; k < 3; k++) {
        assert_int_equal(decode(n, sides[k], sides[k], 3, YK_FIT_CROP), YK_OK);
        for (size_t i = 0; i < 3 * sides[k] * sides[k]; i++)
            h = yk_mix64(h + planes[i] + 1);
    }
    assert_int_equal(h, UINT64_C(0xe3fdd12cf3ed705c));
}

/* ---- damage */

static void truncated_images_are_refused(void **state)
{
    (void)state;
    for (int kind = 0; kind < 4; kind++) {
        size_t n =
            kind < 2 ? encode_jpeg(90, 70, &(jpeg_kind){3, 90, kind == 1}, bytes, sizeof bytes)
                     : encode_png(90, 70, &(png_kind){PNG_COLOR_TYPE_RGB, 8, kind == 3}, bytes, sizeof bytes);
        static uint8_t copy[1 << 16];
        assert_true(n < sizeof copy);
        memcpy(copy, bytes, n);
        for (size_t cut = 0; cut + 14 < n; cut += 1 + cut / 20) {
            memset(bytes, 0xa5, n);
            memcpy(bytes, copy, cut);
            assert_int_equal(decode(cut, 40, 40, 3, YK_FIT_CROP), YK_EDATA);
            assert_true(yk_image_offset(decoder()) <= cut);
        }
        memcpy(bytes, copy, n);
        decode(n / 2, 40, 40, 3, YK_FIT_CROP);
        assert_message(kind < 2 ? "remature end of" : "the PNG file is truncated");
        assert_true(yk_image_offset(decoder()) == n / 2);
        assert_int_equal(decode(n, 40, 40, 3, YK_FIT_CROP), YK_OK); /* the decoder still works */
    }
    assert_int_equal(decode(0, 40, 40, 3, YK_FIT_CROP), YK_EDATA);
    assert_message("an empty image");
    memcpy(bytes, "GIF89a, of all things", 21);
    assert_int_equal(decode(21, 40, 40, 3, YK_FIT_CROP), YK_EDATA);
    assert_message("neither a JPEG nor a PNG");
}

/* With any byte changed, the result is an image or an error, and the next image is decoded. */
static void damaged_images_are_harmless(void **state)
{
    (void)state;
    static uint8_t good[1 << 16];
    yk_rng r = yk_rng_seed(3, 0);
    size_t refused = 0;
    for (int kind = 0; kind < 4; kind++) {
        size_t n = kind < 2
                       ? encode_jpeg(60, 50, &(jpeg_kind){3, 90, kind == 1}, good, sizeof good)
                       : encode_png(60, 50, &(png_kind){PNG_COLOR_TYPE_RGB, 8, kind == 3}, good, sizeof good);
        for (int round = 0; round < 300; round++) {
            memcpy(bytes, good, n);
            for (uint32_t k = 1 + yk_rng_below(&r, 3); k > 0; k--)
                bytes[yk_rng_below(&r, (uint32_t)n)] ^= (uint8_t)(1 + yk_rng_below(&r, 255));
            yk_status st = decode(n, 32, 32, 3, YK_FIT_CROP);
            assert_true(st == YK_OK || st == YK_EDATA);
            refused += st == YK_EDATA;
        }
    }
    assert_true(refused > 500);
}

static void huge_images_are_refused(void **state)
{
    (void)state;
    size_t n = encode_jpeg(16, 16, &(jpeg_kind){3, 90, false}, bytes, sizeof bytes), at = 0;
    while (at + 9 < n && !(bytes[at] == 0xff && bytes[at + 1] == 0xc0))
        at++;
    memset(bytes + at + 5, 0xf0, 4); /* 61680 x 61680 */
    assert_int_equal(decode(n, 32, 32, 3, YK_FIT_CROP), YK_EDATA);
    assert_message("the image is too large: 61680 x 61680 pixels");
    memset(bytes + at + 5, 0x3f, 4); /* each side is within the limit, the area is not */
    assert_int_equal(decode(n, 32, 32, 3, YK_FIT_CROP), YK_EDATA);
    assert_message("the image is too large: 16191 x 16191 pixels");
    n = encode_png(20000, 1, &(png_kind){PNG_COLOR_TYPE_GRAY, 8, false}, bytes, sizeof bytes);
    assert_int_equal(decode(n, 32, 32, 1, YK_FIT_CROP), YK_EDATA);
    /* a progressive image whose last scan is repeated many times */
    static uint8_t many[1 << 20];
    n = encode_jpeg(64, 64, &(jpeg_kind){1, 90, true}, bytes, sizeof bytes);
    size_t last = n - 2;
    while (!(bytes[last] == 0xff && bytes[last + 1] == 0xda))
        last--;
    size_t total = n - 2, piece = n - 2 - last;
    memcpy(many, bytes, total);
    for (int i = 0; i < 2000 && total + piece + 2 < sizeof many; i++, total += piece)
        memcpy(many + total, bytes + last, piece);
    memcpy(bytes, many, total);
    assert_int_equal(decode(total, 32, 32, 1, YK_FIT_CROP), YK_EDATA);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(resampling_equals_its_definition),
        cmocka_unit_test(uniform_colors_are_preserved),
        cmocka_unit_test(png_of_every_kind),
        cmocka_unit_test(jpeg_of_every_kind),
        cmocka_unit_test(images_are_resized),
        cmocka_unit_test(resized_golden),
        cmocka_unit_test(truncated_images_are_refused),
        cmocka_unit_test(damaged_images_are_harmless),
        cmocka_unit_test(huge_images_are_refused),
    };
    return cmocka_run_group_tests(tests, NULL, free_decoder);
}
