/* Copies of hot keys: the staleness bound holds for keys with and without copies, and lazy weight decay follows its rule. */
#include "local_steps.h"
#include "scratch.h"

#include "base/mem.h"
#include "kern/isa.h"
#include "store/local.h"
#include <math.h>
#include <time.h>

enum { WORKERS = 4, KEYS = 4096, HOT = 512, LEVELS = 3, STEPS = 150 };

/* Keys that are merged often, keys that are merged less often, and keys without copies. */
static const uint32_t first_key[LEVELS] = {0, 256, 2048};

typedef struct {
    yk_team *team;
    yk_local *store;
    yk_keymap map;
    yk_rows rows; /* row w has key first_key[level] + w of each level */
    uint64_t bound;
    size_t steps;
    atomic_uint_fast64_t stalest[LEVELS]; /* number of updates that a worker did not see */
    atomic_bool copied;
} hot_test;

static void setup(hot_test *b, size_t batch, double lr, double l2)
{
    b->map = (yk_keymap){.hot = HOT, .freq = yk_alloc(HOT, sizeof(float), "frequencies")};
    for (int k = 0; k < HOT; k++)
        b->map.freq[k] = 1.0f;
    yk_rows_init(&b->rows, YK_ROWS_SPARSE, 0);
    for (uint32_t w = 0; w < WORKERS; w++) {
        uint32_t *index;
        float *value;
        assert_int_equal(yk_rows_sparse(&b->rows, LEVELS, &index, &value), YK_OK);
        for (int level = 0; level < LEVELS; level++)
            index[level] = first_key[level] + w;
        assert_int_equal(yk_rows_commit(&b->rows, LEVELS, 0), YK_OK);
    }
    assert_int_equal(yk_team_create(WORKERS, &b->team), YK_OK);
    yk_local_config c = {.ngroups = 1,
                         .group = {{.shape = {.keyed = true, .width = 1, .keys = KEYS},
                                    .optim = yk_optim_defaults(0 /* sgd */),
                                    .staleness = b->bound}},
                         .team = b->team,
                         .workers = WORKERS,
                         .batch = batch,
                         .keymap = &b->map}; /* norm 0: deltas are added in full */
    c.group[0].optim.lr = lr;
    c.group[0].optim.l2 = l2;
    assert_int_equal(yk_local_create(&c, &b->store), YK_OK);
}

static void teardown(hot_test *b)
{
    yk_local_free(b->store);
    yk_team_free(b->team);
    yk_rows_fini(&b->rows);
    yk_free(b->map.freq);
}

/* ---- the bound */

/* Key first_key[level] + w counts the steps of worker w. Worker `me` begins step `step`. */
static YK_RACY void look(hot_test *b, int me, uint64_t step, const yk_view *v)
{
    for (int level = 0; level < LEVELS; level++)
        for (uint32_t w = 0; w < WORKERS; w++) {
            const uint64_t seen = (uint64_t)v->w[yk_view_at(v, first_key[level] + w)];
            const uint64_t missed = step > seen && (int)w != me ? step - seen : 0;
            uint64_t max = atomic_load(&b->stalest[level]);
            while (missed > max && !atomic_compare_exchange_weak(&b->stalest[level], &max, missed))
                ;
        }
}

/* Batches are smaller than usual. Each worker in turn is the slowest. */
static yk_status count_steps(void *context, int me)
{
    hot_test *b = context;
    const uint32_t pick = (uint32_t)me;
    const float err = -1.0f;
    yk_status st = YK_OK;
    for (uint64_t step = 0; !st && step < b->steps; step++) {
        const yk_batch batch = {&b->rows, &pick, 1, 0};
        const yk_grad g = {.examples = 1, .group = {{.rows = batch, .err = &err}}};
        yk_view view;
        yk_step_result result;
        if ((st = local_pull(b->store, me, &batch, &view)))
            break;
        look(b, me, step, &view);
        if (view.hot == HOT)
            atomic_store(&b->copied, true);
        if (step * WORKERS / b->steps == (uint64_t)me)
            nanosleep(&(struct timespec){.tv_nsec = 100000}, NULL);
        if (!(st = local_push(b->store, me, &g)))
            st = local_clock(b->store, me, &result);
    }
    local_finish(b->store, me);
    return st;
}

