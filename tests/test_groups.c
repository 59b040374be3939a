/* Several parameter groups in one model, with several floats per key, and with different optimizers and staleness bounds: in
 * one process they are trained as a serial program in doubles does, and a checkpoint holds all of them. */
#include "group_jobs.h"
#include "local_steps.h"

#include "base/dir.h"
#include "format/safetensors.h"
#include "train/checkpoint.h"

/* ---- one process ---- */

static yk_status local_worker(void *context, int me)
{
    job *j = context;
    yk_status st = train(j, yk_local_store(j->result), me, me);
    return st ? st : yk_local_quiesce(j->result, me);
}

static void run_threads(job *j)
{
    assert_int_equal(yk_team_create(j->workers, &j->team), YK_OK);
    const yk_local_config c = store_config(j, j->workers);
    assert_int_equal(yk_local_create(&c, &j->result), YK_OK);
    fill_store(j->result);
    assert_int_equal(yk_team_run(j->team, local_worker, j), YK_OK);
    yk_team_free(j->team);
    j->team = NULL;
}

static void threads_equal_serial(void **state)
{
    (void)state;
    for (int kind = 0; kind < YK_OPTIM_KINDS; kind++)
        for (int workers = 1; workers <= 3; workers += 2) {
            job j;
            job_begin(&j, kind, workers);
            job_decay(&j);
            run_threads(&j);
            assert_serial(&j, workers == 1 ? "one thread" : "three threads");
            assert_int_equal(yk_local_steps(j.result),
                             EPOCHS * ((ROWS + workers * BATCH - 1) / (workers * BATCH)));
            job_end(&j);
        }
}

/* With one worker there is nothing to wait for: results with any staleness bound are bit-identical. */
static void mode_does_not_matter_with_one_worker(void **state)
{
    static const uint64_t bounds[][GROUPS] = {
        {0, 0, 0}, {YK_ASYNC, YK_ASYNC, YK_ASYNC}, {YK_ASYNC, YK_ASYNC, 0}, {3, YK_ASYNC, 0}};
    (void)state;
    for (int kind = 0; kind < YK_OPTIM_KINDS; kind++) {
        job j[4];
        for (int i = 0; i < 4; i++) {
            job_begin(&j[i], kind, 1);
            for (int g = 0; g < GROUPS; g++)
                j[i].group[g].staleness = bounds[i][g];
            j[i].lockstep = bounds[i][NETWORK] == 0;
            j[i].epochs = 1;
            run_threads(&j[i]);
        }
        for (int i = 1; i < 4; i++)
            for (int g = 0; g < GROUPS; g++)
                assert_memory_equal(yk_local_table(j[0].result, g).w, yk_local_table(j[i].result, g).w,
                                    floats_of[g] * sizeof(float));
        for (int i = 0; i < 4; i++)
            job_end(&j[i]);
    }
}

/* ---- copies of hot keys ---- */

enum { MANY_KEYS = 3000, MANY_ROWS = 240, MANY_NNZ = 12, STEP_ROWS = 4 };

typedef struct {
    yk_team *team;
    yk_local *store;
    yk_rows rows;
    float err[MANY_ROWS];
} push_job;

/* The gradients of the rows do not depend on the parameters. */
static yk_status push_share(void *context, int me)
{
    push_job *p = context;
    uint32_t pick[MANY_ROWS];
    yk_status st = YK_OK;
    for (uint32_t r = 0; r < MANY_ROWS; r++)
        pick[r] = r;
    for (uint32_t at = (uint32_t)me * STEP_ROWS; !st && at < MANY_ROWS; at += 3 * STEP_ROWS) {
        yk_view view[YK_MAX_GROUPS];
        yk_step_result result;
        const yk_batch b = {.rows = &p->rows, .pick = pick + at, .n = STEP_ROWS};
        const yk_grad g = {.examples = b.n, .group = {{.rows = b, .err = p->err + at}}};
        if (!(st = local_pull(p->store, me, &b, view)) && !(st = local_push(p->store, me, &g)))
            st = local_clock(p->store, me, &result);
    }
    if (!st)
        local_finish(p->store, me);
    return st ? st : yk_local_quiesce(p->store, me);
}

