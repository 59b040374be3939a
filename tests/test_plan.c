/* From options to a plan: modes, roles, timeouts, and options that conflict. */
#include "train/plan.h"

#include "scratch.h"

#include "optim/kinds.h"

enum { ALONE = -1 }; /* not in a job */

static yk_status plan_with(const char *options, const yk_topology *job, const yk_data_facts *data,
                           yk_plan *out)
{
    yk_config c;
    yk_model_description model;
    char copy[512], *save = NULL;
    yk_config_init(&c);
    snprintf(copy, sizeof copy, "%s", options);
    for (char *word = strtok_r(copy, " ", &save); word; word = strtok_r(NULL, " ", &save)) {
        char *equals = strchr(word, '=');
        *equals = '\0';
        assert_int_equal(yk_config_set(&c, word, equals + 1), YK_OK);
    }
    assert_int_equal(yk_model_parse(c.model, &model), YK_OK);
    const yk_status st = yk_plan_make(&c, &model, data, job, out);
    yk_config_fini(&c);
    return st;
}

static yk_status plan_of(const char *options, int processes, yk_plan *out)
{
    const yk_topology job = {
        .processes = processes == ALONE ? 1 : processes, .cores = 8, .single = processes == ALONE};
    return plan_with(options, &job, &(yk_data_facts){0}, out);
}

#define DENSE  "model=softmax data=synth:digits "
#define SPARSE "model=logreg data=synth:ctr?features=100&examples=100 "

static void modes(void **state)
{
    (void)state;
    static const struct {
        const char *options;
        uint64_t staleness;
        bool synchronous, lockstep, survives, joinable;
        uint64_t per_step;
    } want[] = {
        {DENSE, 0, true, true, false, false, 3},
        {DENSE "staleness=0 mode=async", 0, true, true, false, false, 3},
        {DENSE "mode=async servers=1", YK_ASYNC, false, false, true, true, 1},
        {DENSE "staleness=4 servers=1", 4, false, false, true, true, 1},
        {DENSE "quorum=2 servers=1", 0, true, false, true, false, 2},
    };
    for (size_t i = 0; i < sizeof want / sizeof *want; i++) {
        yk_plan p;
        const int servers = want[i].lockstep ? 0 : 1;
        assert_int_equal(plan_of(want[i].options, 3 + servers, &p), YK_OK);
        assert_true(p.staleness == want[i].staleness && p.synchronous == want[i].synchronous);
        assert_true(p.lockstep == want[i].lockstep && p.survives_loss == want[i].survives);
        assert_true(p.joinable == want[i].joinable);
        assert_int_equal(p.gradients_per_step, want[i].per_step);
        assert_string_equal(p.mode, want[i].synchronous ? "sync" : "async");
        assert_int_equal(p.workers, 3);
        assert_int_equal(p.servers, servers);
    }
}

static void lifetimes_of_copies(void **state)
{
    (void)state;
    static const struct {
        const char *options;
        uint64_t lifetime;
        int depth;
    } want[] = {
        {SPARSE "mode=async batch=100", 20, 2},
        {SPARSE "mode=async batch=5000", 1, 2},
        {SPARSE "staleness=8 batch=100", 4, 2},
        {SPARSE "staleness=1 batch=100", 1, 1},
        {SPARSE "mode=async batch=100 optimizer=adagrad", 20, 2},
        {SPARSE "batch=100", 0, 1},
        {DENSE "mode=async batch=100", 0, 1},
    };
    for (size_t i = 0; i < sizeof want / sizeof *want; i++) {
        yk_plan p;
        assert_int_equal(plan_of(want[i].options, 2, &p), YK_OK);
        assert_int_equal(p.copy_lifetime, want[i].lifetime);
        assert_int_equal(p.depth, want[i].depth);
    }
}

static void placement(void **state)
{
    (void)state;
    static const struct {
        const char *options;
        int processes, servers, workers;
        yk_placement placement;
    } want[] = {
        {DENSE "workers=3", 1, 0, 3, YK_PLACEMENT_LOCAL},
        {DENSE, 4, 0, 4, YK_PLACEMENT_REPLICAS},
        {DENSE "servers=2", 4, 2, 2, YK_PLACEMENT_SERVERS},
        {DENSE "servers=2 workers=3", 4, 2, 6, YK_PLACEMENT_SERVERS},
        {SPARSE, 4, 0, 4, YK_PLACEMENT_SHARDS},
        {SPARSE "servers=0", 4, 0, 4, YK_PLACEMENT_SHARDS},
        {SPARSE "local-steps=5", 4, 0, 4, YK_PLACEMENT_SHARDS},
        {DENSE "local-steps=5 workers=2", 4, 0, 8, YK_PLACEMENT_REPLICAS},
        {DENSE "local-steps=5 mode=async", 4, 0, 4, YK_PLACEMENT_SHARDS},
        {DENSE "mode=async", 4, 0, 4, YK_PLACEMENT_SHARDS},
        {DENSE "quorum=4", 4, 0, 4, YK_PLACEMENT_SHARDS},
        {SPARSE "mode=async servers=1", 0, 1, 1, YK_PLACEMENT_SERVERS}, /* joining */
    };
    for (size_t i = 0; i < sizeof want / sizeof *want; i++) {
        yk_plan p;
        assert_int_equal(plan_of(want[i].options, want[i].processes, &p), YK_OK);
        assert_int_equal(p.servers, want[i].servers);
        assert_int_equal(p.workers, want[i].workers);
        assert_int_equal(p.placement, want[i].placement);
        assert_int_equal(p.global_batch, 64 * (uint64_t)want[i].workers);
    }
}

