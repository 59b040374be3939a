/* Products on blocks of images, for every instruction set of this processor, against the reference. Results are the same to the
 * bit however the work is divided into ranges. */
#include "references.h"
#include "scratch.h"

#include "base/rng.h"
#include "kern/block.h"
#include <math.h>

static yk_rng random_state;

#define EACH_ISA(isa) for (yk_isa isa = YK_ISA_BASE; isa <= yk_isa_best(); isa++)
#define OPS(isa)      YK_ISA_AT(yk_block, isa)
#define POISON        (-77.25f)

static size_t below(size_t n)
{
    return yk_rng_below(&random_state, (uint32_t)n);
}

static float uniform(void)
{
    return (float)(2.0 * yk_rng_unit(&random_state) - 1.0);
}

/* Allocated exactly, so that a sanitizer detects any access outside. */
static float *floats(size_t n, bool random)
{
    float *p = malloc((n ? n : 1) * sizeof *p);
    assert_non_null(p);
    for (size_t i = 0; i < n; i++)
        p[i] = random ? uniform() : POISON;
    return p;
}

static float *copy_of(const float *from, size_t n)
{
    float *p = malloc((n ? n : 1) * sizeof *p);
    assert_non_null(p);
    memcpy(p, from, n * sizeof *p);
    return p;
}

static int32_t *table(size_t n)
{
    int32_t *p = malloc((n ? n : 1) * sizeof *p);
    assert_non_null(p);
    return p;
}

/* n different vectors of an array of `room` >= n vectors, in any order: entry i of the table is 16 * which. */
static int32_t *places(size_t n, size_t room)
{
    int32_t *p = table(room);
    for (size_t i = 0; i < room; i++)
        p[i] = (int32_t)(YK_LANES * i);
    for (size_t i = 0; i < n; i++) {
        size_t other = i + below(room - i);
        int32_t t = p[i];
        p[i] = p[other];
        p[other] = t;
    }
    return p;
}

/* ---- mul */

enum { SPREAD = 40 }; /* offsets of terms are within this many vectors of 0 */

typedef struct {
    yk_block_mul w;
    size_t m, p, a_size, b_size, c_size;
    float *a, *b, *c, *bias;
    int32_t *a_k, *b_k, *b_p, *c_p;
} product;

static void make_product(product *t, size_t m, size_t p, size_t k, int kind)
{
    *t = (product){.m = m, .p = p};
    const size_t a_m = k + below(5), room = p + below(4), row = room * YK_LANES + below(2) * YK_LANES;
    t->a_size = m * a_m + 1;
    t->a = floats(t->a_size, true);
    t->a_k = table(k);
    for (size_t i = 0; i < k; i++) /* unordered, some twice */
        t->a_k[i] = (int32_t)(a_m ? below(a_m) : 0);
    /* B(k, p) anywhere within; the base pointer is in the middle, so that b_k may be negative; not aligned to a vector */
    t->b_size = (2 * SPREAD + 1 + p + 8) * YK_LANES + 3;
    t->b = floats(t->b_size, true);
    t->b_k = table(k);
    t->b_p = table(p);
    for (size_t i = 0; i < k; i++)
        t->b_k[i] = (int32_t)below(2 * SPREAD * YK_LANES) - SPREAD * YK_LANES;
    for (size_t i = 0; i < p; i++)
        t->b_p[i] = (int32_t)(below(p + 8) * YK_LANES + below(4));
    t->c_size = m * row;
    t->c = floats(t->c_size, kind == 2);
    t->c_p = places(p, room);
    t->bias = floats(m, true);
    t->w = (yk_block_mul){.k = k,
                          .a = t->a,
                          .a_m = (int64_t)a_m,
                          .a_k = t->a_k,
                          .b = t->b + SPREAD * YK_LANES,
                          .b_p = t->b_p,
                          .b_k = t->b_k,
                          .c_m = (int64_t)row,
                          .c_p = t->c_p,
                          .bias = kind == 1 ? t->bias : NULL,
                          .add = kind == 2};
}

static void free_product(product *t)
{
    free(t->a), free(t->b), free(t->c), free(t->bias);
    free(t->a_k), free(t->b_k), free(t->b_p), free(t->c_p);
}

