/* The verdict for synthetic evidence: each kind of bottleneck is named, with text and numbers that support it. */
#include "scratch.h"

#include "observe/verdict.h"
#include <math.h>

enum { MAX = 8 };

/* The evidence of a run of 10 s: the phases of its workers, and resource usage. */
typedef struct {
    yk_process_evidence measured[MAX];
    yk_usage usage;
    yk_evidence e;
    yk_verdict v;
} trial;

static trial begin(int workers)
{
    trial t = {.usage = {.cores = 8,
                         .host_cores = 8,
                         .cpu = {workers, workers},
                         .cpu_host = {workers + 0.1, workers + 0.2},
                         .memory_limit = 16e9,
                         .memory = {1e9, 1e9}},
               .e = {.waits = true,
                     .do_not_wait = "--mode async, or --quorum",
                     .send_less = "--local-steps",
                     .workers = workers,
                     .threads = 1,
                     .batch = 64,
                     .seconds = 10.0}};
    for (int i = 0; i < workers; i++)
        t.measured[i] = (yk_process_evidence){.worker = i,
                                              .phases = {.seconds = 10.0,
                                                         .steps = 1000,
                                                         .examples = 64000,
                                                         .barriers = 1000,
                                                         .last = 1000 / (uint64_t)workers}};
    return t;
}

/* The rest of each worker's time is computing. */
static void give(trial *t, int worker, yk_phase phase, double share)
{
    t->measured[worker].phases.phase[phase] = 10.0 * share;
}

static void give_all(trial *t, yk_phase phase, double share)
{
    for (int i = 0; i < t->e.workers; i++)
        give(t, i, phase, share);
}

/* The links of all ranks, which are on hosts of their own. */
static void link_all(trial *t, double bytes_per_step, double rate)
{
    t->e.hosts = t->e.workers;
    for (int i = 0; i < t->e.workers; i++) {
        static const char *const host[MAX] = {"h0", "h1", "h2", "h3", "h4", "h5", "h6", "h7"};
        t->measured[i].rank = i;
        t->measured[i].worker = -1;
        t->measured[i].host = host[i];
        t->measured[i].bytes_per_step = bytes_per_step;
        t->measured[i].link = (yk_link_evidence){bytes_per_step / 2 * 100, 0.0, rate}; /* 100 steps/s */
    }
}

static const yk_verdict *judge(trial *t)
{
    for (int i = 0; i < t->e.workers; i++) {
        double *phase = t->measured[i].phases.phase, rest = 10.0;
        for (int k = 0; k < YK_PHASES; k++)
            rest -= k == YK_PHASE_COMPUTE ? 0.0 : phase[k];
        phase[YK_PHASE_COMPUTE] = rest;
    }
    t->e.measured = t->measured;
    t->e.nmeasured = t->e.workers;
    t->e.usage = &t->usage;
    yk_verdict_find(&t->e, &t->v);
    return &t->v;
}

static void assert_kind(const yk_verdict *v, yk_verdict_kind kind, double share)
{
    if (v->kind != kind)
        fail_msg("the verdict is '%s', not %s", v->text, yk_verdict_name(kind));
    if (fabs(v->share - share) > 0.02)
        fail_msg("the share is %g, not %g: %s", v->share, share, v->text);
    const size_t n = strlen(yk_verdict_name(kind));
    assert_int_equal(strncmp(v->text, yk_verdict_name(kind), n), 0);
    assert_int_equal(v->text[n], ':');
}

static void assert_words(const char *text, const char *part)
{
    if (!strstr(text, part))
        fail_msg("'%s' does not contain '%s'", text, part);
}

static double numbered(const yk_verdict *v, const char *name)
{
    for (int i = 0; i < v->nnumbers; i++)
        if (strcmp(v->number[i].name, name) == 0)
            return v->number[i].value;
    return (double)NAN;
}

