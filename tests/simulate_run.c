/* Runs one attempt: all processes of a job, until each of them has ended. */
#include "simulate.h"

#include "base/clock.h"
#include "base/log.h"
#include "comm/comm.h"
#include "store/messages.h"
#include "train/checkpoint.h"
#include <stdio.h>

typedef struct {
    const schedule *s;
    const attempt_plan *plan;
    yk_fs_memory *disk;
    yk_rng disk_rng;
    uint64_t full_at; /* the change of the disk from which on it is full; 0: never */
    bool resume, trace, no_abort;
    volatile sig_atomic_t stop, leave[MAX_JOINERS];
    attempt *out;
} job;

static job *current; /* callbacks of the trainer have no context */

static int processes(const job *j)
{
    return j->s->ranks + (j->plan ? j->plan->joiners : 0);
}

/* ---- output ---- */

static void trace(void *context, double seconds, int rank, const char *text)
{
    (void)context;
    printf("%12.6f s  rank %d %s\n", seconds, rank, text);
}

static void log_line(void *context, yk_log_level level, const char *text)
{
    static const char *const name[] = {"note", "warning", "error"};
    const job *j = context;
    if (j->trace)
        printf("%12.6f s  rank %d %s: %s\n", yk_sim_now(), yk_comm_expected().rank, name[level], text);
}

/* ---- the staleness bound ---- */

/* The gradient of clock c must include all updates up to clock c - K - 1: they were sent before. */
static void check_clock(job *j, int rank, uint32_t thread, uint64_t c)
{
    const yk_plan *p = &j->s->plan;
    for (int r = p->servers; r < j->s->ranks; r++)
        for (int i = 0; i < p->channels; i++) {
            const worker_clock *w = &j->out->worker[r][i];
            const bool same = r == rank && (uint32_t)i == thread;
            if (!same && w->known && !w->idle && c > w->clock + p->staleness &&
                c - w->clock - p->staleness > j->out->too_far)
                j->out->too_far = c - w->clock - p->staleness;
        }
}

static void on_send(void *context, int from, int to, int tag, const void *data, size_t bytes)
{
    job *j = context;
    yk__up up;
    if (to != 0 || tag != YK__TAG_UP || bytes < sizeof up || j->s->plan.synchronous ||
        j->s->plan.staleness == YK_ASYNC)
        return;
    memcpy(&up, data, sizeof up);
    if (up.thread >= MAX_THREADS)
        return;
    worker_clock *w = &j->out->worker[from][up.thread];
    if (up.kind == YK__UP_STEP && (up.flags & YK__HAS_PUSH)) {
        /* a gradient of several threads is one step of each */
        const uint64_t steps = j->s->plan.sums_workers && !j->s->plan.local_steps ? up.steps > 0 : up.steps;
        check_clock(j, from, up.thread, w->clock + steps - (steps > 0));
        w->clock += steps;
        w->known = true;
    }
    w->idle |= up.kind == YK__UP_LEAVE || (up.flags & YK__IDLE) ||
               (up.kind == YK__UP_STEP && !up.examples && w->known && !(up.flags & YK__WANTS));
}

/* ---- the disk ---- */

/* A change takes time, so that a rank can be killed between two of them. The power fails for all. */
static void before_change(void *context)
{
    job *j = context;
    yk_fs_memory *m = j->disk;
    if (yk_clock_is_real())
        return;
    yk_sleep_ns(1000 + yk_rng_below(&j->disk_rng, 100000));
    if (j->full_at && m->changes + 1 >= j->full_at) /* not by bytes: files have figures of the real machine */
        yk_fs_memory_capacity(m, m->used);
    if (m->is_off || !m->cut_at || m->changes + 1 < m->cut_at)
        return;
    const int self = yk_comm_expected().rank;
    if (j->trace)
        printf("%12.6f s  the power fails\n", yk_sim_now());
    m->is_off = true;
    for (int i = 0; i < processes(j); i++)
        if (i != self)
            yk_sim_kill(i);
    yk_sim_kill(self);
}

static void set_disk_fault(const attempt_plan *p, yk_fs_memory *m)
{
    const uint64_t at = (uint64_t)p->disk_at;
    if (p->disk == POWER_FAILURE)
        yk_fs_memory_cut_at(m, m->changes + 1 + at);
    else if (p->disk == DISK_ERROR)
        yk_fs_memory_fail_at(m, m->changes + 1 + at, p->disk_error);
}

/* ---- a process ---- */

static void end_process(yk_status st)
{
    const int self = yk_comm_expected().rank;
    attempt *a = current->out;
    a->gave_up[self] = true;
    a->status[self] = st;
    snprintf(a->error[self], sizeof a->error[self], "%s", yk_error());
    for (int i = 0; i < current->s->ranks && self < current->s->ranks && !current->no_abort; i++)
        if (i != self)
            yk_sim_kill(i);
    yk_sim_kill(self);
}

/* What was saved must be there after a crash. */
static void stage(yk_train_stage what, int workers)
{
    (void)workers;
    char *path = NULL;
    unsigned long long step;
    if (what == YK_STAGE_TRAINING)
        current->out->training = yk_sim_now();
    if (what != YK_STAGE_SAVED || yk_checkpoint_find(run_dir, &path) || !path)
        return;
    const char *name = strrchr(path, '/');
    if (name && sscanf(name, "/step-%llu", &step) == 1) {
        current->out->saved_before = current->out->saved;
        current->out->saved = step;
    }
    free(path);
}