static void global_batches(void **state)
{
    (void)state;
    static const struct {
        const char *options;
        int processes;
        uint64_t batch, global;
        int workers, threads;
        const char *error;
    } want[] = {
        {SPARSE "global-batch=120", ALONE, 120, 120, 1, 1, NULL},
        {SPARSE "global-batch=120 workers=3", ALONE, 40, 120, 3, 1, NULL},
        {SPARSE "global-batch=120 workers=3 batch=40", 2, 40, 240, 6, 1, "contradicts --batch 40: 6 workers"},
        {SPARSE "global-batch=240 workers=3 batch=40", 2, 40, 240, 6, 1, NULL},
        {SPARSE "global-batch=120 workers=3 servers=1", 3, 20, 120, 6, 1, NULL},
        {SPARSE "global-batch=120 workers=3 servers=1 mode=async", 3, 20, 120, 6, 1, NULL},
        {SPARSE "global-batch=120 servers=1 quorum=2", 4, 60, 120, 3, 1, NULL},
        {SPARSE "global-batch=100 workers=3", ALONE, 33, 99, 3, 1, "among 3 workers: use a multiple of 3"},
        {DENSE "global-batch=2 workers=3", ALONE, 1, 3, 3, 1, "among 3 workers"},
        {SPARSE "global-batch=120 servers=1 mode=async", 0, 120, 120, 1, 1, "cannot join"},
        /* workers become threads */
        {"model=lenet5 global-batch=64 workers=16", ALONE, 64, 64, 1, 16, NULL},
        {"model=fm:8 global-batch=64 workers=auto threads=2", ALONE, 64, 64, 1, 8, NULL},
        {"model=lenet5 global-batch=64 workers=2", 4, 16, 64, 4, 2, NULL},
        {"model=lenet5 global-batch=64 workers=16 mode=async", ALONE, 4, 64, 16, 1, NULL},
        {"model=lenet5 global-batch=64 workers=16 batch=4", ALONE, 4, 64, 16, 1, NULL},
    };
    for (size_t i = 0; i < sizeof want / sizeof *want; i++) {
        yk_plan p;
        assert_int_equal(plan_of(want[i].options, want[i].processes, &p), want[i].error ? YK_EUSAGE : YK_OK);
        if (want[i].error && !strstr(yk_error(), want[i].error))
            fail_msg("%s: %s", want[i].options, yk_error());
        assert_int_equal(p.batch, want[i].batch);
        assert_int_equal(p.global_batch, want[i].global);
        assert_int_equal(p.workers, want[i].workers);
        assert_int_equal(p.threads, want[i].threads);
    }
}

static void timeouts(void **state)
{
    (void)state;
    yk_plan p;
    assert_int_equal(plan_of(DENSE "deadline=20 mode=async servers=1", 3, &p), YK_OK);
    assert_true(p.heartbeat_timeout == 20.0 && p.worker_timeout == 10.0 && p.server_timeout == 21.0);
    assert_true(p.startup_timeout == 160.0 && p.first_step_timeout == 320.0 && p.heartbeat_every == 2.5);
    assert_true(p.barrier_timeout == 640.0 && p.control_timeout == 25.0 && p.team_timeout == 1500.0);
    assert_true(p.report_timeout == 80.0 && p.leave_timeout == 2.5 && p.dead_timeout == 0.5);
    assert_int_equal(plan_of(DENSE, 3, &p), YK_OK);
    assert_true(p.heartbeat_timeout == 8.0 && p.heartbeat_every == 1.0 && p.report_timeout == 32.0);
    assert_true(p.leave_timeout == 1.0 && p.dead_timeout == 0.5);
    assert_int_equal(plan_of(DENSE "deadline=2", 3, &p), YK_OK);
    assert_true(p.worker_timeout == 2.0 && p.startup_timeout == 60.0);
    assert_true(p.control_timeout == 9.0 && p.team_timeout == 600.0);
    assert_true(p.leave_timeout == 1.0 && p.dead_timeout == 0.125);
    /* a false alarm would end the job */
    assert_int_equal(plan_of(DENSE "mode=async servers=all", 3, &p), YK_OK);
    assert_true(p.worker_timeout == 8.0);
    /* 256 processes on 2 cores run rarely */
    const yk_topology crowd = {.processes = 256, .cores = 1, .own_cores = 2, .sharing = 256};
    assert_int_equal(plan_with(DENSE "mode=sync", &crowd, &(yk_data_facts){0}, &p), YK_OK);
    assert_true(p.heartbeat_timeout == 128.0 && p.heartbeat_every == 16.0);
    /* a thread or process that waits for a waiting one has the longer timeout */
    for (double deadline = 0.1; deadline < 86400; deadline *= 2) {
        char options[128];
        snprintf(options, sizeof options, DENSE "deadline=%g", deadline);
        assert_int_equal(plan_of(options, 3, &p), YK_OK);
        assert_true(p.team_timeout > p.barrier_timeout && p.barrier_timeout > p.first_step_timeout);
        assert_true(p.control_timeout > p.worker_timeout && p.end_timeout > p.report_timeout);
        assert_true(p.control_timeout > p.heartbeat_every && p.dead_timeout < p.worker_timeout);
    }
}