static void a_worker_that_computes(void **state)
{
    (void)state;
    trial t = begin(1);
    give_all(&t, YK_PHASE_INPUT, 0.02);
    give_all(&t, YK_PHASE_OTHER, 0.01);
    const yk_verdict *v = judge(&t);
    assert_kind(v, YK_VERDICT_CPU, 0.97);
    assert_words(v->advice,
                 "6.9 cores are idle: use --workers 8, which divides the updates per epoch by 8 unless");
    t.e.network = true;
    assert_words(judge(&t)->advice,
                 "use --threads 8, which does not change the result, or --workers 8, which divides");
    t.e.waits = false;
    assert_null(strstr(judge(&t)->advice, "updates"));
    t.e.threads = 2; /* more do not help */
    assert_null(strstr(judge(&t)->advice, "--threads"));
    t.e.waits = true;
    t.e.threads = 1;
    t.usage.cores = t.usage.host_cores = 1;
    t.usage.cpu_host.mean = 1.0;
    v = judge(&t);
    assert_kind(v, YK_VERDICT_CPU, 0.97);
    assert_words(v->advice, "all cores are busy");
}

static void reading_rows_from_memory_is_work(void **state)
{
    (void)state;
    trial t = begin(1);
    t.e.streamed = false;
    give_all(&t, YK_PHASE_INPUT, 0.3);
    assert_kind(judge(&t), YK_VERDICT_CPU, 0.7);
    give_all(&t, YK_PHASE_INPUT, 0.6);
    assert_kind(judge(&t), YK_VERDICT_INPUT, 0.6);
}

static void evaluation_is_work_too(void **state)
{
    (void)state;
    trial t = begin(1);
    give_all(&t, YK_PHASE_EVAL, 0.7);
    const yk_verdict *v = judge(&t);
    assert_kind(v, YK_VERDICT_CPU, 1.0);
    assert_words(v->text, "evaluation takes 70 %");
    assert_words(v->advice, "--eval-every");
    t = begin(1);
    give_all(&t, YK_PHASE_EVAL, 0.2);
    assert_words(judge(&t)->text,
                 "computing takes 80 % of the workers' time and evaluation 20 %; the run uses");
}

static void more_threads_than_cores(void **state)
{
    (void)state;
    trial t = begin(4);
    t.e.waits = false;
    t.usage.cores = t.usage.host_cores = 2;
    t.usage.cpu.mean = t.usage.cpu_host.mean = 2.0;
    t.usage.delayed.mean = 2.0;
    const yk_verdict *v = judge(&t);
    assert_kind(v, YK_VERDICT_CPU, 0.5);
    assert_words(v->text, "4 threads share 2 cores");
    assert_words(v->advice, "--workers 2");

    t = begin(8); /* in synchronous turns, which leave cores idle at the barriers in between */
    t.usage.cores = t.usage.host_cores = 4;
    t.usage.cpu.mean = t.usage.cpu_host.mean = 2.5;
    give_all(&t, YK_PHASE_WORKERS, 0.8);
    v = judge(&t);
    assert_kind(v, YK_VERDICT_CPU, 0.5);
    assert_words(v->advice, "--workers 4");
}

static void other_programs_use_the_cpu(void **state)
{
    (void)state;
    trial t = begin(2);
    t.usage.cores = t.usage.host_cores = 2;
    t.usage.cpu.mean = 1.1;
    t.usage.cpu_host.mean = 2.0;
    t.usage.delayed.mean = 0.9;
    give_all(&t, YK_PHASE_WORKERS, 0.3); /* a worker without a core delays the other one */
    const yk_verdict *v = judge(&t);
    assert_kind(v, YK_VERDICT_CPU, 0.45);
    assert_words(v->text, "other programs use 0.9 of 2 cores");
    assert_words(v->advice, "do not compare");

    t = begin(8); /* synchronous threads wait at barriers for the one that has no core */
    t.usage.cores = t.usage.host_cores = 16;
    t.usage.cpu.mean = 1.2;
    t.usage.cpu_host.mean = 15.5;
    t.usage.delayed.mean = 0.7;
    give_all(&t, YK_PHASE_WORKERS, 0.7);
    assert_kind(judge(&t), YK_VERDICT_CPU, 0.35);
}

/* Eight processes of this run on two cores have no core most of the time anyway: only CPU time that other programs take from all
 * of them together is competition. */
