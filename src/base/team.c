#include "base/team.h"

#include "base/cgroup.h"
#include "base/clock.h"
#include "base/mem.h"
#include "base/sync.h"
#include <math.h>
#include <sched.h>
#include <stdatomic.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

typedef struct {
    _Alignas(YK_ALIGN) atomic_uint arrived; /* rounds so far, to name missing workers */
    /* its last barrier, for its own thread: */
    bool last;
    uint64_t waited;
    yk_team *team;
    yk_thread thread; /* unused for worker 0 */
} worker;

struct yk_team {
    int n, started; /* started: threads so far, including the caller (worker 0) */
    yk_wait_kind kind;
    double seconds; /* how long to wait for a worker; HUGE_VAL: no timeout */
    _Alignas(YK_ALIGN) atomic_uint round;
    _Alignas(YK_ALIGN) atomic_uint waiting;
    _Alignas(YK_ALIGN) atomic_int sleeping; /* workers in the kernel; 0: waking needs no system call */
    _Alignas(YK_ALIGN) atomic_bool stopped;
    yk_status (*work)(void *, int);
    void *context;
    /* of a pool: */
    void (*part)(void *, int, int); /* NULL: the threads exit */
    void *part_context;
    yk_mutex lock; /* protects the rest */
    yk_status status;
    char error[2048];
    worker worker[]; /* [n] */
};

int yk_cores(void)
{
    cpu_set_t set;
    if (!yk_clock_is_real()) /* simulations do not depend on the machine */
        return 2;
    int n =
        sched_getaffinity(0, sizeof set, &set) == 0 ? CPU_COUNT(&set) : (int)sysconf(_SC_NPROCESSORS_ONLN);
    yk_limits limits;
    yk_cgroup_limits("/proc", "/sys", &limits);
    if (limits.cores > 0.0 && limits.cores < n)
        n = (int)(limits.cores + 0.999);
    return n < 1 ? 1 : n;
}

int yk_cores_per_process(int processes)
{
    const int share = yk_cores() / (processes > 1 ? processes : 1);
    return share > 1 ? share : 1;
}

int yk_cores_for(size_t parts)
{
    const size_t most = parts < YK_MAX_THREADS ? parts : YK_MAX_THREADS, cores = (size_t)yk_cores();
    return (int)(cores < most ? cores : most ? most : 1);
}

yk_status yk_team_create(int workers, yk_team **out)
{
    yk_team *team = yk_alloc(1, sizeof *team + (size_t)workers * sizeof(worker), "the workers");
    if (!team)
        return YK_ESYSTEM;
    team->n = workers;
    team->kind = workers <= yk_cores() ? YK_WAIT_THREADS : YK_WAIT_OVERSUBSCRIBED;
    team->seconds = HUGE_VAL;
    for (int i = 0; i < workers; i++)
        team->worker[i].team = team;
    yk_mutex_init(&team->lock);
    *out = team;
    return YK_OK;
}

void yk_team_set_timeout(yk_team *team, double seconds)
{
    team->seconds = seconds;
}

void yk_team_free(yk_team *team)
{
    if (!team)
        return;
    yk_mutex_destroy(&team->lock);
    yk_free(team);
}

static void wake_all(yk_team *team)
{
    if (atomic_load(&team->sleeping) == 0)
        return; /* a worker that is about to sleep sees the new round first */
    yk_unpark(&team->round);
}

void yk_team_stop(yk_team *team)
{
    atomic_store(&team->stopped, true);
    wake_all(team);
}

bool yk_team_stopped(const yk_team *team)
{
    return atomic_load_explicit(&team->stopped, memory_order_relaxed);
}

yk_wait yk_team_wait(const yk_team *team)
{
    return yk_wait_begin(team->kind, team->seconds);
}

static yk_status missing(const yk_team *team, unsigned round)
{
    char names[256] = "";
    int n = 0;
    for (int i = 0; i < team->n; i++)
        if (atomic_load(&team->worker[i].arrived) != round + 1 && strlen(names) < sizeof names - 16)
            snprintf(names + strlen(names), sizeof names - strlen(names), "%s%d", n++ ? ", " : "", i);
    return yk_fail(YK_ELOST, "no response from worker%s %s within %g s", n > 1 ? "s" : "", names,
                   team->seconds);
}