/* --servers by group: some groups are on servers or shards, the others are replicated. */
static void placement_of_groups(void **state)
{
    (void)state;
    enum { REPLICAS = YK_PLACEMENT_REPLICAS, SERVERS = YK_PLACEMENT_SERVERS, SHARDS = YK_PLACEMENT_SHARDS };
    static const char deep[] = "model=deepfm data=synth:ctr?features=100&examples=100";
    static const struct {
        const char *options;
        int job, keyed, dense, servers;
    } want[] = {{"servers=keyed=2,dense=0", SERVERS, SERVERS, REPLICAS, 2},
                {"servers=keyed=0,dense=2", SERVERS, REPLICAS, SERVERS, 2},
                {"servers=keyed=2,dense=2", SERVERS, SERVERS, SERVERS, 2},
                {"servers=keyed=all,dense=0", SHARDS, SHARDS, REPLICAS, 0},
                {"servers=keyed=0,dense=all", SHARDS, REPLICAS, SHARDS, 0},
                {"servers=keyed=0,dense=0", SHARDS, SHARDS, SHARDS, 0},
                {"servers=0", SHARDS, SHARDS, SHARDS, 0},
                {"servers=keyed=2,dense=0 mode=async staleness=dense=0", SERVERS, SERVERS, REPLICAS, 2},
                {"servers=keyed=0,dense=2 mode=async staleness=keyed=0", SERVERS, REPLICAS, SERVERS, 2},
                {"servers=keyed=0,dense=all staleness=keyed=0,dense=4", SHARDS, REPLICAS, SHARDS, 0},
                {"servers=keyed=2,linear=0,dense=0", SERVERS, SERVERS, REPLICAS, 2},
                {"servers=linear=0,v=2", SERVERS, SERVERS, SERVERS, 2},
                {"servers=linear=all,dense=0", SHARDS, SHARDS, REPLICAS, 0},
                {"servers=keyed=2,dense=0 mode=async staleness=network=0", SERVERS, SERVERS, REPLICAS, 2},
                {"servers=0 mode=async staleness=linear=0,v=0,dense=0", SHARDS, SHARDS, SHARDS, 0}};
    char with[256];
    yk_plan p;
    for (size_t i = 0; i < sizeof want / sizeof *want; i++) {
        snprintf(with, sizeof with, "%s %s", deep, want[i].options);
        assert_int_equal(plan_of(with, 5, &p), YK_OK);
        assert_int_equal(p.placement, want[i].job);
        assert_int_equal(p.group[1].placement, want[i].keyed); /* the embedding */
        assert_int_equal(p.group[2].placement, want[i].dense);
        assert_int_equal(p.servers, want[i].servers);
        assert_int_equal(p.workers, 5 - want[i].servers);
        assert_true(p.lockstep);
    }
    static const char network[] = "needs synchronous training of the network: --mode sync or --staleness "
                                  "dense=0, without --quorum or --local-steps",
                      keys[] = "needs synchronous training of the keyed parameters: --mode sync or "
                               "--staleness keyed=0, without --quorum or --local-steps",
                      form[] = "must be keyed=K,dense=0 or keyed=0,dense=K";
    static const char *const wrong[][2] = {{"servers=keyed=2,dense=0 mode=async", network},
                                           {"servers=keyed=2,dense=0 staleness=keyed=0,dense=4", network},
                                           {"servers=keyed=2,dense=0 quorum=2", network},
                                           {"servers=keyed=all,dense=0 local-steps=2", network},
                                           {"servers=keyed=0,dense=2 mode=async", keys},
                                           {"servers=keyed=0,dense=2 staleness=keyed=4,dense=0", keys},
                                           {"servers=keyed=0,dense=2 quorum=2", keys},
                                           {"servers=keyed=0,dense=all local-steps=2", keys},
                                           {"servers=keyed=0,dense=5", "leaves no worker; start at least 6"},
                                           {"servers=keyed=2,dense=1", form},
                                           {"servers=keyed=all,dense=2", form},
                                           {"servers=keyed=2,dense=all", form},
                                           {"servers=keyed=2", form},
                                           {"servers=dense=0", form},
                                           {"servers=linear=1,v=2", form},
                                           {"servers=linear=0", form},
                                           {"servers=linear=0,v=2 mode=async", "NAME=0 (replicas) needs"},
                                           {"servers=linear=0,v=2 quorum=2", "NAME=0 (replicas) needs"}};
    for (size_t i = 0; i < sizeof wrong / sizeof *wrong; i++) {
        snprintf(with, sizeof with, "%s %s", deep, wrong[i][0]);
        assert_error(plan_of(with, 5, &p), YK_EUSAGE, wrong[i][1]);
    }
    snprintf(with, sizeof with, "%s servers=linear=0,v=2,dense=0", deep); /* each has its own */
    assert_int_equal(plan_of(with, 5, &p), YK_OK);
    assert_true(p.replicates && p.placement == YK_PLACEMENT_SERVERS && p.servers == 2);
    assert_int_equal(p.group[0].placement, REPLICAS);
    assert_int_equal(p.group[1].placement, SERVERS);
    assert_int_equal(p.group[2].placement, REPLICAS);
}

