/* Observation: total usage of the processes of one host, files of JSON lines, and an observer of two ranks with simulated
 * messages, time and disk. */
#include "simulation.h"

#include "base/clock.h"
#include "base/file.h"
#include "fs_memory.h"
#include "observe/lines.h"
#include "observe/observe_internal.h"
#include "sim.h"
#include "train/plan.h"
#include <math.h>

static yk_process process(const char *host, int workers, double cpu, double seconds)
{
    yk_process p = {.workers = workers,
                    .usage = {.host_cores = 2,
                              .cpu = {cpu, cpu},
                              .cpu_host = {2.0, 2.0},
                              .delayed = {0.5, 0.5},
                              .seconds = seconds}};
    snprintf(p.usage.host, sizeof p.usage.host, "%s", host);
    return p;
}

static void ranks_of_one_host_are_added_up(void **state)
{
    (void)state;
    yk_process p[] = {process("a", 0, 0.2, 10.0), process("a", 1, 0.8, 10.0), process("b", 1, 1.0, 10.0),
                      process("a", 1, 0.9, 10.0)};
    yk_usage u;
    yk__usage_of_host(p, 4, 0, &u);
    assert_true(fabs(u.cpu.mean - 1.9) < 1e-9);     /* 0.1 of the two cores are others' */
    assert_true(fabs(u.delayed.mean - 1.5) < 1e-9); /* of three processes */
    assert_true(u.cpu_host.mean == 2.0);
    yk__usage_of_host(p, 4, 2, &u);
    assert_true(u.cpu.mean == 1.0);
}

/* Means are weighted by time: a mean over half of the run counts half. */
static void usage_is_weighted_by_time(void **state)
{
    (void)state;
    yk_process p[] = {process("a", 1, 1.0, 10.0), process("a", 1, 0.8, 5.0), process("a", 1, 0.4, 2.5)};
    yk_usage u;
    p[2].lost = true;
    yk__usage_of_host(p, 3, 0, &u);
    assert_true(fabs(u.cpu.mean - (1.0 + 0.4 + 0.1)) < 1e-9);
    p[0].usage.seconds = 0.0; /* nothing was measured yet */
    yk__usage_of_host(p, 3, 0, &u);
    assert_true(u.cpu.mean == 1.0);
}

/* Finds the last line of a log that has a given text, also if the last line is incomplete. */
static void the_last_matching_line_is_found(void **state)
{
    (void)state;
    char line[256], name[16];
    const char *path = in_directory("log.jsonl");
    yk_lines_last(directory, "log.jsonl", "step", line, sizeof line);
    assert_string_equal(line, ""); /* no such file */
    assert_true(isnan(yk_line_number(line, "step")));
    const char text[] = "{\"kind\":\"train\",\"step\":7,\"bottleneck\":\"cpu\",\"share\":0.5}\n"
                        "{\"kind\":\"eval\",\"step\":9}\n"
                        "{\"kind\":\"train\",\"step\":1";
    put(path, text, strlen(text));
    yk_lines_last(directory, "log.jsonl", "step", line, sizeof line);
    assert_true(yk_line_number(line, "step") == 9.0);
    yk_lines_last(directory, "log.jsonl", "bottleneck", line, sizeof line);
    yk_line_text(line, "bottleneck", name, sizeof name);
    assert_string_equal(name, "cpu");
    assert_true(yk_line_number(line, "share") == 0.5);
    yk_line_text(line, "nothing", name, sizeof name);
    assert_string_equal(name, "");
}

/* A resumed run drops lines after its checkpoint, and an incomplete line. */
static void lines_beyond_the_checkpoint_are_dropped(void **state)
{
    (void)state;
    char line[64], all[128];
    const char text[] = "{\"step\":1}\n{\"note\":0}\n{\"step\":3}\n{\"step\":2}\n{\"step\":2";
    assert_int_equal(yk_lines_cut(directory, "none.jsonl", "step", 2.0), YK_OK);
    put(in_directory("cut.jsonl"), text, strlen(text));
    assert_int_equal(yk_lines_cut(directory, "cut.jsonl", "step", 2.0), YK_OK);
    all[get_file(in_directory("cut.jsonl"), all, sizeof all - 1)] = '\0';
    assert_string_equal(all, "{\"step\":1}\n{\"note\":0}\n{\"step\":2}\n");
    assert_int_equal(yk_lines_cut(directory, "cut.jsonl", "step", 0.0), YK_OK);
    yk_lines_last(directory, "cut.jsonl", "step", line, sizeof line);
    assert_string_equal(line, "");
}

/* ---- an observer of two ranks ---- */

enum { STEPS = 400, BATCH = 16 };
static const uint64_t step_ns = 20000000;

typedef struct {
    yk_fs_memory *disk;
    uint64_t step; /* of the current rank */
    yk_workspace *work;
} run;