static void too_many_processes_of_this_run(void **state)
{
    (void)state;
    trial t = begin(8);
    t.e.ranks = 8;
    t.usage.cores = t.usage.host_cores = 2;
    t.usage.cpu_host.mean = 2.0;
    t.usage.cpu.mean = 1.7; /* other programs use 0.3 cores; 6.3 threads of this run wait for one */
    t.usage.delayed.mean = 6.3;
    const yk_verdict *v = judge(&t);
    assert_kind(v, YK_VERDICT_CPU, 0.15); /* 0.3 of the 2 cores that this run could use */
    assert_words(v->text, "other programs use 0.3 of 2 cores and take 15 %");
    t.usage.cpu.mean = 1.0; /* other programs use half of the host */
    t.usage.delayed.mean = 7.0;
    assert_kind(judge(&t), YK_VERDICT_CPU, 0.5);
    t.usage.cpu.mean = 1.85; /* hardly any other programs */
    t.usage.delayed.mean = 6.15;
    v = judge(&t);
    assert_kind(v, YK_VERDICT_CPU, 0.75);
    assert_words(v->text, "8 threads of 8 processes share 2 cores");
}

/* Competition for the CPU slows all workers; a worker that is many times slower than the rest has another problem. */
static void stragglers_are_not_explained_by_competition(void **state)
{
    (void)state;
    trial t = begin(2);
    t.usage.cores = t.usage.host_cores = 2;
    t.usage.cpu.mean = 0.3;
    t.usage.cpu_host.mean = 2.0;
    t.usage.delayed.mean = 0.4;
    give(&t, 0, YK_PHASE_WORKERS, 0.97);
    t.measured[0].phases.last = 10;
    t.measured[1].phases.last = 990;
    assert_kind(judge(&t), YK_VERDICT_STRAGGLER, 0.485);
    t.measured[1].delayed = 0.4; /* they use its core, but with a core it would still be 20 times slower */
    assert_kind(judge(&t), YK_VERDICT_STRAGGLER, 0.485);
    t.measured[1].delayed = 0.97; /* they use its core, and that is why it is slow and the other one waits */
    assert_kind(judge(&t), YK_VERDICT_CPU, 0.48);
    t.measured[1].delayed = 0.0;
    give(&t, 0, YK_PHASE_WORKERS, 0.3); /* 1.4 times as long: other programs may be the cause */
    t.usage.cpu.mean = 1.2;
    t.usage.delayed.mean = 0.8;
    assert_kind(judge(&t), YK_VERDICT_CPU, 0.4);
}

static void a_slow_reader(void **state)
{
    (void)state;
    trial t = begin(2);
    t.e.streamed = true;
    give_all(&t, YK_PHASE_INPUT, 0.83);
    t.usage.cpu.mean = 0.4;
    t.usage.cpu_host.mean = 0.4;
    const yk_verdict *v = judge(&t);
    assert_kind(v, YK_VERDICT_INPUT, 0.83);
    assert_words(v->text, "the workers spent 83 % of the time waiting for data");
    assert_words(v->advice, "yoke data convert");
    assert_true(fabs(numbered(v, "waiting_for_input") - 0.83) < 1e-9);

    t.usage.disk_busy.mean = 0.97;
    v = judge(&t);
    assert_kind(v, YK_VERDICT_DISK, 0.83);
    assert_words(v->advice, "the disk is busy 97 %");
}

static void a_slow_disk_for_checkpoints(void **state)
{
    (void)state;
    trial t = begin(1);
    give_all(&t, YK_PHASE_CHECKPOINT, 0.4);
    const yk_verdict *v = judge(&t);
    assert_kind(v, YK_VERDICT_DISK, 0.4);
    assert_words(v->advice, "--checkpoint-every");
    t.e.saves = 1;
    assert_words(judge(&t)->advice, "only the last checkpoint was written");
    assert_null(strstr(v->advice, "--checkpoint-every"));
}

static void tiny_synchronous_steps(void **state)
{
    (void)state;
    trial t = begin(2);
    for (int i = 0; i < 2; i++)
        t.measured[i].phases.steps = 1000000; /* 10 us each */
    t.e.batch = 1;
    give_all(&t, YK_PHASE_WORKERS, 0.6);
    const yk_verdict *v = judge(&t);
    assert_kind(v, YK_VERDICT_SYNC, 0.6);
    assert_words(v->text, "each step (10 us)");
    assert_words(v->advice, "larger --batch (now 1)");
    give_all(&t, YK_PHASE_WORKERS, 0.15); /* merging updates of other workers is part of it */
    give_all(&t, YK_PHASE_APPLY, 0.5);
    v = judge(&t);
    assert_kind(v, YK_VERDICT_SYNC, 0.65);
    assert_words(v->text, "65 % of the time synchronizing");
    for (int i = 0; i < 2; i++)
        t.measured[i].phases.steps = 1000; /* the same with long steps counts as work */
    assert_kind(judge(&t), YK_VERDICT_CPU, 0.85);
}