static void contradictions(void **state)
{
    (void)state;
    yk_plan p;
    assert_error(plan_of(DENSE "servers=3", 3, &p), YK_EUSAGE, "leaves no worker; start at least 4");
    assert_error(plan_of(DENSE "servers=0 mode=async", 3, &p), YK_EUSAGE, "needs --servers all, or");
    assert_error(plan_of(DENSE "servers=0 quorum=2", 3, &p), YK_EUSAGE, "--quorum needs --servers all, or");
    assert_error(plan_of(DENSE "quorum=3 servers=1", 3, &p), YK_EUSAGE,
                 "--quorum 3, but there are only 2 processes that train");
    assert_error(plan_of(DENSE "quorum=2 mode=async", 3, &p), YK_EUSAGE, "--quorum needs --mode sync");
    assert_error(plan_of(DENSE "local-steps=5 staleness=4", 3, &p), YK_EUSAGE, "use a bound of 5 or more");
    assert_error(plan_of(DENSE "mode=async local-steps=5 eval-every=4", 3, &p), YK_EUSAGE,
                 "evaluate every 5 steps or more");
    assert_int_equal(plan_of(DENSE "mode=async local-steps=5 eval-every=5", 3, &p), YK_OK);
    assert_int_equal(plan_of(DENSE "mode=sync local-steps=5 eval-every=4", 3, &p), YK_OK);
}

static void options_that_need_several_processes(void **state)
{
    (void)state;
    yk_plan p;
    static const char *const options[] = {
        "servers=1", "servers=keyed=1,dense=0", "servers=keyed=0,dense=1", "quorum=2", "quorum=1",
        "prefetch=1"};
    for (size_t i = 0; i < sizeof options / sizeof *options; i++) {
        char with[128];
        snprintf(with, sizeof with, DENSE "%s", options[i]);
        assert_error(plan_of(with, ALONE, &p), YK_EUSAGE,
                     "need several processes: start the job with --launch N");
        snprintf(with, sizeof with, DENSE "resume=true out=run %s", options[i]);
        assert_error(plan_of(with, ALONE, &p), YK_EUSAGE,
                     i == 3 || i == 4 ? "mpirun or srun" : "add --launch 0 --servers 0 --prefetch auto");
        snprintf(with, sizeof with, DENSE "%s", options[i]);
        if (i < 4) /* a job can be resumed with one process */
            assert_error(plan_of(with, 1, &p), YK_EUSAGE, "this job has one");
        else
            assert_int_equal(plan_of(with, 1, &p), YK_OK);
    }
    assert_int_equal(plan_of(DENSE "servers=0 prefetch=auto workers=2", ALONE, &p), YK_OK);
    assert_true(p.processes == 1 && p.workers == 2 && p.placement == YK_PLACEMENT_LOCAL);
    assert_int_equal(plan_of(DENSE "servers=all", ALONE, &p), YK_OK);
    for (int processes = ALONE; processes <= 1; processes += 2) { /* local SGD has nothing to average */
        assert_int_equal(plan_of(DENSE "local-steps=5", processes, &p), YK_OK);
        assert_int_equal(p.local_steps, 0);
    }
}

/* The learning rate is that of --lr, else of the model for its own optimizer, else of the optimizer. */
static void default_rates(void **state)
{
    yk_config c;
    yk_plan p;
    (void)state;
    const yk_topology alone = {.processes = 1, .cores = 8, .single = true};
    const yk_model_description model = {
        .ngroups = 2,
        .group = {{.name = "embed", .keyed = true, .width = 4}, {.name = "network", .width = 1}},
        .input = YK_INPUT_SPARSE,
        .optimizer = "keyed=adagrad,dense=adam",
        .lr = {0.25, 0.125}};
    static const struct {
        const char *optimizer, *lr;
        double want[2], usual[2];
    } cases[] = {{NULL, NULL, {0.25, 0.125}, {0.25, 0.125}},
                 {NULL, "embed=2", {2.0, 0.125}, {0.25, 0.125}},
                 {NULL, "auto", {0.25, 0.125}, {0.25, 0.125}},
                 {"dense=sgd", NULL, {0.25, 0.1}, {0.25, 0.1}},
                 {"adam", "dense=3", {0.001, 3.0}, {0.001, 0.125}}};
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        yk_config_init(&c);
        if (cases[i].optimizer)
            assert_int_equal(yk_config_set(&c, "optimizer", cases[i].optimizer), YK_OK);
        if (cases[i].lr)
            assert_int_equal(yk_config_set(&c, "lr", cases[i].lr), YK_OK);
        assert_int_equal(yk_plan_make(&c, &model, &(yk_data_facts){0}, &alone, &p), YK_OK);
        for (int g = 0; g < 2; g++)
            assert_true(p.group[g].optim.lr == cases[i].want[g] &&
                        p.group[g].default_lr == cases[i].usual[g]);
        yk_config_fini(&c);
    }
}

