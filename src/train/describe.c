/* A run in numbers before it begins (--dry-run) and after it has ended (--profile). */
#include "train/trainer.h"

#include <stdlib.h>

yk_status yk__describe(yk__trainer *t)
{
    yk_description *d = calloc(1, sizeof *d);
    if (!d)
        return yk_fail_memory(sizeof *d, "a description");
    t->result->description = d;
    const yk_optim_rule *rule = yk_optim_rule_of(t->optim.kind);
    d->nlines = yk_model_describe(t->model, yk__most_batch(t), d->line, YK_MAX_LINES);
    for (int i = 0; i < d->nlines; i++) {
        d->params += d->line[i].params;
        d->flops += d->line[i].flops;
        d->flops_back += d->line[i].flops_back;
        d->activation_bytes += d->line[i].bytes;
    }
    d->optimizer = rule->name;
    d->batch = t->batch;
    d->workers = t->workers;
    d->examples = t->train.examples;
    d->weight_bytes = t->model->nparams * sizeof(float);
    d->gradient_bytes = t->model->sparse ? 0 : d->weight_bytes;
    d->state_bytes = d->weight_bytes * (size_t)rule->slots;
    return YK_OK;
}

static int by_falling_time(const void *a, const void *b)
{
    const yk_profile_line *x = a, *y = b;
    return x->seconds > y->seconds ? -1 : x->seconds < y->seconds;
}

yk_status yk__profile_take(yk__trainer *t)
{
    if (!t->config->profile || !t->model->ops->profile)
        return YK_OK;
    yk_profile *p = calloc(1, sizeof *p);
    if (!p)
        return yk_fail_memory(sizeof *p, "a profile");
    t->result->profile = p;
    p->nlines = t->model->ops->profile(t->trainee[0].work, p->line, YK_MAX_PROFILE_LINES);
    p->threads = t->model->shape.threads;
    p->peak = t->peak;
    p->train_seconds = t->result->train_seconds;
    qsort(p->line, (size_t)p->nlines, sizeof *p->line, by_falling_time);
    return YK_OK;
}