static void one_slow_worker(void **state)
{
    (void)state;
    trial t = begin(3);
    give(&t, 0, YK_PHASE_WORKERS, 0.65);
    give(&t, 2, YK_PHASE_WORKERS, 0.6);
    t.measured[0].phases.last = 10;
    t.measured[2].phases.last = 20;
    t.measured[1].phases.last = 970;
    const yk_verdict *v = judge(&t);
    assert_kind(v, YK_VERDICT_STRAGGLER, (0.65 + 0.6) / 3.0);
    assert_words(v->text, "worker 1 takes 2.7 times as long");
    assert_words(v->text, "was last at 97 %");
    assert_words(v->advice, "slows down worker 1, for example another program on its core");
    assert_true(numbered(v, "slowest_worker") == 1.0);

    t.e.ranks = 3; /* the same among ranks */
    for (int i = 0; i < 3; i++)
        t.measured[i].rank = i + 4, t.measured[i].worker = -1;
    v = judge(&t);
    assert_kind(v, YK_VERDICT_STRAGGLER, (0.65 + 0.6) / 3.0);
    give_all(&t, YK_PHASE_SENDING, 0.02); /* a small unexplained share does not make it synchronization */
    link_all(&t, 1000.0, 1e9);
    for (int i = 0; i < 3; i++)
        t.measured[i].rank = i + 4;
    t.e.round_trip = 1e-5;
    t.e.round_trips = 1.0;
    v = judge(&t);
    assert_kind(v, YK_VERDICT_STRAGGLER, (0.65 + 0.6) / 3.0 + 0.02);
    assert_words(v->text, "rank 5 (h1)");
    assert_string_equal(v->host, "h1");
    assert_words(v->advice, "--quorum");
}

/* In a short run, a worker that takes 1.6 times as long may have begun late; one that takes 2.7 times as long is a straggler. */
static void stragglers_in_short_runs(void **state)
{
    (void)state;
    trial t = begin(3);
    t.measured[1].phases.last = 970;
    give(&t, 0, YK_PHASE_WORKERS, 0.38);
    give(&t, 2, YK_PHASE_WORKERS, 0.38);
    assert_int_equal(judge(&t)->kind, YK_VERDICT_STRAGGLER);
    t.e.seconds = 0.3;
    assert_int_not_equal(judge(&t)->kind, YK_VERDICT_STRAGGLER);
    give(&t, 0, YK_PHASE_WORKERS, 0.65);
    give(&t, 2, YK_PHASE_WORKERS, 0.6);
    assert_int_equal(judge(&t)->kind, YK_VERDICT_STRAGGLER);
    t.measured[1].phases.last = 1; /* a quorum */
    assert_int_equal(judge(&t)->kind, YK_VERDICT_STRAGGLER);
    assert_null(strstr(judge(&t)->text, "barriers"));
}

/* All workers are equally late: no straggler. */
static void no_particular_straggler(void **state)
{
    (void)state;
    trial t = begin(3);
    give_all(&t, YK_PHASE_WORKERS, 0.35);
    const yk_verdict *v = judge(&t);
    assert_kind(v, YK_VERDICT_SYNC, 0.35);
    assert_words(v->advice, "--staleness");
}