static void optimizers(void **state)
{
    (void)state;
    yk_plan p;
    assert_int_equal(
        plan_of("model=deepfm optimizer=keyed=ftrl,dense=adam lr=keyed=0.5,dense=0.25 l1=0.125", 1, &p),
        YK_OK);
    assert_true(p.group[2].optim.kind == YK_ADAM && p.group[1].optim.kind == YK_FTRL);
    assert_true(p.group[2].optim.lr == 0.25 && p.group[1].optim.lr == 0.5 && p.group[1].optim.l1 == 0.125);
    /* defaults of the model */
    assert_int_equal(plan_of("model=deepfm", 1, &p), YK_OK);
    assert_true(p.group[0].optim.kind == YK_ADAGRAD && p.group[2].optim.kind == YK_ADAM);
    assert_true(p.group[0].optim.initial == 0.0 && p.group[1].optim.initial == 1e-4);
    assert_int_equal(
        plan_of(DENSE "optimizer=momentum momentum=0.5 lr-schedule=step lr-decay-every=7", 1, &p), YK_OK);
    assert_true(p.group[0].optim.momentum == 0.5 && p.group[0].optim.schedule == YK_LR_STEP);
    assert_true(p.group[0].optim.lr_decay == 0.1 && p.group[0].optim.lr_decay_every == 7);
    assert_int_equal(plan_of(DENSE "lr-schedule=inverse", 1, &p), YK_OK);
    assert_true(p.group[0].optim.schedule == YK_LR_INVERSE && p.group[0].optim.lr_decay == 1e-3);
    /* schedules by group */
    assert_int_equal(plan_of("model=deepfm lr-schedule=keyed=step,dense=cosine lr-decay=keyed=0.5 steps=100 "
                             "warm-up=dense=10,linear=3 adam-betas=0.5,0.75 epsilon=0.125",
                             1, &p),
                     YK_OK);
    assert_true(p.group[0].optim.schedule == YK_LR_STEP && p.group[0].optim.lr_decay == 0.5);
    assert_true(p.group[0].optim.warm_up == 3 && p.group[1].optim.warm_up == 0);
    const yk_optim_config *dense = &p.group[2].optim;
    assert_true(dense->schedule == YK_LR_COSINE && dense->lr_decay == 0.0 && dense->warm_up == 10);
    assert_true(dense->length == 100 && dense->beta1 == 0.5 && dense->beta2 == 0.75 &&
                dense->epsilon == 0.125);
    assert_error(plan_of(DENSE "lr=1 l2=2", 1, &p), YK_EUSAGE, "--l2");
    /* an optimizer that no group uses is not checked */
    assert_int_equal(plan_of(DENSE "optimizer=dense=adam l2=20", 1, &p), YK_OK);
    assert_int_equal(plan_of(SPARSE "lr=linear=0.01 l2=20", 1, &p), YK_OK);
}

/* Processes of jobs with and without 2 servers, with 1 or 2 workers per process, and of one that joins. */
static void roles(void **state)
{
    (void)state;
    static const struct {
        const char *options;
        int rank;
        bool joined;
        bool trains, serves, whole;
        int owners, first_worker;
        bool has_progress_thread;
    } want[] = {
        {DENSE "workers=2", 3, false, true, false, true, 0, 6, false},
        {DENSE "workers=2 servers=all", 3, false, true, true, false, 5, 6, true},
        {DENSE "workers=2 servers=2", 1, false, false, true, false, 2, 0, false},
        {DENSE "workers=2 servers=2", 3, false, true, false, false, 2, 2, true},
        {DENSE "servers=2", 3, false, true, false, false, 2, 1, false},
        {DENSE "servers=2 mode=async", 1, true, true, false, false, 2, 0, false},
        {"model=deepfm data=synth:ctr servers=keyed=2,dense=0", 3, false, true, true, false, 5, 1, true},
        {"model=deepfm data=synth:ctr servers=keyed=0,dense=2", 3, false, true, true, false, 5, 1, true},
        {"model=deepfm data=synth:ctr servers=keyed=0,dense=2", 1, false, false, true, false, 5, 0, false},
        {"model=deepfm data=synth:ctr servers=keyed=0,dense=all", 3, false, true, true, false, 5, 3, true},
    };
    for (size_t i = 0; i < sizeof want / sizeof *want; i++) {
        yk_plan p;
        const yk_topology job = {.processes = want[i].joined ? 0 : 5,
                                 .cores = 8,
                                 .rank = want[i].rank,
                                 .own_cores = 8,
                                 .sharing = 1,
                                 .servers_here = 2,
                                 .clients_here = 1};
        assert_int_equal(plan_with(want[i].options, &job, &(yk_data_facts){0}, &p), YK_OK);
        assert_true(p.trains == want[i].trains && p.serves == want[i].serves);
        assert_true(p.whole == want[i].whole && !p.alone);
        assert_int_equal(p.owners, want[i].owners);
        assert_int_equal(p.first_worker, want[i].first_worker);
        assert_true(p.has_progress_thread == want[i].has_progress_thread && p.first_client == p.servers);
        assert_int_equal(p.clients, want[i].joined ? 1 : 5 - p.servers);
        /* servers share the cores that the workers leave free */
        assert_int_equal(p.serving_threads, p.trains ? 1 : (8 - p.workers_per_process) / 2);
    }
}