static bool touched(const product *t, size_t i, size_t m_begin, size_t m_end, size_t p_begin, size_t p_end)
{
    const size_t row = (size_t)t->w.c_m, m = i / row;
    if (m < m_begin || m >= m_end)
        return false;
    for (size_t p = p_begin; p < p_end; p++)
        if (i % row / YK_LANES * YK_LANES == (size_t)t->c_p[p])
            return true;
    return false;
}

static void check_product(const product *t, const yk_block_ops *ops, const char *isa, size_t m_begin,
                          size_t m_end, size_t p_begin, size_t p_end)
{
    yk_block_mul w = t->w;
    float *right = copy_of(t->c, t->c_size), *got = copy_of(t->c, t->c_size), *cut = copy_of(t->c, t->c_size);
    w.c = right;
    yk_block_ref.mul(&w, m_begin, m_end, p_begin, p_end);
    w.c = got;
    ops->mul(&w, m_begin, m_end, p_begin, p_end);
    /* values below 1: the error is proportional to the sum of the products, at most k + 1 */
    const double bound = 1e-5 * sqrt((double)w.k + 1.0);
    for (size_t i = 0; i < t->c_size; i++) {
        if (!touched(t, i, m_begin, m_end, p_begin, p_end)) {
            assert_memory_equal(&got[i], &t->c[i], sizeof got[i]);
            assert_memory_equal(&right[i], &t->c[i], sizeof right[i]);
        } else if (!(fabs((double)got[i] - (double)right[i]) <= bound)) {
            fail_msg("mul, %s, m %zu of %zu..%zu, k %zu, p %zu..%zu: %.9g is not %.9g", isa,
                     i / (size_t)w.c_m, m_begin, m_end, w.k, p_begin, p_end, (double)got[i],
                     (double)right[i]);
        }
    }
    /* in four ranges: the same bits */
    const size_t m = m_begin + (m_end > m_begin ? below(m_end - m_begin + 1) : 0),
                 p = p_begin + (p_end > p_begin ? below(p_end - p_begin + 1) : 0);
    w.c = cut;
    ops->mul(&w, m, m_end, p, p_end);
    ops->mul(&w, m_begin, m, p_begin, p);
    ops->mul(&w, m_begin, m, p, p_end);
    ops->mul(&w, m, m_end, p_begin, p);
    assert_memory_equal(cut, got, t->c_size * sizeof *got);
    free(right), free(got), free(cut);
}

static void products(void **state)
{
    (void)state;
    static const size_t terms[] = {0, 1, 2, 5, 25, 150, 159, 160, 161, 319, 320, 321, 400};
    enum { TERMS = sizeof terms / sizeof *terms };
    random_state = yk_rng_seed(1, 1);
    EACH_ISA(isa)
    {
        for (size_t m = 1; m <= 20; m++)
            for (size_t p = 1; p <= 13; p += SANITIZED ? 3 : 1) {
                product t;
                /* every number of terms occurs, with all three kinds */
                const size_t round = (m - 1) * 13 + p - 1, k = terms[round % TERMS];
                make_product(&t, m, p, below(3) ? k : below(401), (int)(round / TERMS % 3));
                check_product(&t, OPS(isa), yk_isa_name(isa), 0, m, 0, p);
                const size_t m_begin = below(m + 1), p_begin = below(p + 1);
                check_product(&t, OPS(isa), yk_isa_name(isa), m_begin, m_begin + below(m - m_begin + 1),
                              p_begin, p_begin + below(p - p_begin + 1));
                free_product(&t);
            }
    }
}

/* Small integers: every sum is exact, so that a missing or repeated term is detected. */
static void integers_are_exact(void **state)
{
    (void)state;
    random_state = yk_rng_seed(2, 1);
    EACH_ISA(isa)
    {
        for (int round = 0; round < (SANITIZED ? 20 : 60); round++) {
            product t;
            /* every fourth case is like the gradients of a dense layer: many rows, or uncached */
            const bool tall = round % 4 == 1, uncached = round % 4 == 3;
            make_product(&t, tall ? 65 + below(20) : 1 + below(20), tall ? 5 + below(30) : 1 + below(13),
                         below(tall ? 170 : 401), round % 3);
            t.w.uncached = uncached;
            float *const arrays[] = {t.a, t.b, t.bias};
            const size_t sizes[] = {t.a_size, t.b_size, t.m};
            for (int a = 0; a < 3; a++)
                for (size_t i = 0; i < sizes[a]; i++)
                    arrays[a][i] = (float)below(9) - 4.0f;
            for (size_t i = 0; i < t.c_size; i++)
                t.c[i] = (float)below(9);
            float *right = copy_of(t.c, t.c_size), *got = copy_of(t.c, t.c_size);
            t.w.c = right;
            yk_block_ref.mul(&t.w, 0, t.m, 0, t.p);
            t.w.c = got;
            OPS(isa)->mul(&t.w, 0, t.m, 0, t.p);
            assert_memory_equal(got, right, t.c_size * sizeof *got);
            free(right), free(got);
            free_product(&t);
        }
    }
}

