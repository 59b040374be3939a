/* Training jobs for the tests of parameter groups: a small training loop for factor_model.h on any store. */
#ifndef YK_TESTS_GROUP_JOBS_H
#define YK_TESTS_GROUP_JOBS_H

#include "factor_model.h"

#include "base/clock.h"
#include "base/log.h"

enum { MAX_WORKERS = 4, BATCH = 4, EPOCHS = 3, SERVERS = 2, CLIENTS = 2 };

/* A job: threads of one process, or simulated ranks. */
typedef struct {
    yk_model model;
    yk_rows rows;
    yk_local_group group[GROUPS];
    int workers; /* in all processes */
    int threads; /* per process that trains */
    int epochs;
    uint64_t local_steps, staleness;
    int depth;   /* copies: outstanding requests of a worker */
    bool copies; /* store/shards.h, with a lifetime of `local_steps` */
    /* Which groups are on the last server, while the others are on the other servers. */
    enum { TOGETHER, KEYED_LAST, LINEAR_LAST } separate;
    bool lockstep, counts, immediate[GROUPS];
    yk_team *team;
    yk_local *result;              /* all parameters of rank 0 at the end */
    bool (*paused)(void *context); /* of server 0; NULL: never */
    uint64_t sent, received;       /* bytes of all ranks */
    uint64_t ahead; /* asynchronous: the most steps that a worker was ahead of another whose updates it saw */
} job;

static inline yk_optim_config rule_config(int kind)
{
    yk_optim_config c = yk_optim_defaults((yk_optim_kind)kind);
    c.lr = 0.1;
    c.epsilon = 1e-2; /* otherwise rounding dominates adagrad's first step if gradients cancel */
    return c;
}

/* Every group has a different optimizer. */
static inline void job_begin(job *j, int kind, int workers)
{
    *j = (job){.model = factor_model(), .workers = workers, .threads = 1, .epochs = EPOCHS, .lockstep = true};
    for (int g = 0; g < GROUPS; g++)
        j->group[g] =
            (yk_local_group){.shape = j->model.group[g], .optim = rule_config((kind + g) % YK_OPTIM_KINDS)};
    make_rows(&j->rows);
}

/* Weights of "linear" that a step does not touch decay, too, if the optimizer is sgd. */
static inline void job_decay(job *j)
{
    for (int g = 0; g < GROUPS; g++)
        j->group[g].optim.l2 = 0.02;
}

static inline void job_end(job *j)
{
    yk_local_free(j->result);
    yk_rows_fini(&j->rows);
}

static inline yk_local_config store_config(const job *j, int workers)
{
    yk_local_config c = {.ngroups = GROUPS, .team = j->team, .workers = workers, .batch = BATCH};
    memcpy(c.group, j->group, sizeof j->group);
    return c;
}

/* ---- a worker's training loop ---- */

typedef struct {
    job *j;
    int number; /* of all workers */
    size_t next;
    uint64_t steps;
    uint64_t ended, local; /* steps of all workers until the last round ended; of this worker since then */
    uint32_t pick[ROWS];
} reader;

/* Worker i of N has batches i, N + i, 2 N + i ... */
static inline yk_batch next_batch(reader *r)
{
    const size_t at = (r->next * (size_t)r->j->workers + (size_t)r->number) * BATCH;
    if (at >= ROWS)
        return (yk_batch){0};
    r->next++;
    return (yk_batch){.rows = &r->j->rows, .pick = r->pick + at, .n = ROWS - at < BATCH ? ROWS - at : BATCH};
}

static inline yk_status announce(yk_store *s, int me, reader *r)
{
    yk_status st = YK_OK;
    while (!st && s->ops->wants(s, me) > 0) {
        const yk_batch b = next_batch(r);
        st = s->ops->announce(s, me, &b, (uint64_t[YK_CURSOR_SIZE]){0});
    }
    return st;
}

/* Asynchronous: every push of worker i adds 1 to two parameters on different servers. So the parameters show
 * which updates they include. */
static const size_t counter_at[SERVERS] = {0, 20};

static inline void count_push(int worker, yk_workspace *work, yk_grad *g)
{
    const float *err = memset(work->err, 0, sizeof work->err);
    memset(work->dense, 0, sizeof work->dense);
    for (int k = 0; k < SERVERS; k++)
        work->dense[counter_at[k] + (size_t)worker] = -(float)g->examples;
    g->group[LINEAR].err = err;
    yk_merger_clear(&work->pairs);
}

static inline void note_ahead(job *j, int me, uint64_t clock, const yk_view *view)
{
    for (int i = 0; i < j->workers; i++)
        for (int k = 0; k < SERVERS; k++) {
            const size_t at = counter_at[k] + (size_t)i;
            /* local SGD adds 1/N of each delta; a share is only computed for linear models */
            const float share = j->local_steps && !j->copies ? (float)j->workers : 1.0f;
            const uint64_t seen = (uint64_t)lrintf(share * (view[NETWORK].w[at] - begin_with(NETWORK, at)));
            if (i != me && clock > seen && clock - seen > j->ahead)
                j->ahead = clock - seen;
        }
}

static inline yk_status one_step(job *j, yk_store *s, int me, reader *r, yk_workspace *work,
                                 yk_step_result *out)
{
    yk_view view[YK_MAX_GROUPS];
    yk_batch b;
    yk_grad g = {0};
    yk_status st = announce(s, me, r);
    if (st || (st = s->ops->pull(s, me, &b, view)))
        return st;
    if (b.n)
        factor_grad(&j->model, work, view, &b, &g);
    if (b.n && j->counts) {
        note_ahead(j, r->number, r->steps++, view);
        count_push(r->number, work, &g);
        yk_sleep_ns(r->number ? 100000 : 10000000); /* worker 0 is slow */
    }
    if (b.n && j->lockstep && me == 0 && s->ops->steps(s, me) != r->ended + r->local)
        return yk_fail(YK_EDATA, "worker %d: the store has a wrong number of steps", r->number);
    if ((st = announce(s, me, r)) || (st = s->ops->push(s, me, &g)) ||
        (st = s->ops->clock(s, me, YK_ACTION_CONTINUE, out)))
        return st;
    r->ended += out->steps;
    r->local = out->pending ? r->local + 1 : 0;
    return YK_OK;
}

static inline yk_status train(job *j, yk_store *s, int me, int number)
{
    reader *r = yk_alloc(1, sizeof *r, "a test");
    yk_workspace *work;
    yk_status st = r ? yk_workspace_create(&j->model, BATCH, &work) : YK_ESYSTEM;
    if (st)
        return st;
    *r = (reader){.j = j, .number = number};
    for (uint32_t i = 0; i < ROWS; i++)
        r->pick[i] = i;
    for (int epoch = 0; !st && epoch < j->epochs;) {
        yk_step_result result;
        st = one_step(j, s, me, r, work, &result);
        if (st || result.pending)
            continue;
        if (!j->lockstep && result.over)
            break;
        if (j->lockstep && result.examples == 0) {
            epoch++;
            r->next = 0;
        }
    }
    if (!st)
        st = s->ops->finish(s, me);
    yk_workspace_free(&j->model, work);
    yk_free(r);
    return st;
}

static reference expected; /* too large for a stack */

static inline void assert_serial(job *j, const char *what)
{
    reference_begin(&expected, j->group);
    reference_train(&expected, &j->rows, (size_t)j->workers * BATCH, j->epochs);
    assert_is_reference(j->result, &expected, NULL, what);
}

#endif