static void threads_that_share_cores(void **state)
{
    (void)state;
    yk_plan p;
    yk_topology job = {.processes = 3, .cores = 8, .rank = 1, .own_cores = 4};
    for (job.sharing = 1; job.sharing <= 2; job.sharing++)
        for (int sync = 0; sync < 2; sync++) {
            const char *options = sync ? DENSE "servers=1 threads=4" : DENSE "servers=1 threads=4 mode=async";
            assert_int_equal(plan_with(options, &job, &(yk_data_facts){0}, &p), YK_OK);
            assert_int_equal(p.wait, job.sharing == 2 && !sync ? YK_WAIT_OVERSUBSCRIBED : YK_WAIT_RANKS);
            assert_int_equal(p.usable_threads, 4);
        }
    job.own_cores = 3;
    assert_int_equal(plan_with(DENSE "servers=1 threads=4", &job, &(yk_data_facts){0}, &p), YK_OK);
    assert_true(p.usable_threads == 3 && p.threads == 4);
}

static const yk_topology three = {.processes = 3, .cores = 8};

static void intervals_in_epochs(void **state)
{
    (void)state;
    static const struct {
        const char *options;
        uint64_t steps_per_epoch, eval_every;
    } want[] = {
        {DENSE "batch=10", 34, 0}, /* 1,001 examples, 3 workers in 3 processes */
        {DENSE "batch=10 mode=async", 101, 101},
        {DENSE "batch=10 mode=async eval-every=7", 101, 7},
        {DENSE "batch=10 mode=async local-steps=250", 101, 303}, /* a round is longer than an epoch */
        {DENSE "batch=10 quorum=2 servers=all", 0, 0},
    };
    const yk_data_facts data = {.counted = 1, .examples = 1001}, stream = {.counted = 1, .streamed = 1};
    yk_plan p;
    for (size_t i = 0; i < sizeof want / sizeof *want; i++) {
        assert_int_equal(plan_with(want[i].options, &three, &data, &p), YK_OK);
        assert_int_equal(p.steps_per_epoch, want[i].steps_per_epoch);
        assert_int_equal(p.eval_every, want[i].eval_every);
    }
    assert_error(plan_with(DENSE "quorum=2 servers=all lr-decay-epochs=1.5", &three, &data, &p), YK_EUSAGE,
                 "with --quorum the number of steps");
    /* an asynchronous step of local SGD has a batch of each worker of a process */
    assert_int_equal(
        plan_with(DENSE "batch=10 mode=async local-steps=4 workers=2 lr-decay-epochs=1.5", &three, &data, &p),
        YK_OK);
    assert_true(p.steps_per_epoch == 51 && p.group[0].optim.lr_decay_every == 77);
    assert_int_equal(p.gradients_per_step, 2);
    assert_error(plan_with(DENSE "lr-decay-epochs=1.5", &three, &stream, &p), YK_EUSAGE,
                 "the length of an epoch");
    assert_error(plan_with(DENSE "warm-up-epochs=1.5", &three, &stream, &p), YK_EUSAGE,
                 "use --warm-up STEPS");
    assert_error(plan_with(DENSE "lr-schedule=cosine", &three, &stream, &p), YK_EUSAGE, "use --steps STEPS");
    assert_int_equal(plan_with(DENSE "lr-schedule=cosine steps=70", &three, &stream, &p), YK_OK);
    assert_int_equal(p.group[0].optim.length, 70);
    /* the rate for 10 examples, in steps of 3 x 10 examples */
    assert_int_equal(plan_with(DENSE
                               "batch=10 epochs=2 lr=0.5 lr-batch=10 warm-up-epochs=0.5 lr-schedule=cosine",
                               &three, &data, &p),
                     YK_OK);
    assert_true(p.group[0].optim.lr == 1.5 && p.group[0].optim.warm_up == 17 &&
                p.group[0].optim.length == 68);
}

