/* Several parameter groups in one model on several processes: parameter servers and local SGD train them as a serial program in
 * doubles does. */
#include "group_ranks.h"

/* Also if each kind of group, or each keyed group, has its own servers. */
static void servers_equal_serial(void **state)
{
    (void)state;
    for (int kind = 0; kind < YK_OPTIM_KINDS; kind++)
        for (int how = 0; how < 6; how++) {
            job j;
            const int threads = 1 + how % 2;
            job_begin(&j, kind, CLIENTS * threads);
            job_decay(&j);
            j.threads = threads;
            j.separate = how / 2;
            simulate(SERVERS + CLIENTS, (uint64_t)kind, server_or_client, &j);
            assert_serial(&j, threads == 1 ? "servers" : "servers, clients of two threads");
            job_end(&j);
        }
}

/* Keyed groups are updated as gradients arrive, the dense one once per round. Gradients of a round are computed with the
 * parameters at its beginning. */
static void servers_mix_staleness(void **state)
{
    (void)state;
    static reference before;
    for (int kind = 0; kind < YK_OPTIM_KINDS; kind++) {
        job j;
        job_begin(&j, kind, CLIENTS);
        for (int g = LINEAR; g <= EMBEDDING; g++) {
            j.immediate[g] = true;
            j.group[g].optim = rule_config(YK_SGD); /* the order of clients makes no difference */
        }
        simulate(SERVERS + CLIENTS, (uint64_t)kind, server_or_client, &j);
        reference_begin(&expected, j.group);
        for (int epoch = 0; epoch < EPOCHS; epoch++)
            for (size_t at = 0; at < ROWS; at += CLIENTS * BATCH) {
                const size_t end = at + CLIENTS * BATCH < ROWS ? at + CLIENTS * BATCH : ROWS;
                before = expected;
                for (size_t i = at; i < end; i += BATCH)
                    reference_apply(&expected, &before, &j.rows, i, i + BATCH < end ? i + BATCH : end, 3);
                reference_apply(&expected, &before, &j.rows, at, end, 4);
                expected.step++;
            }
        /* a reply that waits for the previous one may include a gradient of the next round in an asynchronous group */
        assert_is_near(j.result, &expected, NULL, 0.01, "a synchronous dense group on servers");
        job_end(&j);
    }
}

/* With local SGD, too: the state of all groups is sent. */
static void servers_train_asynchronously(void **state)
{
    (void)state;
    for (int kind = 0; kind < 2 * YK_OPTIM_KINDS; kind++) {
        job j;
        job_begin(&j, kind / 2, CLIENTS);
        j.lockstep = false;
        j.local_steps = kind % 2 ? 3 : 0;
        j.staleness = kind % 3 ? YK_ASYNC : 4;
        simulate(SERVERS + CLIENTS, (uint64_t)kind, server_or_client, &j);
        for (int g = 0; g < GROUPS; g++)
            for (size_t k = 0; k < floats_of[g]; k++)
                assert_true(isfinite(yk_local_table(j.result, g).w[k]));
        assert_int_equal(yk_local_steps(j.result), ROWS / BATCH);
        job_end(&j);
    }
}

static bool is_paused(void *context)
{
    (void)context;
    return yk_sim_now() < 4.0;
}

/* While server 0 is paused, it sends heartbeats to all clients. One that leaves in the meantime has received them. */
static void heartbeats_are_received(void **state)
{
    (void)state;
    for (uint64_t seed = 0; seed < 4; seed++) {
        job j;
        job_begin(&j, YK_SGD, CLIENTS);
        j.lockstep = false;
        j.staleness = YK_ASYNC;
        j.epochs = 0;
        j.paused = is_paused;
        simulate(SERVERS + CLIENTS, seed, server_or_client, &j);
        assert_int_equal(j.sent, j.received);
        job_end(&j);
    }
}

/* A gradient computed at clock c includes all updates of all workers up to clock c - K - 1, on all servers. Returns how far a
 * worker is ahead of another at most. */
static uint64_t max_ahead(uint64_t bound, uint64_t local_steps, int depth, bool copies, uint64_t seed)
{
    job j;
    job_begin(&j, YK_SGD, CLIENTS);
    for (int g = 0; g < GROUPS; g++) {
        j.group[g].optim = rule_config(YK_SGD);
        j.group[g].optim.lr = 1.0;
    }
    j.lockstep = false;
    j.counts = true;
    j.staleness = bound;
    j.local_steps = local_steps;
    j.depth = depth;
    j.copies = copies;
    simulate(SERVERS + CLIENTS, seed, server_or_client, &j);
    for (int s = 0; !local_steps && s < SERVERS; s++)
        for (int w = 0; w < CLIENTS; w++) {
            const size_t at = counter_at[s] + (size_t)w;
            const float made = yk_local_table(j.result, NETWORK).w[at] - begin_with(NETWORK, at);
            if (!(fabsf(made - (w ? 12.0f : 13.0f)) < 0.01f)) /* at the end no update is missing */
                fail_msg("server %d has %g updates of worker %d", s, (double)made, w);
        }
    job_end(&j);
    return j.ahead;
}