static void a_slow_network(void **state)
{
    (void)state;
    trial t = begin(2);
    t.e.ranks = 2;
    link_all(&t, 110e3, 6.25e6); /* 50 Mbit/s: 8.8 of 10 ms for a step's bytes in each direction */
    t.e.round_trips = 2;
    t.e.round_trip = 1e-4;
    give_all(&t, YK_PHASE_PARAMETERS, 0.5);
    give_all(&t, YK_PHASE_SENDING, 0.4);
    const yk_verdict *v = judge(&t);
    assert_kind(v, YK_VERDICT_BANDWIDTH, 0.9);
    assert_words(v->text, "carried 5.5 of 6.25 MB/s");
    assert_true(numbered(v, "link_bytes_per_second") == 6.25e6);

    t.usage.cpu_host.mean = 8.0; /* a busy host matters little to workers that wait */
    t.usage.delayed.mean = 1.6;
    t.usage.cpu.mean = 0.4;
    t.measured[0].delayed = t.measured[1].delayed = 0.4;
    assert_kind(judge(&t), YK_VERDICT_BANDWIDTH, 0.9);
    link_all(&t, 110e3,
             11e6); /* but a link that carries half of what it can carries little for lack of a core */
    assert_kind(judge(&t), YK_VERDICT_CPU, 0.8);
    link_all(&t, 110e3, 7e6); /* a worker that is ready for most of the transfers waits for bytes */
    assert_kind(judge(&t), YK_VERDICT_BANDWIDTH, 0.9);
    t.measured[0].delayed = t.measured[1].delayed = 0.47; /* both without a core for most of the transfers */
    assert_kind(judge(&t), YK_VERDICT_CPU, 0.8);
    t.measured[1].link.sampled = 5.6e6; /* it carries that at nearly all times: the probe was a short burst */
    assert_kind(judge(&t), YK_VERDICT_BANDWIDTH, 0.9);
    t.measured[1].link.sampled = 0.0;
    t.measured[1].delayed = 0.4; /* one end is ready for most of the transfers */
    assert_kind(judge(&t), YK_VERDICT_BANDWIDTH, 0.9);

    t.measured[0].delayed = t.measured[1].delayed = t.usage.delayed.mean = 0.0;
    link_all(&t, 60e3, 1.25e9); /* plenty of it, but far away */
    t.e.round_trip = 4e-3;
    v = judge(&t);
    assert_kind(v, YK_VERDICT_LATENCY, 0.9);
    assert_words(v->text, "2.0 round trips of 4 ms");

    link_all(&t, 2e3, 1e8); /* neither bandwidth nor latency: the process that should answer has no core */
    t.e.round_trip = 5e-6;
    t.usage.cpu.mean = 0.4;
    t.usage.delayed.mean = 1.6;
    assert_kind(judge(&t), YK_VERDICT_CPU, 0.8);
    t.usage.cpu_host.mean = 7.5; /* no other programs: the run itself has too many processes */
    t.usage.cpu.mean = 7.5;
    t.usage.delayed.mean = 0.0;
    t.e.ranks = 16;
    t.e.host_threads = 16;
    v = judge(&t);
    assert_kind(v, YK_VERDICT_CPU, 0.5);
    assert_words(v->text, "16 processes share 8 cores");
    t.e.host_threads = 0;
    t.usage.cpu_host.mean = 2.1; /* or it has, and lets the others wait */
    t.usage.cpu.mean = 2.0;
    assert_kind(judge(&t), YK_VERDICT_SYNC, 0.9);
}

static void pinned_to_few_cores(void **state)
{
    (void)state;
    trial t = begin(4);
    t.e.ranks = 4;
    link_all(&t, 1e3, 1e9);
    t.e.hosts = 1;
    t.usage.cores = 1;
    t.usage.cpu.mean = 1.0;
    t.usage.cpu_host.mean = 1.1;
    t.usage.delayed.mean = 3.0;
    give_all(&t, YK_PHASE_SENDING, 0.7);
    const yk_verdict *v = judge(&t);
    assert_kind(v, YK_VERDICT_CPU, 0.75);
    assert_words(v->text, "4 processes share 1 core");
    t = begin(1); /* a container */
    t.usage.cores = 0.5;
    t.usage.cpu.mean = 0.5;
    v = judge(&t);
    assert_words(v->text, "is at the CPU limit of its cgroup, 0.5 cores");
}

/* Messages between processes of one host do not use a link, whatever was measured. */
static void ranks_on_one_host(void **state)
{
    (void)state;
    trial t = begin(4);
    t.e.ranks = 4;
    link_all(&t, 1e6, 689e6);
    t.e.hosts = 1;
    t.e.round_trips = 2;
    t.e.round_trip = 13e-6;
    give_all(&t, YK_PHASE_SENDING, 0.8);
    const yk_verdict *v = judge(&t);
    assert_kind(v, YK_VERDICT_SYNC, 0.8);
    assert_null(strstr(v->advice, "link"));
    assert_words(v->advice, "--workers 4 without --launch");
    assert_true(isnan(numbered(v, "link_bytes_per_second")));
    t.usage.cores = t.usage.host_cores = 2; /* and too few cores */
    t.usage.cpu.mean = t.usage.cpu_host.mean = 2.0;
    t.usage.delayed.mean = 1.5;
    v = judge(&t);
    assert_kind(v, YK_VERDICT_CPU, 0.5);
    assert_words(v->text, "4 processes share 2 cores");
}