/* Chunks of examples that share a copy: longer for more data, but not longer than the interval between evaluations. */
static void chunk_rows(void **state)
{
    (void)state;
    static const struct {
        const char *options;
        yk_data_facts data;
        uint64_t chunk_rows, lifetime;
        yk_cursor_kind cursor;
    } want[] = {
        {SPARSE "mode=async batch=100", {.examples = 1000}, 0, 20, YK_CURSOR_LEASE},
        {SPARSE "mode=async batch=100", {.examples = 100000}, 2000, 20, YK_CURSOR_LEASE},
        {SPARSE "mode=async batch=100 epochs=1000", {.examples = 1000000}, 8000, 80, YK_CURSOR_LEASE},
        {SPARSE "mode=async batch=100 epochs=1000 eval-every=40",
         {.examples = 1000000},
         4000,
         40,
         YK_CURSOR_LEASE},
        {SPARSE "mode=async batch=100 epochs=1000",
         {.examples = 1000000, .ordered = true},
         0,
         20,
         YK_CURSOR_LEASE},
        {SPARSE "mode=async batch=100 steps=96",
         {.examples = 100000, .streamed = true},
         0,
         2,
         YK_CURSOR_STREAM},
        {SPARSE "batch=100", {.examples = 100000}, 0, 0, YK_CURSOR_LOCKSTEP},
    };
    yk_plan p;
    for (size_t i = 0; i < sizeof want / sizeof *want; i++) {
        assert_int_equal(plan_with(want[i].options, &three, &want[i].data, &p), YK_OK);
        assert_int_equal(p.chunk_rows, want[i].chunk_rows);
        assert_int_equal(p.copy_lifetime, want[i].lifetime);
        assert_int_equal(p.cursor_kind, want[i].cursor);
    }
    assert_int_equal(plan_with(SPARSE "mode=async batch=100 epochs=1000 optimizer=linear=adagrad", &three,
                               &(yk_data_facts){.examples = 1000000}, &p),
                     YK_OK);
    assert_int_equal(p.chunk_rows, 2000); /* not longer, as for all optimizers but sgd */
    const yk_data_facts resumed = {.examples = 1000000, .resumed = 1, .chunk_rows = 250};
    assert_int_equal(plan_with(SPARSE "mode=async batch=100", &three, &resumed, &p), YK_OK);
    assert_true(p.chunk_rows == 250 && p.copy_lifetime == 3);
}

/* Local SGD does not allow them if there are groups of both kinds. */
static void different_bounds(void **state)
{
    (void)state;
    static const char why[] =
        "different --staleness bounds for parameter groups cannot be combined with --local-steps";
    static const char *const bounds = "data=synth:ctr?features=100&examples=100 staleness=keyed=4,dense=0";
    static const struct {
        const char *options;
        bool allowed;
    } want[] = {{"model=deepfm servers=0", true},
                {"model=deepfm local-steps=4", false},
                {"model=deepfm servers=all", true},
                {"model=deepfm servers=1", true}};
    for (size_t i = 0; i < sizeof want / sizeof *want; i++) {
        yk_plan p;
        char with[256];
        snprintf(with, sizeof with, "%s %s", bounds, want[i].options);
        if (want[i].allowed)
            assert_int_equal(plan_of(with, 2, &p), YK_OK);
        else
            assert_error(plan_of(with, 2, &p), YK_EUSAGE, why);
    }
    yk_plan p;
    assert_int_equal(plan_of("model=deepfm data=synth:ctr staleness=keyed=4,dense=0", 1, &p), YK_OK);
    assert_error(plan_of("model=fm:4 staleness=keyed=4,dense=0", 2, &p), YK_EUSAGE,
                 "has no dense parameters");
}

/* --staleness for individual groups: the smallest bound applies to the workers, each group has its own. */
static void named_bounds(void **state)
{
    (void)state;
    yk_plan p;
    static const char options[] = "model=deepfm mode=async staleness=linear=0,v=8";
    assert_int_equal(plan_of(options, 2, &p), YK_OK);
    assert_true(p.synchronous && p.staleness == 0);
    assert_true(p.group[0].staleness == 0 && p.group[1].staleness == 8 && p.group[2].staleness == YK_ASYNC);
    char with[128];
    snprintf(with, sizeof with, "%s local-steps=4", options);
    assert_error(plan_of(with, 2, &p), YK_EUSAGE, "cannot be combined with --local-steps");
}

