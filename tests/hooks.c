/* yoke_with_hooks: the program, with hooks for tests. The linker replaces calls of some functions by those here (--wrap).
 *
 *     YK_SLOW_WORKER=INDEX:100ms   adds to the time of each gradient of a worker
 *     YK_SLOW_READ=BYTES           the rate, in bytes per second, at which each data file is read
 *     YK_EVIDENCE=FILE             the evidence of the last verdict is written to this file
 *     YK_SHIM=FILE                 a shell script that ranks execute first; "$@" is the command line of the rank
 *     YK_SYSFS=DIRECTORY           where NUMA nodes are listed, instead of /sys
 *     YK_KILL_SAVED=STEP           kills the process when a checkpoint of this step, or a later one, is complete
 *
 * and those of plan_hooks.c.
 */
#include "base/clock.h"
#include "base/numa.h"
#include "base/number.h"
#include "data/feed.h"
#include "evidence_json.h"
#include "model/model.h"
#include "train/checkpoint.h"
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

yk_status __real_yk_feed_next(yk_feed *f, int me, size_t max, yk_batch *out);
yk_status __wrap_yk_feed_next(yk_feed *f, int me, size_t max, yk_batch *out);
yk_status __real_yk_model_create(const char *name, const yk_model_shape *shape, yk_model **out);
yk_status __wrap_yk_model_create(const char *name, const yk_model_shape *shape, yk_model **out);
int __real_execv(const char *path, char *const *argv);
int __wrap_execv(const char *path, char *const *argv);
ssize_t __real_read(int fd, void *to, size_t n);
ssize_t __wrap_read(int fd, void *to, size_t n);
void __real_yk_verdict_find(const yk_evidence *e, yk_verdict *out);
void __wrap_yk_verdict_find(const yk_evidence *e, yk_verdict *out);
void __real_yk_numa_read(const char *sys, yk_numa *out);
void __wrap_yk_numa_read(const char *sys, yk_numa *out);
yk_status __real_yk_checkpoint_write(const char *run_dir, const char *model_text, const char *schema,
                                     const yk_model *m, const yk_checkpoint_arrays *a, const yk_keymap *remap,
                                     const yk_progress_state *p, char **out);
yk_status __wrap_yk_checkpoint_write(const char *run_dir, const char *model_text, const char *schema,
                                     const yk_model *m, const yk_checkpoint_arrays *a, const yk_keymap *remap,
                                     const yk_progress_state *p, char **out);

/* ---- a shim: what ranks do before they are this program ---- */

int __wrap_execv(const char *path, char *const *argv)
{
    enum { MAX = 64 };
    static char shell[] = "/bin/sh", self[4096];
    char *words[MAX + 4] = {shell, getenv("YK_SHIM"), self};
    if (!words[1] || readlink("/proc/self/exe", self, sizeof self - 1) < 0)
        return __real_execv(path, argv);
    for (int i = 1; i < MAX && argv[i]; i++)
        words[2 + i] = argv[i];
    return __real_execv(shell, words);
}

/* ---- a slow worker: its model sleeps after each gradient ---- */

static _Thread_local int worker = -1; /* of this thread */
static const yk_model_ops *usual;
static yk_model_ops slow;

yk_status __wrap_yk_feed_next(yk_feed *f, int me, size_t max, yk_batch *out)
{
    worker = me;
    return __real_yk_feed_next(f, me, max, out);
}

static void slow_grad(const yk_model *m, yk_workspace *w, const yk_view *v, const yk_batch *b, yk_grad *out)
{
    int slowed;
    double ms;
    usual->grad(m, w, v, b, out);
    if (sscanf(getenv("YK_SLOW_WORKER"), "%d:%lfms", &slowed, &ms) == 2 && worker == slowed)
        yk_sleep_ns((uint64_t)(ms * 1e6));
}

yk_status __wrap_yk_model_create(const char *name, const yk_model_shape *shape, yk_model **out)
{
    const yk_status st = __real_yk_model_create(name, shape, out);
    if (st || !getenv("YK_SLOW_WORKER"))
        return st;
    usual = (*out)->ops;
    slow = *usual;
    slow.grad = slow_grad;
    (*out)->ops = &slow;
    return YK_OK;
}

/* ---- a slow disk: data files are read in large pieces, all others in small ones ---- */

ssize_t __wrap_read(int fd, void *to, size_t n)
{
    enum { LARGE = 4096 };
    const double rate = yk_env_number("YK_SLOW_READ", 0.0), piece = rate / 20.0;
    if (!(rate > 0.0) || n < LARGE)
        return __real_read(fd, to, n);
    const ssize_t got = __real_read(fd, to, piece < 1.0 ? 1 : piece < (double)n ? (size_t)piece : n);
    if (got > 0)
        yk_sleep_ns((uint64_t)((double)got / rate * 1e9));
    return got;
}

/* ---- evidence ---- */

void __wrap_yk_verdict_find(const yk_evidence *e, yk_verdict *out)
{
    const char *path = getenv("YK_EVIDENCE");
    FILE *f = path ? fopen(path, "w") : NULL;
    yk_json j = {.indent = true};
    __real_yk_verdict_find(e, out);
    if (!f)
        return;
    evidence_json(&j, e);
    char *text = yk_json_take(&j);
    fprintf(f, "%s\n", text ? text : "");
    free(text);
    fclose(f);
}

/* ---- NUMA nodes ---- */

void __wrap_yk_numa_read(const char *sys, yk_numa *out)
{
    const char *given = getenv("YK_SYSFS");
    __real_yk_numa_read(given ? given : sys, out);
}

/* ---- a kill after a checkpoint ---- */

yk_status __wrap_yk_checkpoint_write(const char *run_dir, const char *model_text, const char *schema,
                                     const yk_model *m, const yk_checkpoint_arrays *a, const yk_keymap *remap,
                                     const yk_progress_state *p, char **out)
{
    const double step = yk_env_number("YK_KILL_SAVED", 0.0);
    const yk_status st = __real_yk_checkpoint_write(run_dir, model_text, schema, m, a, remap, p, out);
    if (!st && step > 0.0 && (double)p->step >= step)
        raise(SIGKILL);
    return st;
}
