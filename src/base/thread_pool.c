#include "base/thread_pool.h"

#include "base/mem.h"

struct yk_thread_pool {
    int threads;
    yk_team *team;
    bool quit;
    void (*part)(void *context, int me, int all);
    void *context;
};

static yk_status run_parts(void *pool, int me)
{
    const yk_thread_pool *p = pool;
    for (;;) {
        if (yk_team_barrier(p->team, me) || p->quit)
            return YK_OK;
        p->part(p->context, me, p->threads);
        if (yk_team_barrier(p->team, me))
            return YK_OK;
    }
}

yk_status yk_thread_pool_create(int threads, yk_thread_pool **out)
{
    yk_thread_pool *p = yk_alloc(1, sizeof *p, "a thread pool");
    if (!p)
        return YK_ESYSTEM;
    p->threads = threads;
    yk_status st = yk_team_create(threads, &p->team);
    if (!st && (st = yk__team_start(p->team, run_parts, p)))
        yk__team_join(p->team); /* those that were started have been stopped */
    if (st) {
        yk_team_free(p->team);
        yk_free(p);
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
    yk_team_barrier(p->team, 0);
    yk__team_join(p->team);
    yk_team_free(p->team);
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