static void servers_bound_staleness(void **state)
{
    (void)state;
    for (uint64_t seed = 0; seed < 4; seed++) {
        for (uint64_t bound = 1; bound <= 5; bound++)
            assert_int_equal(max_ahead(bound, 0, 1, false, seed), bound);
        assert_true(max_ahead(YK_ASYNC, 0, 1, false, seed) > 8);
        /* in the last step of a round; others are seen round by round */
        assert_int_equal(max_ahead(3, 3, 1, false, seed), 2);
        assert_int_equal(max_ahead(5, 3, 1, false, seed), 5);
        assert_int_equal(max_ahead(7, 3, 1, false, seed), 5);
    }
}

/* The same for copies, with the lifetimes of train/plan.c. */
static void copies_bound_staleness(void **state)
{
    (void)state;
    for (uint64_t seed = 0; seed < 2; seed++)
        for (int depth = 1; depth <= 3; depth++)
            for (uint64_t bound = depth > 1 ? (uint64_t)depth - 1 : 1; bound <= 8; bound++) {
                const uint64_t lifetime = bound / (uint64_t)depth > 1 ? bound / (uint64_t)depth : 1,
                               ahead = max_ahead(bound, lifetime, depth, true, seed);
                if (ahead > bound || ahead + lifetime < bound)
                    fail_msg("depth %d, bound %d: %d ahead", depth, (int)bound, (int)ahead);
            }
}

/* One copy in flight, of one worker: its share is all of its delta, so the result is that of the same steps without copies. */
static void copies_of_one_worker_change_nothing(void **state)
{
    (void)state;
    for (int kind = 0; kind < YK_OPTIM_KINDS; kind++) {
        job j;
        job_begin(&j, kind, 1);
        j.group[EMBEDDING].optim = j.group[NETWORK].optim =
            rule_config(YK_SGD); /* linear models have neither */
        j.lockstep = false;
        j.copies = true;
        j.staleness = 8; /* with a bound, copies have velocities */
        j.local_steps = 3;
        j.depth = 1;
        simulate(SERVERS + 1, (uint64_t)kind, server_or_client, &j);
        reference_begin(&expected, j.group);
        reference_train(&expected, &j.rows, BATCH, 1); /* asynchronous: one epoch */
        assert_is_reference(j.result, &expected, NULL, "copies of one worker");
        job_end(&j);
    }
}

/* ---- local SGD: the mean of copies ---- */

/* Each process trains a copy for H steps; then weights and state of all are averaged, weighted by their examples. */
static void reference_local_sgd(const job *j, reference *out)
{
    static reference copy[MAX_WORKERS];
    const size_t each = BATCH * (size_t)j->threads, n = (size_t)(j->workers / j->threads);
    reference_begin(out, j->group);
    for (int epoch = 0; epoch < j->epochs; epoch++)
        for (size_t first = 0; first * n * each < ROWS; first += j->local_steps) {
            uint64_t steps = 0;
            double examples[MAX_WORKERS] = {0}, sum = 0.0;
            for (size_t i = 0; i < n; i++) {
                copy[i] = *out;
                for (size_t t = first; t < first + j->local_steps && (t * n + i) * each < ROWS; t++) {
                    const size_t at = (t * n + i) * each, end = at + each < ROWS ? at + each : ROWS;
                    reference_step(&copy[i], &j->rows, at, end);
                    examples[i] += (double)(end - at);
                }
                sum += examples[i];
                steps = copy[i].step > steps ? copy[i].step : steps;
            }
            for (int g = 0; g < GROUPS; g++)
                for (size_t k = 0; k < floats_of[g]; k++) {
                    weight mean = {0};
                    for (size_t i = 0; i < n; i++) {
                        mean.w += copy[i].w[g][k].w * examples[i] / sum;
                        mean.s0 += copy[i].w[g][k].s0 * examples[i] / sum;
                        mean.s1 += copy[i].w[g][k].s1 * examples[i] / sum;
                    }
                    out->w[g][k] = mean;
                }
            out->step = steps;
        }
}

static void local_sgd_averages_copies(void **state)
{
    (void)state;
    for (int kind = 0; kind < YK_OPTIM_KINDS; kind++)
        for (int threads = 1; threads <= 2; threads++) {
            job j;
            job_begin(&j, kind, 2 * threads);
            j.threads = threads;
            j.local_steps = 3;
            simulate(SERVERS + CLIENTS, (uint64_t)kind, server_or_client, &j);
            reference_local_sgd(&j, &expected);
            assert_is_reference(j.result, &expected, NULL, "local SGD on servers");
            job_end(&j);
        }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(servers_equal_serial),         cmocka_unit_test(servers_mix_staleness),
        cmocka_unit_test(servers_train_asynchronously), cmocka_unit_test(servers_bound_staleness),
        cmocka_unit_test(copies_bound_staleness),       cmocka_unit_test(local_sgd_averages_copies),
        cmocka_unit_test(heartbeats_are_received),      cmocka_unit_test(copies_of_one_worker_change_nothing),
    };
    return cmocka_run_group_tests_name("group ranks", tests, NULL, NULL);
}
