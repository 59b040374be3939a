#include "base/thread_pool.h"

#include "base/mem.h"
#include "base/sync.h"
#include <string.h>

typedef struct {
    yk_thread_pool *pool;
    int me;
    yk_thread thread;
} helper;

struct yk_thread_pool {
    int threads, started; /* started: not counting the caller */
    yk_team *team;
    helper *helper; /* [threads]; 0 is not used */
    bool quit;
    void (*part)(void *context, int me, int all);
    void *context;
};

static void *run_parts(void *arg)
{
    const helper *h = arg;
    const yk_thread_pool *p = h->pool;
    for (;;) {
        if (yk_team_barrier(p->team, h->me) || p->quit)
            return NULL;
        p->part(p->context, h->me, p->threads);
        if (yk_team_barrier(p->team, h->me))
            return NULL;
    }
}

yk_status yk_thread_pool_create(int threads, yk_thread_pool **out)
{
    yk_thread_pool *p = yk_alloc(1, sizeof *p, "a thread pool");
    if (!p)
        return YK_ESYSTEM;
    p->threads = threads;
    p->helper = yk_alloc((size_t)threads, sizeof *p->helper, "a thread pool");
    yk_status st = p->helper ? yk_team_create(threads, &p->team) : YK_ESYSTEM;
    for (int i = 1; !st && i < threads; i++) {
        p->helper[i] = (helper){.pool = p, .me = i};
        const int e = yk_thread_start(&p->helper[i].thread, run_parts, &p->helper[i]);
        if (e)
            st = yk_fail(YK_ESYSTEM, "cannot start thread %d of %d: %s", i, threads, strerror(e));
        else
            p->started++;
    }
    if (st) {
        yk_thread_pool_free(p);
        return st;
    }
    *out = p;
    return YK_OK;
}

void yk_thread_pool_free(yk_thread_pool *p)
{
    if (!p)
        return;
    p->quit = true;
    if (p->started && p->started < p->threads - 1) /* not all could be started: they wait for the others */
        yk_team_stop(p->team);
    else if (p->started)
        yk_team_barrier(p->team, 0);
    for (int i = 1; i <= p->started; i++)
        yk_thread_join(&p->helper[i].thread);
    yk_team_free(p->team);
    yk_free(p->helper);
    yk_free(p);
}

void yk_thread_pool_run(yk_thread_pool *p, void (*part)(void *context, int me, int all), void *context)
{
    if (!p || p->threads == 1) {
        part(context, 0, 1);
        return;
    }
    p->part = part;
    p->context = context;
    yk_team_barrier(p->team, 0);
    part(context, 0, p->threads);
    yk_team_barrier(p->team, 0);
}

yk_team *yk_thread_pool_team(yk_thread_pool *p)
{
    return p ? p->team : NULL;
}