/* Copies of keyed parameters are prefetched, within the bound; nothing else is. */
static void prefetching(void **state)
{
    (void)state;
    static const struct {
        const char *options;
        int depth;
        uint64_t copy_lifetime;
    } want[] = {
        {DENSE, 1, 0},
        {DENSE "mode=async", 1, 0},
        {DENSE "mode=async servers=1 prefetch=auto", 1, 0},
        {SPARSE, 1, 0},
        {SPARSE "mode=async", 2, 32},
        {SPARSE "mode=async prefetch=0", 1, 32},
        {SPARSE "mode=async prefetch=2", 3, 32},
        {SPARSE "staleness=1", 1, 1},
        {SPARSE "staleness=1 prefetch=1", 2, 1},
        {SPARSE "staleness=9", 2, 4},
        {SPARSE "staleness=9 prefetch=0", 1, 9},
        {SPARSE "staleness=9 prefetch=2", 3, 3},
    };
    yk_plan p;
    for (size_t i = 0; i < sizeof want / sizeof *want; i++) {
        assert_int_equal(plan_of(want[i].options, 3, &p), YK_OK);
        assert_int_equal(p.depth, want[i].depth);
        assert_int_equal(p.copy_lifetime, want[i].copy_lifetime);
    }
    assert_error(plan_of(DENSE "mode=async prefetch=1", 3, &p), YK_EUSAGE, "only copies are prefetched");
    assert_error(plan_of(SPARSE "prefetch=1", 3, &p), YK_EUSAGE,
                 "--prefetch 1 needs asynchronous logistic regression");
    assert_error(plan_of(SPARSE "mode=async local-steps=2 prefetch=1", 3, &p), YK_EUSAGE,
                 "without --local-steps");
    assert_error(plan_of(SPARSE "staleness=1 prefetch=2", 3, &p), YK_EUSAGE, "use a bound of 2 or more");
}

/* --workers auto divides the cores of a process, 8 here, among workers of several threads. */
static void automatic_workers(void **state)
{
    (void)state;
    yk_plan p;
    assert_int_equal(plan_of(DENSE "workers=auto", 1, &p), YK_OK);
    assert_int_equal(p.workers, 8);
    assert_int_equal(plan_of(DENSE "workers=auto threads=3", 2, &p), YK_OK);
    assert_int_equal(p.workers_per_process, 2);
    assert_int_equal(p.workers, 4);
    assert_int_equal(plan_of(DENSE "workers=auto threads=9", 1, &p), YK_OK);
    assert_int_equal(p.workers, 1);
}

/* --servers all: every process trains and owns a shard; no worker can be lost or join. */
static void shards(void **state)
{
    (void)state;
    static const char *const options[] = {DENSE "servers=all", DENSE "servers=all mode=async",
                                          SPARSE "servers=all"};
    for (size_t i = 0; i < sizeof options / sizeof *options; i++) {
        yk_plan p;
        assert_int_equal(plan_of(options[i], 3, &p), YK_OK);
        assert_int_equal(p.placement, YK_PLACEMENT_SHARDS);
        assert_true(p.servers == 0 && p.workers == 3 && p.workers_per_process == 1);
        assert_false(p.survives_loss || p.joinable);
        assert_int_equal(plan_of(options[i], 1, &p), YK_OK); /* one process owns everything */
        assert_int_equal(p.placement, YK_PLACEMENT_LOCAL);
    }
}

static void standard_input(void **state)
{
    (void)state;
    yk_plan p;
    assert_int_equal(plan_of("model=softmax data=csv:-", 1, &p), YK_OK);
    assert_int_equal(plan_of("model=softmax data=csv:- stream=never epochs=3 workers=2", 1, &p), YK_OK);
    assert_int_equal(plan_of("model=softmax data=synth:digits test=- epochs=3", 1, &p), YK_OK);
    assert_error(plan_of("model=softmax data=csv:-", 2, &p), YK_EUSAGE, "by one process only");
    assert_error(plan_of("model=softmax data=csv:- epochs=2", 1, &p), YK_EUSAGE,
                 "for one epoch only: use --epochs 1");
    assert_error(plan_of("model=softmax data=csv:- steps=9", 1, &p), YK_EUSAGE, "for one epoch only");
    assert_error(plan_of("model=softmax data=csv:- workers=2", 1, &p), YK_EUSAGE, "to one worker only");
    assert_error(plan_of("model=softmax data=csv:- resume=true", 1, &p), YK_EUSAGE, "cannot be resumed");
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(modes),
                                       cmocka_unit_test(placement),
                                       cmocka_unit_test(automatic_workers),
                                       cmocka_unit_test(shards),
                                       cmocka_unit_test(global_batches),
                                       cmocka_unit_test(timeouts),
                                       cmocka_unit_test(placement_of_groups),
                                       cmocka_unit_test(contradictions),
                                       cmocka_unit_test(options_that_need_several_processes),
                                       cmocka_unit_test(default_rates),
                                       cmocka_unit_test(optimizers),
                                       cmocka_unit_test(roles),
                                       cmocka_unit_test(threads_that_share_cores),
                                       cmocka_unit_test(intervals_in_epochs),
                                       cmocka_unit_test(chunk_rows),
                                       cmocka_unit_test(different_bounds),
                                       cmocka_unit_test(named_bounds),
                                       cmocka_unit_test(prefetching),
                                       cmocka_unit_test(standard_input),
                                       cmocka_unit_test(lifetimes_of_copies)};
    return cmocka_run_group_tests_name("plan", tests, NULL, NULL);
}