static void a_round_trip_that_explains_nothing(void **state)
{
    (void)state;
    trial t = begin(2);
    t.e.ranks = 2;
    link_all(&t, 2e3, 1e9);
    for (int i = 0; i < 2; i++)
        t.measured[i].phases.steps = 62000; /* 161 us each */
    t.e.round_trips = 2;
    t.e.round_trip = 13e-6;
    give_all(&t, YK_PHASE_SENDING, 0.9);
    assert_kind(judge(&t), YK_VERDICT_SYNC, 0.9);
    t.e.round_trip = 60e-6;
    assert_kind(judge(&t), YK_VERDICT_LATENCY, 0.9);
}

static void one_slow_link(void **state)
{
    (void)state;
    trial t = begin(3);
    t.e.ranks = 3;
    link_all(&t, 110e3, 110e6);
    t.measured[2].link.highest = 6e6;
    give_all(&t, YK_PHASE_SENDING, 0.7);
    give(&t, 1, YK_PHASE_WORKERS, 0.2);
    const yk_verdict *v = judge(&t);
    assert_int_equal(v->kind, YK_VERDICT_BANDWIDTH);
    assert_words(v->text, "the link of host h2 carried 5.5 of 6 MB/s, those of other hosts up to 110 MB/s");
    assert_string_equal(v->host, "h2");
    for (int i = 0; i < 3; i++)
        t.measured[i].link.highest = 6e6; /* all are slow: no host is to blame */
    v = judge(&t);
    assert_int_equal(v->kind, YK_VERDICT_BANDWIDTH);
    assert_string_equal(v->host, "");
    assert_null(strstr(v->advice, "check the link"));

    const yk_process_evidence server = {.rank = 9, .host = "h9", .busy = 0.4, .link = {100e6, 105e6, 110e6}};
    link_all(&t, 110e3, 110e6); /* the link of a server carries the bytes of all workers */
    t.e.server = &server;
    t.e.nservers = 1;
    v = judge(&t);
    assert_int_equal(v->kind, YK_VERDICT_BANDWIDTH);
    assert_words(v->text, "the link of host h9 carried 100 of 110 MB/s");
}

static void a_busy_server(void **state)
{
    (void)state;
    yk_process_evidence server[2] = {{.rank = 0, .host = "h9", .busy = 0.95, .cpu = 1.0},
                                     {.rank = 1, .host = "h9", .busy = 0.4, .cpu = 0.9}};
    trial t = begin(8);
    t.usage.cores = t.usage.host_cores = 16;
    t.e.ranks = 10;
    t.e.waits = false;
    t.e.server = server;
    t.e.nservers = 2;
    give_all(&t, YK_PHASE_PARAMETERS, 0.7);
    const yk_verdict *v = judge(&t);
    assert_kind(v, YK_VERDICT_SERVER, 0.7);
    assert_words(v->text, "rank 0 (h9) handles messages 95 % of the time");
    assert_words(v->advice, "more --servers (now 2)");
    assert_null(strstr(v->advice, "async"));
    server[0].busy = 0.3; /* it waits as well */
    assert_kind(judge(&t), YK_VERDICT_SYNC, 0.7);
    assert_null(strstr(v->advice, "--mode async"));
    server[0].busy = 0.95; /* it has no core: it would handle them faster */
    server[0].cpu = 0.1;
    assert_kind(judge(&t), YK_VERDICT_SYNC, 0.7);
    server[0].stopped = 0.7;
    v = judge(&t);
    assert_kind(v, YK_VERDICT_STRAGGLER, 0.7);
    assert_words(v->text, "rank 0 (h9), a parameter server, was stopped for 70 %");
}

