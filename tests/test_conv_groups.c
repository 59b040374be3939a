/* The groups of pixels of a convolution and their terms against the definition, for random layers. */
#include "scratch.h"

#include "base/rng.h"
#include "model/conv_groups.h"

static yk_rng random_state;

static size_t between(size_t min, size_t max)
{
    return min + yk_rng_below(&random_state, (uint32_t)(max - min + 1));
}

static yk__layer layer_of(size_t in, size_t out, size_t height, size_t width, size_t kernel_h,
                          size_t kernel_w, size_t stride, size_t pad)
{
    yk__layer l = {.count = out,
                   .kernel_h = kernel_h,
                   .kernel_w = kernel_w,
                   .stride = stride,
                   .pad = pad,
                   .padding = YK__PADDED};
    yk__edge from = {.channels = in, .height = height, .width = width}, to;
    assert_int_equal(yk__conv_ops.shape(&l, &from, &to), YK_OK);
    yk__layer_set_edges(&l, &from, &to);
    return l;
}

enum { NOWHERE = INT32_MIN };

/* The line of the factor that a tap reads for a line of the result; it may be beyond the edge. */
static int64_t source(const yk__layer *l, bool back, size_t line, size_t tap)
{
    const int64_t s = (int64_t)l->stride, n = (int64_t)line, pad = (int64_t)l->pad, t = (int64_t)tap;
    if (!back)
        return n * s + t - pad;
    return (n + pad - t) % s ? NOWHERE : (n + pad - t) / s;
}

static bool within(int64_t at, size_t lines, size_t border)
{
    return at >= -(int64_t)border && at < (int64_t)(lines + border);
}

/* All terms that the pixel needs are present, in order and at the right offset; any others read the border of zeros. */
static void check_pixel(const yk__layer *l, bool back, size_t y, size_t x, const yk__conv_group *g, size_t p)
{
    const yk__edge *from = back ? &l->out_edge : &l->in_edge;
    const size_t border = back ? from->grad_border : from->border;
    const yk__strides at = yk__strides_of(from, border);
    const size_t taps = l->kernel_h * l->kernel_w, each = back ? l->in_edge.channels * taps : taps;
    size_t k = 0;
    for (size_t c = 0; c < from->channels; c++)
        for (size_t tap = 0; tap < taps; tap++) {
            const int64_t sy = source(l, back, y, tap / l->kernel_w),
                          sx = source(l, back, x, tap % l->kernel_w);
            const bool needed = within(sy, from->height, 0) && within(sx, from->width, 0);
            if (k == g->terms || g->a_k[k] != (int32_t)(c * each + tap)) {
                assert_false(needed);
                continue;
            }
            assert_true(within(sy, from->height, border) && within(sx, from->width, border));
            assert_int_equal(g->b_p[p] + g->b_k[k++], yk__offset(&at, c, sy, sx));
        }
    assert_int_equal(k, g->terms);
}

static void check(const yk__layer *l, bool back)
{
    yk_arena memory = {0};
    const yk__conv_groups g =
        yk__conv_groups_make(l, back ? YK__CONV_INPUT_GRADIENT : YK__CONV_FORWARD, &memory);
    assert_int_equal(memory.status, YK_OK);
    const yk__edge *to = back ? &l->in_edge : &l->out_edge;
    const yk__strides at = yk__strides_of(to, back ? to->grad_border : to->border);
    const size_t pixels = to->height * to->width;
    char *seen = calloc(pixels, 1);
    assert_non_null(seen);
    size_t work = 0;
    for (size_t i = 0; i < g.n; i++) {
        assert_int_equal(g.group[i].work, g.group[i].pixels * (g.group[i].terms + 1));
        work += g.group[i].work;
        for (size_t p = 0; p < g.group[i].pixels; p++) {
            const size_t offset = (size_t)g.group[i].c_p[p] - at.origin, y = offset / at.row,
                         x = offset % at.row / YK_LANES;
            assert_true(y < to->height && x < to->width);
            assert_int_equal(g.group[i].c_p[p], yk__offset(&at, 0, (int64_t)y, (int64_t)x));
            assert_int_equal(seen[y * to->width + x]++, 0);
            if (p % (1 + g.group[i].work / 1000000) == 0) /* of large layers, some */
                check_pixel(l, back, y, x, &g.group[i], p);
        }
    }
    for (size_t p = 0; p < pixels; p++)
        assert_int_equal(seen[p], 1);
    assert_int_equal(work, g.work);
    free(seen);
    yk_arena_free(&memory);
}

static void every_pixel_once_with_all_its_terms(void **state)
{
    (void)state;
    for (int i = 0; i < (SANITIZED ? 60 : 300); i++) {
        const size_t kernel_h = between(1, i % 10 ? 7 : 40), kernel_w = between(1, i % 10 ? 7 : 40),
                     pad = between(0, 6);
        const yk__layer l =
            layer_of(between(1, 3), between(1, 3), between(kernel_h, kernel_h + 12),
                     between(kernel_w, kernel_w + 12), kernel_h, kernel_w, between(1, 5), pad);
        check(&l, false);
        check(&l, true);
    }
}