/* ---- outer */

typedef struct {
    yk_block_outer w;
    size_t m, k, d_size;
    float *y, *x, *d;
    int32_t *y_p, *x_p, *x_k;
} outer;

static void make_outer(outer *t, size_t m, size_t k, size_t p)
{
    *t = (outer){.m = m, .k = k};
    const size_t room = p + below(4) + 1, d_m = k + below(3);
    t->y = floats(m * room * YK_LANES, true);
    t->y_p = places(p, room);
    t->x = floats((2 * SPREAD + 1 + p + 8) * YK_LANES + 3, true);
    t->x_k = table(k);
    t->x_p = table(p);
    for (size_t i = 0; i < k; i++)
        t->x_k[i] = (int32_t)below(2 * SPREAD * YK_LANES) - SPREAD * YK_LANES;
    for (size_t i = 0; i < p; i++)
        t->x_p[i] = (int32_t)(below(p + 8) * YK_LANES + below(4));
    t->d_size = m * d_m;
    t->d = floats(t->d_size, true);
    t->w = (yk_block_outer){.p = p,
                            .y = t->y,
                            .y_m = (int64_t)(room * YK_LANES),
                            .y_p = t->y_p,
                            .x = t->x + SPREAD * YK_LANES,
                            .x_p = t->x_p,
                            .x_k = t->x_k,
                            .d_m = (int64_t)d_m};
}

static void free_outer(outer *t)
{
    free(t->y), free(t->x), free(t->d);
    free(t->y_p), free(t->x_p), free(t->x_k);
}

static void check_outer(const outer *t, const yk_block_ops *ops, const char *isa, size_t m_begin,
                        size_t m_end, size_t k_begin, size_t k_end)
{
    yk_block_outer w = t->w;
    float *right = copy_of(t->d, t->d_size), *got = copy_of(t->d, t->d_size), *cut = copy_of(t->d, t->d_size);
    w.d = right;
    yk_block_ref.outer(&w, m_begin, m_end, k_begin, k_end);
    w.d = got;
    ops->outer(&w, m_begin, m_end, k_begin, k_end);
    const double bound = 1e-5 * sqrt((double)w.p * YK_LANES + 1.0);
    for (size_t i = 0; i < t->d_size; i++) {
        const size_t m = i / (size_t)w.d_m, k = i % (size_t)w.d_m;
        if (m < m_begin || m >= m_end || k < k_begin || k >= k_end) {
            assert_memory_equal(&got[i], &t->d[i], sizeof got[i]);
            assert_memory_equal(&right[i], &t->d[i], sizeof right[i]);
        } else if (!(fabs((double)got[i] - (double)right[i]) <= bound)) {
            fail_msg("outer, %s, (%zu, %zu) of %zu..%zu x %zu..%zu, p %zu: %.9g is not %.9g", isa, m, k,
                     m_begin, m_end, k_begin, k_end, w.p, (double)got[i], (double)right[i]);
        }
    }
    const size_t m = m_begin + below(m_end - m_begin + 1), k = k_begin + below(k_end - k_begin + 1);
    w.d = cut;
    ops->outer(&w, m, m_end, k, k_end);
    ops->outer(&w, m_begin, m, k_begin, k);
    ops->outer(&w, m_begin, m, k, k_end);
    ops->outer(&w, m, m_end, k_begin, k);
    assert_memory_equal(cut, got, t->d_size * sizeof *got);
    free(right), free(got), free(cut);
}

