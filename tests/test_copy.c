/* Local SGD: adding the delta of a copy to a table equals making the same steps on the table; for several
 * workers it is the mean of the deltas. For every optimizer, dense and sparse, with lazy weight decay. */
#include "local_steps.h"
#include "scratch.h"

#include "base/mem.h"
#include "base/rng.h"
#include "optim/kinds.h"
#include "store/local_copy.h"
#include <math.h>

enum { PARAMS = 200, KEYS = 24, STEPS = 5, ROUNDS = 6, WORKERS = 3 };

static yk_team *team;

static yk_local *store_of(yk_optim_kind kind, bool sparse, double l2, size_t n)
{
    yk_local_config c = {.ngroups = 1, .team = team, .workers = 1, .batch = 1};
    yk_optim_config o = yk_optim_defaults(kind);
    yk_local *s;
    o.l2 = l2;
    o.lr = 0.1;
    o.schedule = YK_LR_INVERSE;
    o.lr_decay = 0.05;
    c.group[0] = (yk_local_group){.shape = {.keyed = sparse, .width = 1, .keys = n}, .optim = o};
    assert_int_equal(yk_local_create(&c, &s), YK_OK);
    return s;
}

static void copy_all(yk_local *from, yk_local *to)
{
    for (int a = 0; a <= yk_local_raw(from, 0).rule->slots; a++)
        memcpy(yk_copy_array(to, 0, a), yk_copy_array(from, 0, a), PARAMS * sizeof(float));
    if (yk_local_raw(from, 0).touched)
        memcpy(yk_local_raw(to, 0).touched, yk_local_raw(from, 0).touched, PARAMS * sizeof(uint32_t));
    yk_local_restore(to, yk_local_steps(from));
}

/* A step with a gradient of these keys, or of all. */
static void step(yk_local *s, uint32_t *key, size_t n, const float *g)
{
    const yk_merger pairs = {.n = n, .key = key, .value = (float *)g};
    yk_grad grad = {.examples = 1};
    yk_step_result result;
    if (key)
        grad.group[0].pairs = &pairs;
    else
        grad.group[0].dense = (float *)g;
    assert_int_equal(local_push(s, 0, &grad), YK_OK);
    assert_int_equal(local_clock(s, 0, &result), YK_OK);
}

static const float *quiesced(yk_local *s)
{
    assert_int_equal(yk_local_quiesce(s, 0), YK_OK);
    return yk_local_table(s, 0).w;
}

/* Distinct keys, a few of them hot, unordered. */
static size_t draw(yk_rng *r, uint32_t *key)
{
    yk_merger m = {0};
    assert_int_equal(yk_merger_reserve(&m, KEYS), YK_OK);
    for (int i = 0; i < KEYS; i++)
        yk_merger_slot_wide(&m, yk_rng_below(r, i % 3 ? PARAMS : 8), 1);
    memcpy(key, m.key, m.n * sizeof *key);
    const size_t n = m.n;
    yk_merger_fini(&m);
    return n;
}

/* As several threads would. */
static void read_in_parts(yk_local *table, const yk_copy_keys *all, int arrays, float *values)
{
    for (int me = 0; me < 3; me++) {
        yk_copy_keys part = *all;
        yk_part_of_range(&part.begin, &part.end, 1, me, 3);
        yk_copy_read(table, 0, &part, arrays, values);
    }
}

/* A round of `workers`: on the table by deltas, and on a separate store per worker for comparison. */
static void round_of(yk_local *table, yk_local **own, int workers, yk_optim_kind kind, bool sparse, double l2,
                     yk_rng *r)
{
    static float values[3 * PARAMS], before[3 * PARAMS];
    static float sum[3 * PARAMS]; /* of the deltas */
    static uint32_t used[PARAMS]; /* keys */
    size_t nused = 0;
    const int arrays = 1 + yk_local_raw(table, 0).rule->slots;
    const uint64_t began = yk_local_steps(table);
    memset(sum, 0, sizeof sum);
    for (int w = 0; w < workers; w++) {
        uint32_t key[KEYS], number[KEYS];
        const size_t n = sparse ? draw(r, key) : PARAMS;
        yk_local *copy = store_of(kind, sparse, l2, n);
        copy_all(table, own[w]);
        const yk_copy_keys keys = {sparse ? key : NULL, 0, n, n};
        read_in_parts(table, &keys, arrays, values);
        memcpy(before, values, sizeof before);
        yk_copy_begin(copy, n, (float *[YK_MAX_GROUPS]){values}, began);
        for (uint32_t i = 0; sparse && i < n; i++)
            number[i] = i;
        for (int i = 0; i < STEPS; i++) {
            float g[PARAMS];
            const size_t from = sparse && i % 2 ? n / 2 : 0; /* not all keys in every step */
            for (size_t k = 0; k < n; k++)
                g[k] = (float)yk_rng_below(r, 2001) / 1000.0f - 1.0f;
            step(copy, sparse ? number + from : NULL, n - from, g);
            step(own[w], sparse ? key + from : NULL, n - from, g);
        }
        yk_copy_end(copy, n, (float *[YK_MAX_GROUPS]){values});
        for (int a = 0; a < arrays; a++) /* the copy is unchanged */
            assert_memory_equal(yk_copy_array(copy, 0, a), before + (size_t)a * n, n * sizeof(float));
        for (size_t k = 0; k < n; k++) {
            size_t at = sparse ? 0 : k;
            while (sparse && at < nused && used[at] != key[k])
                at++;
            if (at >= nused)
                used[nused++] = sparse ? key[k] : (uint32_t)k;
            for (size_t a = 0; a < (size_t)arrays; a++)
                sum[a * PARAMS + at] += values[a * n + k];
        }
        yk_local_free(copy);
    }
    const yk_copy_keys first = {sparse ? used : NULL, 0, 3, PARAMS}, rest = {first.key, 3, nused, PARAMS};
    yk_copy_add(table, 0, &first, sum, workers, began + STEPS);
    yk_copy_add(table, 0, &rest, sum, workers, began + STEPS);
    yk_local_restore(table, began + STEPS);
    assert_int_equal(yk_local_steps(table), began + STEPS);
}