yk_status yk_team_barrier(yk_team *team, int me)
{
    if (team->n == 1)
        return yk_team_stopped(team) ? yk_fail(YK_ESTOP, "the run was stopped") : YK_OK;
    unsigned round = atomic_load_explicit(&team->round, memory_order_relaxed);
    worker *own = &team->worker[me];
    atomic_store_explicit(&own->arrived, round + 1, memory_order_relaxed);
    own->waited = 0;
    own->last = atomic_fetch_add(&team->waiting, 1) + 1 == (unsigned)team->n;
    if (own->last) {
        atomic_store(&team->waiting, 0);
        atomic_store(&team->round, round + 1);
        wake_all(team);
    }
    yk_wait w = yk_team_wait(team);
    while (atomic_load_explicit(&team->round, memory_order_acquire) == round) {
        if (atomic_load(&team->stopped))
            return yk_fail(YK_ESTOP, "another worker stopped the run");
        if (yk_wait_spin(&w))
            continue;
        if (yk_wait_expired(&w))
            return missing(team, round);
        atomic_fetch_add(&team->sleeping, 1);
        yk_park(&team->round, round, 100000000); /* then checks whether to stop */
        atomic_fetch_sub(&team->sleeping, 1);
    }
    if (w.began)
        own->waited = yk_now_ns() - w.began;
    return YK_OK;
}

bool yk_team_was_last(const yk_team *team, int me)
{
    return team->worker[me].last;
}

uint64_t yk_team_waited(const yk_team *team, int me)
{
    return team->worker[me].waited;
}

/* Makes this thread's error the error of the team, unless there already is one, and stops the team. */
static void set_error(yk_team *team, yk_status st)
{
    yk_mutex_lock(&team->lock);
    if (!team->status || (team->status == YK_ESTOP && st != YK_ESTOP)) {
        team->status = st;
        snprintf(team->error, sizeof team->error, "%s", yk_error());
    }
    yk_mutex_unlock(&team->lock);
    yk_team_stop(team);
}

static void *run_worker(void *arg)
{
    const worker *own = arg;
    yk_team *team = own->team;
    yk_status st = team->work(team->context, (int)(own - team->worker));
    if (st)
        set_error(team, st);
    return NULL;
}

/* Starts all workers except worker 0, the caller. */
static yk_status start(yk_team *team, yk_status (*work)(void *context, int me), void *context)
{
    team->work = work;
    team->context = context;
    team->status = YK_OK;
    atomic_store(&team->stopped, false);
    atomic_store(&team->waiting, 0);
    for (team->started = 1; team->started < team->n; team->started++) {
        worker *w = &team->worker[team->started];
        const int e = yk_thread_start(&w->thread, run_worker, w);
        if (!e)
            continue;
        const yk_status st =
            yk_fail(YK_ESYSTEM, "cannot start thread %d of %d: %s; use fewer --workers or --threads",
                    team->started, team->n, strerror(e));
        set_error(team, st);
        return st;
    }
    return YK_OK;
}

static yk_status join(yk_team *team)
{
    for (int i = 1; i < team->started; i++)
        yk_thread_join(&team->worker[i].thread);
    return team->status ? yk_fail(team->status, "%s", team->error) : YK_OK;
}

yk_status yk_team_run(yk_team *team, yk_status (*work)(void *context, int me), void *context)
{
    if (!start(team, work, context))
        run_worker(&team->worker[0]);
    return join(team);
}

yk_status yk_team_once(int threads, yk_status (*work)(void *context, int me), void *context)
{
    yk_team *team = NULL;
    yk_status st = yk_team_create(threads, &team);
    st = st ? st : yk_team_run(team, work, context);
    yk_team_free(team);
    return st;
}

/* ---- pools ---- */

static yk_status run_parts(void *pool, int me)
{
    yk_team *p = pool;
    while (!yk_team_barrier(p, me) && p->part) {
        p->part(p->part_context, me, p->n);
        if (yk_team_barrier(p, me))
            break;
    }
    return YK_OK;
}

yk_status yk_thread_pool_create(int threads, yk_thread_pool **out)
{
    yk_team *p = NULL;
    yk_status st = yk_team_create(threads, &p);
    if (!st && (st = start(p, run_parts, p)))
        join(p); /* those that were started have been stopped */
    if (st)
        yk_team_free(p);
    else
        *out = p;
    return st;
}

void yk_thread_pool_free(yk_thread_pool *p)
{
    if (!p)
        return;
    p->part = NULL;
    yk_team_barrier(p, 0);
    join(p);
    yk_team_free(p);
}

void yk_thread_pool_run(yk_thread_pool *p, void (*part)(void *context, int me, int all), void *context)
{
    if (!p || p->n == 1) {
        part(context, 0, 1);
        return;
    }
    p->part = part;
    p->part_context = context;
    yk_team_barrier(p, 0);
    part(context, 0, p->n);
    yk_team_barrier(p, 0);
}