static void check_sum(const outer *t, const yk_block_ops *ops, const char *isa, size_t m_begin, size_t m_end)
{
    float *before = floats(t->m, true);
    float *right = copy_of(before, t->m), *got = copy_of(before, t->m), *cut = copy_of(before, t->m);
    yk_block_ref.sum(&t->w, m_begin, m_end, right);
    ops->sum(&t->w, m_begin, m_end, got);
    const double bound = 1e-5 * sqrt((double)t->w.p * YK_LANES + 1.0);
    for (size_t m = 0; m < t->m; m++)
        if (m < m_begin || m >= m_end) {
            assert_memory_equal(&got[m], &before[m], sizeof got[m]);
            assert_memory_equal(&right[m], &before[m], sizeof right[m]);
        } else if (!(fabs((double)got[m] - (double)right[m]) <= bound)) {
            fail_msg("sum, %s, %zu of %zu..%zu, p %zu: %.9g is not %.9g", isa, m, m_begin, m_end, t->w.p,
                     (double)got[m], (double)right[m]);
        }
    const size_t m = m_begin + below(m_end - m_begin + 1);
    ops->sum(&t->w, m, m_end, cut);
    ops->sum(&t->w, m_begin, m, cut);
    assert_memory_equal(cut, got, t->m * sizeof *got);
    free(before), free(right), free(got), free(cut);
}

static void outer_products(void **state)
{
    (void)state;
    static const size_t pixels[] = {0, 1, 2, 9, 95, 96, 97, 191, 192, 193};
    random_state = yk_rng_seed(3, 1);
    EACH_ISA(isa)
    {
        for (size_t m = 1; m <= 13; m++)
            for (size_t k = 1; k <= 20; k++) {
                outer t;
                make_outer(&t, m, k, below(2) ? pixels[below(sizeof pixels / sizeof *pixels)] : below(200));
                check_outer(&t, OPS(isa), yk_isa_name(isa), 0, m, 0, k);
                check_sum(&t, OPS(isa), yk_isa_name(isa), 0, m);
                const size_t m_begin = below(m + 1), k_begin = below(k + 1);
                check_outer(&t, OPS(isa), yk_isa_name(isa), m_begin, m_begin + below(m - m_begin + 1),
                            k_begin, k_begin + below(k - k_begin + 1));
                check_sum(&t, OPS(isa), yk_isa_name(isa), m_begin, m_begin + below(m - m_begin + 1));
                free_outer(&t);
            }
    }
}

/* ---- the reference, on small examples */

static void reference_products(void **state)
{
    (void)state;
    float a[4] = {1, 2, 3, 4}, b[2 * YK_LANES], c[2 * YK_LANES] = {0}, d[4] = {100, 0, 0, 0},
          bias[2] = {10, 20};
    const int32_t a_k[2] = {0, 1}, b_k[2] = {0, YK_LANES}, zero[1] = {0};
    for (int i = 0; i < 2 * YK_LANES; i++)
        b[i] = (float)i;
    const yk_block_mul mul = {.k = 2,
                              .a = a,
                              .a_m = 2,
                              .a_k = a_k,
                              .b = b,
                              .b_p = zero,
                              .b_k = b_k,
                              .c = c,
                              .c_m = YK_LANES,
                              .c_p = zero,
                              .bias = bias};
    yk_block_ref.mul(&mul, 0, 2, 0, 1);
    for (int lane = 0; lane < YK_LANES; lane++) {
        assert_true(c[lane] == 10.0f + (float)lane + 2.0f * (float)(16 + lane));
        assert_true(c[YK_LANES + lane] == 20.0f + 3.0f * (float)lane + 4.0f * (float)(16 + lane));
    }
    const yk_block_outer by = {
        .p = 1, .y = b, .y_m = YK_LANES, .y_p = zero, .x = b, .x_p = zero, .x_k = b_k, .d = d, .d_m = 2};
    yk_block_ref.outer(&by, 0, 2, 0, 2);
    double first = 100, second = 0, third = 0;
    for (int lane = 0; lane < YK_LANES; lane++) {
        first += (double)(lane * lane);
        second += (double)(lane * (lane + 16));
        third += (double)((lane + 16) * (lane + 16));
    }
    assert_true((double)d[0] == first && (double)d[1] == second && (double)d[2] == second &&
                (double)d[3] == third);
    float sums[2] = {1, 0};
    yk_block_ref.sum(&by, 0, 2, sums);
    assert_true(sums[0] == 1.0f + 120.0f && sums[1] == 120.0f + 256.0f);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(reference_products),
        cmocka_unit_test(products),
        cmocka_unit_test(integers_are_exact),
        cmocka_unit_test(outer_products),
    };
    return cmocka_run_group_tests_name("block", tests, NULL, NULL);
}