static void position_of(void *context, yk_run_position *out)
{
    const uint64_t step = ((const run *)context)->step;
    *out = (yk_run_position){.step = step,
                             .examples = 2 * BATCH * step,
                             .epoch_examples = 1000,
                             .trained_examples = 2 * BATCH * step,
                             .trained_weight = 2.0 * BATCH * (double)step,
                             .trained_loss = BATCH * (double)step};
}

static yk_workspace *work_of(void *context, int worker)
{
    (void)worker;
    return ((const run *)context)->work;
}

static void staleness_of(void *context, int worker, yk_staleness *out)
{
    (void)context, (void)worker;
    *out = (yk_staleness){.observed = 3, .bucket = {1, 0, 2}, .mean = 2.0, .max = 3.0};
}

/* Steps of 20 ms, an evaluation at the end. */
static yk_status steps(yk_observer *o, run *r, yk_phases *p)
{
    yk_phases_begin(p, 2);
    yk_observer_begin(o);
    for (r->step = 1; r->step <= STEPS; r->step++) {
        yk_phases_step(p);
        yk_phase_to(p, YK_PHASE_COMPUTE);
        yk_sleep_ns(step_ns);
        yk_phases_done(p, 1, BATCH, BATCH, 0.5 * BATCH);
        yk_observer_traffic(o);
        if (r->step % 2 == 0 && o->c.rank == 0)
            yk_observer_progress(o, true, r->step % 10 == 0);
    }
    r->step = STEPS;
    yk_phases_end(p);
    yk_evaluation e = {.m = {.step = STEPS,
                             .examples = 2 * BATCH * STEPS,
                             .epoch = 2 * BATCH * STEPS / 1000.0,
                             .seconds = yk__observer_seconds(o),
                             .train_loss = 0.25,
                             .test_accuracy = 0.75,
                             .test_auc = (double)NAN},
                       .tested = true};
    return o->c.rank ? YK_OK : yk_observer_evaluated(o, &e);
}

static int count(const char *text, const char *what)
{
    int n = 0;
    for (; (text = strstr(text, what)); text++)
        n++;
    return n;
}

static yk_status check_file(const char *name, const char *what, int min, int max)
{
    static char text[1 << 18];
    const int fd = yk_open_in("run", name, O_RDONLY);
    WANT(fd >= 0);
    const ssize_t n = yk_sys->read(fd, text, sizeof text - 1);
    yk_fs_close(fd);
    WANT(n > 0);
    text[n] = '\0';
    const int found = count(text, what);
    return found >= min && found <= max
               ? YK_OK
               : yk_fail(YK_EDATA, "%s: %d times %s, not %d to %d", name, found, what, min, max);
}

/* The chief, after 8 simulated seconds. */
static yk_status check_chief(yk_observer *o, const yk_observation *w)
{
    yk_metrics_end end;
    const yk_process *p = w->process;
    WANT(w->nprocesses == 2 && w->nmeasured == 2);
    WANT(strcmp(p[0].role, "worker") == 0 && strcmp(p[1].role, "worker") == 0);
    WANT(p[1].phases.steps == STEPS && p[1].phases.examples == STEPS * BATCH);
    WANT(p[1].bytes_sent > 0);
    WANT(fabs(p[1].phases.seconds - STEPS * 0.02) < 0.1);
    WANT(o->telemetry.npeers == 1 && o->telemetry.peer[0]->newest.last);
    char *page = yk__live_status(o);
    WANT(page && strstr(page, "\"rank 1\""));
    free(page);
    TRY(yk_observer_close(o, "done"));
    TRY(check_file("metrics.jsonl", "\"kind\":\"train\"", 200, 200));
    TRY(check_file("metrics.jsonl", "\"kind\":\"eval\"", 1, 1));
    TRY(check_file("worker-0/resources.jsonl", "\"kind\":\"sample\"", 28, 34));
    yk_metrics_read_end("run", &end);
    WANT(end.steps == STEPS && fabs(end.seconds - STEPS * 0.02) < 0.1);
    return YK_OK;
}

static yk_status observe(yk_observer *o, run *r, yk_phases *p)
{
    yk_observation w = {0};
    bool lost = false;
    TRY(yk_observer_open(o));
    TRY(yk_observer_start(o, yk_now()));
    TRY(steps(o, r, p));
    TRY(yk_observer_stop(o, STEPS, false, YK_OK));
    TRY(yk_observer_gather(o, &lost, &w));
    TRY(yk_observer_conclude(o, lost, &w));
    yk_status st = o->c.rank ? YK_OK : check_chief(o, &w);
    yk_observation_fini(&w);
    return st;
}

