#include "train/background.h"

#include <stdio.h>
#include <string.h>

void yk__error_save(yk__saved_error *e, yk_status st)
{
    e->st = st;
    snprintf(e->text, sizeof e->text, "%s", st ? yk_error() : "");
}

yk_status yk__error_raise(const yk__saved_error *e)
{
    return e->st ? yk_fail(e->st, "%s", e->text) : YK_OK;
}

static void *run_thread(void *context)
{
    yk__background *b = context;
    yk__error_save(&b->error, b->run(b->context));
    atomic_store(&b->over, true);
    return NULL;
}

yk_status yk__background_start(yk__background *b, yk_status (*run)(void *context), void *context,
                               const char *what)
{
    *b = (yk__background){.run = run, .context = context};
    const int e = yk_thread_start(&b->thread, run_thread, b);
    b->started = e == 0;
    return e ? yk_fail(YK_ESYSTEM, "cannot start %s: %s", what, strerror(e)) : YK_OK;
}

yk_status yk__background_join(yk__background *b, yk_status so_far)
{
    if (!b->started)
        return so_far;
    yk_thread_join(&b->thread);
    b->started = false;
    return so_far ? so_far : yk__error_raise(&b->error);
}