/* A stopped process may be stopped anywhere, so its phases and barriers look like those of the others. */
static void one_is_stopped(void **state)
{
    (void)state;
    trial t = begin(3);
    t.e.ranks = 3;
    link_all(&t, 1e3, 1e9);
    give_all(&t, YK_PHASE_SENDING, 0.8);
    t.measured[1].stopped = 0.7;
    const yk_verdict *v = judge(&t);
    assert_kind(v, YK_VERDICT_STRAGGLER, 0.8);
    assert_words(v->text, "rank 1 (h1) was stopped for 70 % of the time");
    t.e.waits = false; /* the others go on */
    assert_int_equal(judge(&t)->kind, YK_VERDICT_STRAGGLER);
    t.e.waits = true;
    t.measured[1].stopped = 0.0; /* pinned to a core that another program uses, at nice 19 */
    t.measured[1].delayed = 0.95;
    v = judge(&t);
    assert_int_equal(v->kind, YK_VERDICT_STRAGGLER);
    assert_words(v->text, "rank 1 (h1) had no core for 95 % of the time");
    assert_words(v->advice, "taskset");
    give(&t, 1, YK_PHASE_SENDING, 0.99); /* it waits for rank 2 and polls: it loses nothing without a core */
    give(&t, 2, YK_PHASE_SENDING, 0.0);
    v = judge(&t);
    assert_int_equal(v->kind, YK_VERDICT_STRAGGLER);
    assert_words(v->text, "rank 2 (h2) takes");
    give_all(&t, YK_PHASE_SENDING, 0.8);
    t.e.seconds = 0.2; /* too short for the scheduler to move it to an idle core */
    assert_kind(judge(&t), YK_VERDICT_SYNC, 0.8);
    t.e.seconds = 10.0;
    t.measured[1].delayed = 0.0;
    t.measured[1].stopped = 0.7;
    t.measured[0].stopped = t.measured[2].stopped = 0.7; /* all of them: the host was suspended */
    assert_kind(judge(&t), YK_VERDICT_SYNC, 0.8);
    const yk_process_evidence server = {.host = "h0", .busy = 0.1, .stopped = 0.7}; /* by the same limit */
    t.e.server = &server;
    t.e.nservers = 1;
    assert_kind(judge(&t), YK_VERDICT_SYNC, 0.8);
}

static void an_asynchronous_worker_that_falls_behind(void **state)
{
    (void)state;
    trial t = begin(3);
    t.e.ranks = 4;
    t.e.waits = false;
    link_all(&t, 1e3, 1e9);
    t.measured[2].phases.steps = 300;
    const yk_verdict *v = judge(&t);
    assert_kind(v, YK_VERDICT_STRAGGLER, 0.233);
    assert_words(v->text, "rank 2 (h2) takes 3.3 times as long");
    assert_null(strstr(v->advice, "async"));
    t.measured[2].phases.steps = 900;
    assert_kind(judge(&t), YK_VERDICT_CPU, 1.0);
    give(&t, 0, YK_PHASE_PARAMETERS, 0.8); /* they do not wait for rank 2, which computes more of the time */
    give(&t, 1, YK_PHASE_PARAMETERS, 0.8);
    assert_int_not_equal(judge(&t)->kind, YK_VERDICT_STRAGGLER);
    give(&t, 0, YK_PHASE_PARAMETERS, 0.0);
    give(&t, 1, YK_PHASE_PARAMETERS, 0.0);
}

static void workers_that_contend(void **state)
{
    (void)state;
    trial t = begin(8);
    t.e.waits = false;
    give_all(&t, YK_PHASE_APPLY, 0.7); /* merging copies */
    const yk_verdict *v = judge(&t);
    assert_kind(v, YK_VERDICT_CONTENTION, 0.4);
    assert_words(v->text, "8 workers change the same parameters");
    assert_words(v->text, "merging updates takes 70 %");
    t.e.waits = true; /* then it is work */
    assert_int_not_equal(judge(&t)->kind, YK_VERDICT_CONTENTION);
    t.e.waits = false;
    t.usage.delayed.mean = 4.0; /* they had no core */
    assert_int_not_equal(judge(&t)->kind, YK_VERDICT_CONTENTION);
}