/* The weight gradient: one group with all pixels and all terms, including those that no pixel needs. */
static void weight_gradients_have_all_terms(void **state)
{
    (void)state;
    const yk__layer cases[] = {layer_of(3, 2, 1, 1, 5, 5, 1, 2), layer_of(2, 4, 9, 7, 3, 4, 2, 1),
                               layer_of(1, 1, 64, 64, 64, 64, 1, 0)};
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        const yk__layer *l = &cases[i];
        yk_arena memory = {0};
        const yk__conv_groups g = yk__conv_groups_make(l, YK__CONV_WEIGHT_GRADIENT, &memory);
        assert_int_equal(memory.status, YK_OK);
        assert_int_equal(g.n, 1);
        assert_int_equal(g.group->terms, l->fan_in);
        assert_int_equal(g.group->pixels, l->out_edge.height * l->out_edge.width);
        for (size_t p = 0; p < g.group->pixels; p++) {
            const int64_t y = (int64_t)(p / l->out_edge.width), x = (int64_t)(p % l->out_edge.width);
            assert_int_equal(g.group->c_p[p], yk__offset(&l->dy, 0, y, x));
            for (size_t k = 0; k < g.group->terms; k++) {
                const size_t taps = l->kernel_h * l->kernel_w, tap = k % taps;
                assert_int_equal(g.group->b_p[p] + g.group->b_k[k],
                                 yk__offset(&l->x, k / taps, source(l, false, (size_t)y, tap / l->kernel_w),
                                            source(l, false, (size_t)x, tap % l->kernel_w)));
            }
        }
        yk_arena_free(&memory);
    }
}

static double left_of(const yk__layer *l, bool back)
{
    yk_arena memory = {0};
    const yk__conv_groups g =
        yk__conv_groups_make(l, back ? YK__CONV_INPUT_GRADIENT : YK__CONV_FORWARD, &memory);
    assert_int_equal(memory.status, YK_OK);
    const yk__edge *from = back ? &l->out_edge : &l->in_edge, *to = back ? &l->in_edge : &l->out_edge;
    const double all =
        (double)(from->channels * l->kernel_h * l->kernel_w + 1) * (double)(to->height * to->width);
    const double left = (double)g.work / all;
    yk_arena_free(&memory);
    return left;
}

static void zeros_beyond_the_edge_are_left_out(void **state)
{
    (void)state;
    const yk__layer lenet = layer_of(6, 16, 14, 14, 5, 5, 1, 0),
                    alexnet = layer_of(192, 384, 13, 13, 3, 3, 1, 1);
    assert_true(left_of(&lenet, true) < 0.57); /* 0.51 of the terms are needed */
    assert_true(left_of(&lenet, false) == 1.0);
    assert_true(left_of(&alexnet, true) < 0.91);
    assert_true(left_of(&alexnet, false) < 0.91);
}

/* Tables of many groups of many terms would need more memory than the images. */
static void large_filters_make_few_groups(void **state)
{
    (void)state;
    const yk__layer wide = layer_of(600, 1, 10, 10, 8, 8, 1, 3),
                    large = layer_of(1, 20, 70, 70, 64, 64, 2, 31);
    yk_arena memory = {0};
    assert_int_equal(yk__conv_groups_make(&wide, YK__CONV_FORWARD, &memory).n, 1);
    /* one for each remainder of the stride */
    assert_int_equal(yk__conv_groups_make(&large, YK__CONV_INPUT_GRADIENT, &memory).n, 4);
    assert_int_equal(memory.status, YK_OK);
    yk_arena_free(&memory);
    check(&wide, false);
    check(&large, true);
}

/* For any number of threads, each pixel belongs to exactly one. */
static void threads_share_all_pixels(void **state)
{
    (void)state;
    for (int i = 0; i < 2000; i++) {
        const size_t pixels = between(1, 50), terms = between(0, 30), at = between(0, 500);
        const yk__conv_group g = {.pixels = pixels, .terms = terms, .work = pixels * (terms + 1)};
        const size_t until = between(0, at + g.work + 100), pixel = yk__conv_group_pixel(&g, at, until);
        assert_true(pixel <= pixels && (pixel % 4 == 0 || pixel == pixels));
        if (until <= at)
            assert_int_equal(pixel, 0);
        if (until >= at + g.work)
            assert_int_equal(pixel, pixels);
        assert_true(yk__conv_group_pixel(&g, at, until + 1) >= pixel);
    }
}

int main(void)
{
    random_state = yk_rng_seed(7, 1);
    const struct CMUnitTest tests[] = {cmocka_unit_test(every_pixel_once_with_all_its_terms),
                                       cmocka_unit_test(weight_gradients_have_all_terms),
                                       cmocka_unit_test(zeros_beyond_the_edge_are_left_out),
                                       cmocka_unit_test(large_filters_make_few_groups),
                                       cmocka_unit_test(threads_share_all_pixels)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