/* Sums of powers of two are exact in any order. Frequency 0 means that a worker's changes between merges are small; then they
 * are added in full. */
static void copies_lose_nothing(void **state)
{
    (void)state;
    push_job p = {0};
    yk_rng rng = yk_rng_seed(1, 2);
    yk_rows_init(&p.rows, YK_ROWS_SPARSE, 0);
    for (int r = 0; r < MANY_ROWS; r++) {
        uint32_t *index;
        float *value;
        assert_int_equal(yk_rows_sparse(&p.rows, MANY_NNZ, &index, &value), YK_OK);
        for (int e = 0; e < MANY_NNZ;
             e++) /* the first ten keys occur in nearly every row, each cold one in a single row */
            index[e] =
                e < 10 ? (uint32_t)(2 * e + (int)yk_rng_below(&rng, 2)) : (uint32_t)(1000 + r * 2 + e - 10);
        assert_int_equal(yk_rows_commit(&p.rows, MANY_NNZ, 0), YK_OK);
        p.err[r] = (float)((int)yk_rng_below(&rng, 9) - 4);
    }
    yk_keymap map;
    assert_int_equal(yk_keymap_make(&p.rows, NULL, MANY_KEYS, UINT32_MAX, 256, &map), YK_OK);
    assert_true(map.hot >= 20 && map.hot < 1000);
    memset(map.freq, 0, map.hot * sizeof *map.freq);
    assert_int_equal(yk_keymap_rows(&map, &p.rows), YK_OK);
    float want[MANY_KEYS] = {0};
    for (size_t r = 0; r < MANY_ROWS; r++)
        for (uint64_t e = p.rows.start[r]; e < p.rows.start[r + 1]; e++)
            want[p.rows.index[e]] -= 0.25f * p.err[r] / STEP_ROWS;
    assert_int_equal(yk_team_create(3, &p.team), YK_OK);
    yk_local_config c = {.ngroups = 1, /* models with several groups have no copies */
                         .team = p.team,
                         .workers = 3,
                         .batch = STEP_ROWS,
                         .keymap = &map,
                         .group = {{.shape = {"linear", true, 1, MANY_KEYS},
                                    .optim = yk_optim_defaults(YK_SGD),
                                    .staleness = YK_ASYNC}}};
    c.group[0].optim.lr = 0.25;
    assert_int_equal(yk_local_create(&c, &p.store), YK_OK);
    assert_int_equal(yk_team_run(p.team, push_share, &p), YK_OK);
    assert_memory_equal(yk_local_table(p.store, 0).w, want, MANY_KEYS * sizeof(float));
    yk_staleness seen;
    yk_local_staleness(p.store, -1, &seen);
    assert_int_equal(seen.hot, map.hot);
    assert_true(seen.merges >= 3);
    assert_int_equal(yk_local_steps(p.store), MANY_ROWS / STEP_ROWS);
    yk_local_free(p.store);
    yk_team_free(p.team);
    yk_keymap_fini(&map);
    yk_rows_fini(&p.rows);
}

/* ---- checkpoints ---- */

/* Three groups: one with lazy weight decay, two with state. Keys are remapped in the first store, not in the second. */
static yk_local *trained_store(job *j, const yk_keymap *map)
{
    yk_local_config c = store_config(j, 1);
    yk_local *s;
    c.keymap = map;
    assert_int_equal(yk_local_create(&c, &s), YK_OK);
    return s;
}

static void assert_same_state(yk_local *a, const yk_keymap *map, yk_local *b)
{
    for (int g = 0; g < GROUPS; g++) {
        const yk_local_state from = yk_local_raw(a, g), to = yk_local_raw(b, g);
        const size_t width = g == EMBEDDING ? WIDE : 1;
        for (size_t i = 0; i < floats_of[g]; i++) {
            const size_t key = map && g != NETWORK ? yk_keymap_id(map, (uint32_t)(i / width)) : i / width;
            const size_t at = key * width + i % width;
            assert_true(from.live.w[at] == to.live.w[i]);
            for (int k = 0; k < yk_local_raw(a, g).rule->slots; k++)
                assert_true(from.live.s[k][at] == to.live.s[k][i]);
            if (from.touched)
                assert_int_equal(from.touched[at], to.touched[i]);
        }
    }
}