/* What a worker needs to join the job, as soon as it can be joined; NULL: the job has ended. */
static char *wait_for_job(const job *j)
{
    size_t n;
    char *text = NULL;
    while (j->out->rank[0].seconds == 0.0 && !(text = (char *)read_disk(j->disk, "run/join", &n)))
        yk_sleep(0.01);
    return text;
}

static yk_status train(job *j, int rank)
{
    attempt *a = j->out;
    yk_result *r = &a->result[rank];
    const bool joins = rank >= j->s->ranks;
    const yk_train_caller host = {.stop = joins ? &j->leave[rank - j->s->ranks] : &j->stop,
                                  .started = yk_now(),
                                  .stage = joins ? NULL : stage,
                                  .end_process = end_process};
    yk_config c;
    yk_status st = schedule_config(j->s, &c);
    if (joins && !st) {
        yk_sleep(j->plan->join_at[rank - j->s->ranks]);
        if (!(c.join_text = wait_for_job(j))) {
            yk_config_fini(&c);
            return YK_OK;
        }
        st = yk_config_set(&c, "join", run_dir);
    } else if (!st) {
        st = yk_config_set(&c, "out", run_dir);
        c.resume = j->resume;
    }
    if (!st)
        st = yk_train(&c, &host, r);
    a->returned[rank] = true;
    a->status[rank] = st;
    snprintf(a->error[rank], sizeof a->error[rank], "%s", st ? yk_error() : "");
    const bool others_continue =
        r->dispensable && (st == YK_ELOST || st == YK_ESTOP || st == YK_EINTERRUPTED);
    if (r->comm && st && !others_continue && !j->no_abort)
        yk_comm_abort(r->comm, 1);
    yk_comm_stop(r->comm, r->clean && !st);
    yk_config_fini(&c);
    return st;
}

static yk_status rank_main(void *context, int rank)
{
    job *j = context;
    const yk_log log = {.line = log_line, .context = j};
    yk_fs_set(yk_fs_memory_fs(j->disk));
    yk_log_set(&log);
    return train(j, rank);
}

/* ---- an attempt ---- */

void attempt_run(const schedule *s, const attempt_plan *plan, yk_fs_memory *disk, bool resume, bool show,
                 attempt *out)
{
    job j = {.s = s,
             .plan = plan,
             .disk = disk,
             .disk_rng = yk_rng_seed(s->seed, 2),
             .resume = resume,
             .trace = show,
             .no_abort = plan && plan->no_abort,
             .out = out};
    yk_sim_event event[MAX_EVENTS];
    double pauses = 0.0;
    for (int i = 0; plan && i < plan->events; i++) {
        event[i] = plan->event[i];
        event[i].flag = event[i].rank < s->ranks ? &j.stop : &j.leave[event[i].rank - s->ranks];
        pauses += event[i].seconds;
    }
    const yk_sim_config config = {.ranks = s->ranks,
                                  .joiners = plan ? plan->joiners : 0,
                                  .seed = plan ? plan->seed : s->seed + 1,
                                  .min_delay = plan ? plan->min_delay : s->min_delay,
                                  .max_delay = plan ? plan->max_delay : s->max_delay,
                                  .eager = s->eager,
                                  .max_seconds = 1000.0 + pauses,
                                  .event = event,
                                  .events = plan ? plan->events : 0,
                                  .trace = show ? trace : NULL,
                                  .sends = on_send};
    const uint64_t saved = out->saved, before = disk->changes;
    *out = (attempt){.saved = saved, .saved_before = saved};
    current = &j;
    disk->kept = false;
    disk->before_change = before_change;
    disk->context = &j;
    if (plan)
        set_disk_fault(plan, disk);
    if (plan && plan->disk == DISK_FULL)
        j.full_at = disk->changes + 1 + (uint64_t)plan->disk_at;
    if (yk_sim_run(&config, rank_main, &j, out->rank, &out->sim))
        snprintf(out->error[0], sizeof out->error[0], "%s", yk_error());
    disk->before_change = NULL;
    if (out->status[0] == YK_ESYSTEM) /* perhaps the last checkpoint could not be saved */
        out->saved = out->saved_before;
    out->changes = disk->changes - before;
    yk_fs_memory_close_all(disk);
    yk_fs_memory_capacity(disk, UINT64_MAX);
    disk->fail_at = 0;
    disk->cut_at = 0;
    if (disk->is_off)
        yk_fs_memory_restart(disk);
}

void attempt_free(attempt *a)
{
    for (int i = 0; i < MAX_PROCESSES; i++)
        if (a->returned[i])
            yk_result_fini(&a->result[i]);
}

bool attempt_done(const attempt *a)
{
    return a->returned[0] && !a->status[0] && a->rank[0].end == YK_SIM_RETURNED;
}

unsigned char *read_disk(const yk_fs_memory *disk, const char *path, size_t *size_out)
{
    const node *n = find(disk, AT_FDCWD, path);
    unsigned char *copy = n && !n->is_dir ? malloc(n->size + 1) : NULL;
    *size_out = copy ? n->size : 0;
    if (copy) {
        memcpy(copy, n->size ? (const void *)n->data : "", n->size);
        copy[n->size] = '\0';
    }
    return copy;
}