static void swapping(void **state)
{
    (void)state;
    trial t = begin(2);
    t.usage.memory_stall.mean = 0.5;
    const yk_verdict *v = judge(&t);
    assert_kind(v, YK_VERDICT_MEMORY, 0.5);
    assert_words(v->text, "1 of 16 GB");
    t.usage.memory_stall.mean = (double)NAN; /* a kernel without pressure information: page faults show it */
    t.usage.major_faults.mean = 4000;
    assert_kind(judge(&t), YK_VERDICT_MEMORY, 0.4);
}

static void unknown_values_are_not_reported(void **state)
{
    (void)state;
    trial t = begin(1);
    t.measured[0].phases.steps = 2;
    const yk_verdict *v = judge(&t);
    assert_kind(v, YK_VERDICT_NONE, 0.0);
    assert_words(v->text, "too short");
    trial idle = begin(2);
    idle.measured[0].phases.steps = 1;
    idle.measured[1].phases.steps = 0;
    assert_words(judge(&idle)->text, "1 step)");

    const yk_usage unused = {0};
    yk_evidence nothing = {.workers = 1, .usage = &unused};
    yk_verdict empty;
    yk_verdict_find(&nothing, &empty);
    assert_int_equal(empty.kind, YK_VERDICT_NONE);

    t = begin(2); /* spread so that no share is large */
    give_all(&t, YK_PHASE_OTHER, 0.3);
    give_all(&t, YK_PHASE_INPUT, 0.15);
    give_all(&t, YK_PHASE_WORKERS, 0.15);
    assert_kind(judge(&t), YK_VERDICT_NONE, 0.0);

    const double nan = (double)NAN; /* no data about the host */
    t = begin(2);
    t.usage = (yk_usage){.cores = nan,
                         .host_cores = nan,
                         .cpu = {nan, nan},
                         .cpu_host = {nan, nan},
                         .delayed = {nan, nan},
                         .disk_busy = {nan, nan},
                         .net_busy = {nan, nan},
                         .memory_stall = {nan, nan},
                         .major_faults = {nan, nan}};
    v = judge(&t);
    assert_kind(v, YK_VERDICT_CPU, 1.0);
    for (int i = 0; i < v->nnumbers; i++)
        assert_true(isfinite(v->number[i].value));
}

static void shares_add_up_to_one(void **state)
{
    (void)state;
    trial t = begin(3);
    give(&t, 1, YK_PHASE_INPUT, 0.3);
    give(&t, 2, YK_PHASE_EVAL, 0.3);
    judge(&t);
    double share[YK_PHASES], sum = 0.0;
    yk_verdict_shares(t.measured, 3, share);
    for (int i = 0; i < YK_PHASES; i++)
        sum += share[i];
    assert_true(fabs(sum - 1.0) < 1e-9);
    assert_true(fabs(share[YK_PHASE_INPUT] - 0.1) < 1e-9);
    yk_verdict_shares(NULL, 0, share);
    assert_true(share[YK_PHASE_COMPUTE] == 0.0);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_worker_that_computes),
        cmocka_unit_test(reading_rows_from_memory_is_work),
        cmocka_unit_test(evaluation_is_work_too),
        cmocka_unit_test(more_threads_than_cores),
        cmocka_unit_test(other_programs_use_the_cpu),
        cmocka_unit_test(too_many_processes_of_this_run),
        cmocka_unit_test(stragglers_are_not_explained_by_competition),
        cmocka_unit_test(a_slow_reader),
        cmocka_unit_test(a_slow_disk_for_checkpoints),
        cmocka_unit_test(tiny_synchronous_steps),
        cmocka_unit_test(one_slow_worker),
        cmocka_unit_test(stragglers_in_short_runs),
        cmocka_unit_test(no_particular_straggler),
        cmocka_unit_test(a_slow_network),
        cmocka_unit_test(pinned_to_few_cores),
        cmocka_unit_test(ranks_on_one_host),
        cmocka_unit_test(a_round_trip_that_explains_nothing),
        cmocka_unit_test(one_slow_link),
        cmocka_unit_test(a_busy_server),
        cmocka_unit_test(one_is_stopped),
        cmocka_unit_test(an_asynchronous_worker_that_falls_behind),
        cmocka_unit_test(workers_that_contend),
        cmocka_unit_test(swapping),
        cmocka_unit_test(unknown_values_are_not_reported),
        cmocka_unit_test(shares_add_up_to_one),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