static yk_status observed_rank(void *context, int rank)
{
    run r = {.disk = context};
    yk_phases *p = yk_alloc(1, sizeof *p, "phases");
    yk_model *model;
    yk_config c;
    yk_plan plan;
    yk_comm *comm;
    yk_observer *o;
    yk_optim_config optim = yk_optim_defaults(0 /* sgd */);
    WANT(p);
    TRY(yk_comm_start(NULL, NULL, 30.0, &comm));
    yk_config_init(&c);
    (void)yk_plan_options(&c, &(yk_topology){.processes = 2, .cores = 1}, &plan);
    TRY(yk_model_create("softmax", &(yk_model_shape){.kind = YK_ROWS_F32, .dim = 4, .classes = 3}, &model));
    TRY(yk_workspace_create(model, BATCH, &r.work));
    yk_fs_set(yk_fs_memory_fs(r.disk));
    const yk_observer_config config = {.config = &c,
                                       .plan = &plan,
                                       .model = model,
                                       .optim = {&optim},
                                       .comm = comm,
                                       .rank = rank,
                                       .ranks = 2,
                                       .workers = 1,
                                       .phases = p,
                                       .run_dir = rank ? NULL : "run",
                                       .context = &r,
                                       .position = position_of,
                                       .work = work_of,
                                       .staleness = staleness_of};
    yk_status st = yk_observer_create(&config, &o);
    if (!st)
        st = observe(o, &r, p);
    if (!st)
        st = yk_comm_barrier(comm, 8.0, "the end");
    yk_observer_free(o);
    yk_fs_set(NULL);
    yk_comm_stop(comm, !st);
    yk_workspace_free(model, r.work);
    yk_model_free(model);
    yk_config_fini(&c);
    yk_free(p);
    return st;
}

static uint64_t observe_two_ranks(uint64_t seed)
{
    yk_sim_rank rank[2];
    yk_sim_result r;
    yk_fs_memory *disk = yk_fs_memory_create(seed);
    assert_non_null(disk);
    yk_fs_set(yk_fs_memory_fs(disk));
    assert_int_equal(yk_dir_make("run"), YK_OK);
    yk_fs_set(NULL);
    assert_int_equal(yk_sim_run(&(yk_sim_config){.ranks = 2, .seed = seed}, observed_rank, disk, rank, &r),
                     YK_OK);
    for (int i = 0; i < 2; i++)
        if (rank[i].end != YK_SIM_RETURNED || rank[i].status)
            fail_msg("rank %d: %s", i, rank[i].error);
    yk_fs_memory_free(disk);
    return r.messages;
}

/* Sampling, telemetry and metrics follow the simulated clock, so a run repeats itself. */
static void two_simulated_ranks_are_observed(void **state)
{
    (void)state;
    const uint64_t messages = observe_two_ranks(1);
    assert_true(messages > 8); /* telemetry once per second, and other messages */
    assert_int_equal(observe_two_ranks(1), messages);
}

/* ---- short epochs ---- */

/* Of very many evaluations, the first ones, the best one, the last one and a few thousand others are written. */
static void evaluations_are_thinned(void **state)
{
    (void)state;
    enum { N = 100000, BEST = 54321 };
    run r = {0};
    yk_model *model;
    yk_config c;
    yk_plan plan;
    yk_observer *o;
    char line[1024];
    int lines = 0, first = 0, best = 0, last = -1;
    bool ordered = true;
    yk_config_init(&c);
    (void)yk_plan_options(&c, &(yk_topology){.processes = 1, .cores = 1}, &plan);
    assert_int_equal(
        yk_model_create("softmax", &(yk_model_shape){.kind = YK_ROWS_F32, .dim = 4, .classes = 3}, &model),
        YK_OK);
    const yk_observer_config config = {.config = &c,
                                       .plan = &plan,
                                       .model = model,
                                       .ranks = 1,
                                       .run_dir = directory,
                                       .context = &r,
                                       .staleness = staleness_of};
    assert_int_equal(yk_observer_create(&config, &o), YK_OK);
    assert_int_equal(yk_observer_open(o), YK_OK);
    for (uint64_t i = 0; i <= N; i++) {
        const yk_evaluation e = {
            .m = {.step = 7 * i, .test_loss = i == BEST ? 0.5 : 1.0 + (double)i, .test_auc = (double)NAN},
            .tested = true};
        assert_int_equal(yk_observer_evaluated(o, &e), YK_OK);
    }
    assert_int_equal(yk_observer_close(o, "done"), YK_OK);
    yk_observer_free(o);
    yk_model_free(model);
    yk_config_fini(&c);
    FILE *f = fopen(in_directory("metrics.jsonl"), "r");
    assert_non_null(f);
    while (fgets(line, sizeof line, f)) {
        const int i = (int)yk_line_number(line, "step") / 7;
        ordered &= i > last;
        last = i;
        lines++;
        first += i < 1000;
        best += i == BEST && yk_line_number(line, "test_loss") == 0.5;
    }
    fclose(f);
    assert_true(ordered && first == 1000 && best == 1 && last == N);
    assert_in_range(lines, 2000, 6000); /* 1000 ln(100) and the first ones */
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(ranks_of_one_host_are_added_up),
        cmocka_unit_test(usage_is_weighted_by_time),
        cmocka_unit_test(the_last_matching_line_is_found),
        cmocka_unit_test(lines_beyond_the_checkpoint_are_dropped),
        cmocka_unit_test(two_simulated_ranks_are_observed),
        cmocka_unit_test(evaluations_are_thinned),
    };
    return cmocka_run_group_tests(tests, make_test_directory, remove_test_directory);
}