static void compare(yk_local *table, yk_local **own, int workers)
{
    float largest = 0.0f;
    for (int a = 0; a <= yk_local_raw(table, 0).rule->slots; a++) {
        const float *have = a ? yk_copy_array(table, 0, a) : quiesced(table);
        for (size_t k = 0; k < PARAMS; k++) {
            double mean = 0.0;
            for (int w = 0; w < workers; w++)
                mean += (double)(a ? yk_copy_array(own[w], 0, a) : quiesced(own[w]))[k] / workers;
            assert_true(fabs((double)have[k] - mean) <= 2e-5 * (1.0 + fabs(mean)));
            largest = fmaxf(largest, fabsf(have[k]));
        }
    }
    assert_true(largest > 0.01f); /* the steps changed something */
}

static void deltas_are_those_of_the_steps(int workers)
{
    for (int kind = 0; kind < YK_OPTIM_KINDS; kind++)
        for (int how = 0; how < 4; how++) {
            const bool sparse = how & 1;
            const double l2 = how & 2 ? 0.05 : 0.0;
            yk_rng r = yk_rng_seed((uint64_t)kind, (uint64_t)how);
            yk_local *table = store_of((yk_optim_kind)kind, sparse, l2, PARAMS), *own[WORKERS];
            for (int w = 0; w < workers; w++)
                own[w] = store_of((yk_optim_kind)kind, sparse, l2, PARAMS);
            for (int i = 0; i < ROUNDS; i++) {
                round_of(table, own, workers, (yk_optim_kind)kind, sparse, l2, &r);
                compare(table, own, workers);
            }
            for (int w = 0; w < workers; w++)
                yk_local_free(own[w]);
            yk_local_free(table);
        }
}

static void one_copy_equals_steps_on_the_table(void **state)
{
    (void)state;
    deltas_are_those_of_the_steps(1);
}

static void several_copies_give_the_mean(void **state)
{
    (void)state;
    deltas_are_those_of_the_steps(WORKERS);
}

/* A weight that only decays has no delta, and the copy has the old values again. */
static void a_delta_excludes_decay(void **state)
{
    (void)state;
    yk_local *s = store_of(YK_SGD, true, 0.1, 2);
    float old[] = {4, 2};
    yk_copy_begin(s, 2, (float *[YK_MAX_GROUPS]){old}, 10);
    for (int i = 0; i < 11; i++)
        step(s, (uint32_t[]){0}, 1, (float[]){-0.2f});
    yk_copy_end(s, 2, (float *[YK_MAX_GROUPS]){old});
    assert_memory_equal(yk_copy_array(s, 0, 0), ((float[]){4, 2}), sizeof old);
    assert_int_equal(yk_local_raw(s, 0).touched[0], 10);
    assert_true(old[0] > 0.05f && old[0] < 0.25f); /* the steps only, not their decay */
    assert_true(fabsf(old[1]) < 1e-6f);            /* only decay changed it */
    yk_local_free(s);
}

static int begin(void **state)
{
    (void)state;
    return yk_team_create(1, &team);
}

static int end(void **state)
{
    (void)state;
    yk_team_free(team);
    return 0;
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(one_copy_equals_steps_on_the_table),
                                       cmocka_unit_test(several_copies_give_the_mean),
                                       cmocka_unit_test(a_delta_excludes_decay)};
    return cmocka_run_group_tests_name("delta", tests, begin, end);
}