static void the_bound_holds_for_copies(void **state)
{
    (void)state;
    static const uint64_t bounds[] = {1, 2, 3, 4, 7, 16, 63, 64, 100};
    for (size_t i = 0; i < 2 * sizeof bounds / sizeof *bounds; i++) {
        hot_test b = {.bound = bounds[i / 2], .steps = STEPS + 2 * bounds[i / 2]};
        setup(&b, 4, 1.0, i % 2 ? 1e-30 : 0.0); /* a decay that changes nothing */
        assert_int_equal(yk_team_run(b.team, count_steps, &b), YK_OK);
        assert_true(b.copied);
        for (int level = 0; level < LEVELS; level++) {
            const uint64_t stalest = atomic_load(&b.stalest[level]);
            if (stalest > b.bound)
                fail_msg("level %d: %llu updates were missing, the bound is %llu", level,
                         (unsigned long long)stalest, (unsigned long long)b.bound);
            for (uint32_t w = 0; w < WORKERS; w++)
                assert_true(yk_local_table(b.store, 0).w[first_key[level] + w] == (float)b.steps ||
                            i % 2 == 1);
        }
        if (b.bound > 1) /* it is a bound, not a barrier in every step */
            assert_true(atomic_load(&b.stalest[0]) > b.bound / 2);
        teardown(&b);
    }
}

/* ---- refresh */

/* Worker 0 refreshes its copies again and again, as after an evaluation, while the others count. */
static yk_status refresh_while_others_count(void *context, int me)
{
    hot_test *b = context;
    if (me)
        return count_steps(context, me);
    const uint32_t pick = 0;
    const float err = 0.0f;
    const yk_batch batch = {&b->rows, &pick, 1, 0};
    const yk_grad g = {.examples = 1, .group = {{.rows = batch, .err = &err}}};
    yk_status st = YK_OK;
    for (uint64_t step = 0; !st && step < b->steps; step++) {
        yk_view view;
        yk_step_result result;
        if (!(st = yk_local_resume(b->store, me)) && !(st = local_pull(b->store, me, &batch, &view)) &&
            !(st = local_push(b->store, me, &g)))
            st = local_clock(b->store, me, &result); /* merges a delta of 0 */
    }
    local_finish(b->store, me);
    return st;
}

static void a_refresh_loses_no_update(void **state)
{
    (void)state;
    hot_test b = {.bound = YK_ASYNC, .steps = 2000};
    setup(&b, 1, 1.0, 0.0);
    assert_int_equal(yk_team_run(b.team, refresh_while_others_count, &b), YK_OK);
    for (uint32_t w = 1; w < WORKERS; w++)
        assert_float_equal(yk_local_table(b.store, 0).w[w], (float)b.steps, 0);
    teardown(&b);
}

/* ---- decay */

/* The first step adds 1 to the keys of this worker, the others add nothing. */
static yk_status decay(void *context, int me)
{
    hot_test *b = context;
    const uint32_t pick = (uint32_t)me;
    yk_status st = YK_OK;
    for (size_t step = 0; !st && step < b->steps; step++) {
        const float err = step ? 0.0f : -10.0f;
        const yk_batch batch = {&b->rows, &pick, 1, 0};
        const yk_grad g = {.examples = 1, .group = {{.rows = batch, .err = &err}}};
        yk_view view;
        yk_step_result result;
        if (!(st = local_pull(b->store, me, &batch, &view)) && !(st = local_push(b->store, me, &g)))
            st = local_clock(b->store, me, &result);
        if (!st && step == 4) /* all have merged */
            st = yk_team_barrier(b->team, me);
        if (step == 10 && me == 3)
            break; /* its keys decay in the steps of other workers */
    }
    local_finish(b->store, me);
    if (!st)
        st = yk_local_quiesce(b->store, me);
    return st ? st : yk_team_barrier(b->team, me);
}

static yk_status quiesce(void *context, int me)
{
    hot_test *b = context;
    yk_status st = yk_local_quiesce(b->store, me);
    return st ? st : yk_team_barrier(b->team, me);
}

static void copies_decay(void **state)
{
    (void)state;
    static const uint64_t bounds[] = {YK_ASYNC, 200, 64};
    for (size_t i = 0; i < sizeof bounds / sizeof *bounds; i++) {
        hot_test b = {.bound = bounds[i], .steps = 400};
        float before[KEYS];
        setup(&b, 1024, 0.1, 0.01);
        assert_int_equal(yk_team_run(b.team, decay, &b), YK_OK);
        const double expected = exp(-0.1 * 0.01 * (double)yk_local_steps(b.store));
        memcpy(before, yk_local_table(b.store, 0).w, sizeof before);
        for (int level = 0; level < LEVELS; level++)
            for (uint32_t w = 0; w < WORKERS; w++)
                assert_true(fabs((double)before[first_key[level] + w] / expected - 1.0) < 0.05);
        /* a checkpoint */
        yk_local_restore(b.store, yk_local_steps(b.store));
        assert_int_equal(yk_team_run(b.team, quiesce, &b), YK_OK);
        for (int k = 0; k < KEYS; k++)
            assert_true(fabsf(yk_local_table(b.store, 0).w[k] - before[k]) <= 0.02f * before[k]);
        teardown(&b);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(the_bound_holds_for_copies),
        cmocka_unit_test(a_refresh_loses_no_update),
        cmocka_unit_test(copies_decay),
    };
    return cmocka_run_group_tests_name("hot", tests, NULL, NULL);
}
