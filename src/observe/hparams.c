/* The hyperparameters of a run, for TensorBoard's "HParams" tab, which has a row per run. */
#include "observe/observe_internal.h"

#include "base/number.h"
#include <math.h>
#include <stdlib.h>
#include <string.h>

enum { MAX = 96, TEXT = 512 };

typedef struct {
    yk_hyperparameter h[MAX];
    char text[MAX][TEXT];
    size_t n;
} list;

static bool has(const list *l, const char *name)
{
    for (size_t i = 0; i < l->n; i++)
        if (!strcmp(l->h[i].name, name))
            return true;
    return false;
}

static void add(list *l, const char *name, const char *text, double number)
{
    if (l->n < MAX && (text || isfinite(number)))
        l->h[l->n++] = (yk_hyperparameter){name, text, number};
}

/* TensorBoard takes the names of the columns from one of the runs, so all runs have these, even if the options were not given. */
static void add_common(const yk_observer *o, list *l)
{
    const yk_config *c = o->c.config;
    const yk_plan *p = o->c.plan;
    add(l, "model", c->model, NAN);
    add(l, "data", c->data, NAN);
    add(l, "mode", p->mode, NAN);
    if (o->c.optim) {
        add(l, "optimizer", yk_optim_rule_of(o->c.optim->kind)->name, NAN);
        add(l, "lr", NULL, o->c.optim->lr);
    }
    add(l, "batch", NULL, (double)p->batch);
    add(l, "global batch", NULL, (double)p->global_batch);
    add(l, "workers", NULL, p->workers);
    add(l, "processes", NULL, o->c.ranks);
    add(l, "servers", NULL, p->servers);
    add(l, "threads", NULL, p->threads);
    add(l, "seed", NULL, (double)c->seed);
}

yk_status yk__hparams_write(const yk_observer *o, yk_events *e)
{
    static const char *const metrics[] = {
        "test/accuracy", "test/auc", "test/loss", "train/mean_loss", "speed/examples_per_second", NULL};
    list *l = calloc(1, sizeof *l);
    if (!l)
        return yk_fail_memory(sizeof *l, "the hyperparameters");
    add_common(o, l);
    for (const yk_option *k = yk_options; k->name && l->n < MAX; k++) {
        if (!(k->flags & YK_OPT_CHANGES_RESULTS) || has(l, k->name))
            continue;
        const char *text = yk_config_changed(o->c.config, k, l->text[l->n]);
        double x;
        if (*text && yk_option_is_number(k) && !yk_number_real(text, -HUGE_VAL, HUGE_VAL, &x))
            text = NULL;
        if (!text || *text)
            add(l, k->name, text, x);
    }
    const yk_status st = yk_events_session_begin(e, l->h, l->n, metrics);
    free(l);
    return st;
}