static void assert_tensors(const char *path)
{
    static const char *const names[] = {"raw_weights", "touched", "embedding.sum_squares", "network.mean",
                                        "network.mean_square"};
    char file[512];
    yk_safetensors *s;
    snprintf(file, sizeof file, "%s/state.safetensors", path);
    assert_int_equal(yk_safetensors_open(file, &s), YK_OK);
    for (size_t i = 0; i < sizeof names / sizeof *names; i++)
        if (!yk_safetensors_find(s, names[i]))
            fail_msg("%s has no tensor %s", file, names[i]);
    assert_null(yk_safetensors_find(s, "mean"));
    yk_safetensors_free(s);
}

static void checkpoints_hold_all_groups(void **state)
{
    (void)state;
    job j;
    job_begin(&j, 0, 1);
    j.group[LINEAR].optim = rule_config(YK_SGD);
    j.group[LINEAR].optim.l2 = 0.01;
    j.group[EMBEDDING].optim = rule_config(YK_ADAGRAD);
    j.group[NETWORK].optim = rule_config(YK_ADAM);
    yk_keymap map;
    assert_int_equal(yk_keymap_make(&j.rows, NULL, KEYS, DIM, KEYS, &map), YK_OK);
    assert_true(map.nmoves > 10 && yk_keymap_id(&map, DIM) != DIM);
    assert_int_equal(yk_keymap_rows(&map, &j.rows), YK_OK);
    j.model.bias_key = yk_keymap_id(&map, DIM);
    yk_local *s = trained_store(&j, &map), *same = trained_store(&j, &map), *other = trained_store(&j, NULL);
    fill_store(s);
    assert_int_equal(train(&j, yk_local_store(s), 0, 0), YK_OK);
    assert_int_equal(yk_local_quiesce(s, 0), YK_OK);
    float *before = yk_alloc(floats_of[EMBEDDING], sizeof *before, "a test");
    memcpy(before, yk_local_raw(s, EMBEDDING).live.w, floats_of[EMBEDDING] * sizeof *before);
    yk_progress_state p = {
        .step = yk_local_steps(s), .epoch = EPOCHS, .cursor = (uint64_t[]){1}, .ncursor = 1};
    char *path = NULL;
    assert_int_equal(yk_dir_make(in_directory("run")), YK_OK);
    yk_checkpoint_arrays arrays;
    yk_checkpoint_arrays_of(s, &arrays, true);
    assert_int_equal(
        yk_checkpoint_write(in_directory("run"), "factor", NULL, &j.model, &arrays, &map, &p, &path), YK_OK);
    assert_int_equal(yk_checkpoint_remap(&arrays, &map, false), YK_OK);
    assert_memory_equal(before, yk_local_raw(s, EMBEDDING).live.w, floats_of[EMBEDDING] * sizeof *before);
    assert_tensors(path);
    yk_progress_state again;
    assert_int_equal(yk_checkpoint_load(path, &j.model, same, &map, &again), YK_OK);
    free(again.cursor);
    assert_same_state(s, NULL, same);
    assert_int_equal(yk_local_steps(same), p.step);
    assert_int_equal(yk_checkpoint_load(path, &j.model, other, NULL, &again), YK_OK);
    free(again.cursor);
    assert_same_state(s, &map, other);
    free(path);
    yk_free(before);
    yk_local_free(s);
    yk_local_free(same);
    yk_local_free(other);
    yk_keymap_fini(&map);
    job_end(&j);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(threads_equal_serial),
        cmocka_unit_test(mode_does_not_matter_with_one_worker),
        cmocka_unit_test(copies_lose_nothing),
        cmocka_unit_test(checkpoints_hold_all_groups),
    };
    return cmocka_run_group_tests_name("groups", tests, make_test_directory, remove_test_directory);
}
