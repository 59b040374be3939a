#include "train/warm_start.h"

#include "base/log.h"
#include "train/checkpoint.h"
#include "train/checkpoint_dir.h"
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* ---- the shape of the checkpoint */

static yk_status check_model(const yk_config *c, const char *path, const char *name,
                             const yk_model_shape *shape)
{
    if (strcmp(name, c->model))
        return yk_fail(YK_EUSAGE,
                       "--warm-start: %s has the model '%s', but this run trains '%s': use the same --model",
                       path, name, c->model);
    if (shape->bias == c->no_bias)
        return yk_fail(YK_EUSAGE, "--warm-start: the model in %s has %s bias: %s --no-bias", path,
                       shape->bias ? "a" : "no", shape->bias ? "leave out" : "add");
    return YK_OK;
}

/* resumed: the checkpoint belongs to this run. */
static yk_status read_start(yk__start *s, const char *path, bool resumed)
{
    yk_checkpoint_info info;
    yk_status st = yk_checkpoint_describe(path, &info);
    if (st)
        return st;
    st = check_model(s->config, path, info.model, &info.shape);
    s->shape = info.shape;
    s->earlier = info.earlier + (resumed ? 0 : info.step);
    free(info.model);
    return st;
}

yk_status yk__warm_start_find(const yk_config *c, const yk_train_caller *caller, bool reads, yk__start *out)
{
    char *own = NULL;
    *out = (yk__start){.config = c, .caller = caller};
    if (yk__continues(caller))
        out->earlier = caller->start->steps;
    if (!c->warm_start || !reads)
        return YK_OK;
    if (caller->start)
        return yk_fail(YK_EUSAGE, "warm-start cannot be used with an initial model (start)");
    yk_status st = c->resume ? yk_checkpoint_find(c->out, &own) : YK_OK;
    if (!st && own)
        st = read_start(out, own, true);
    free(own);
    if (st || out->shape.dim)
        return st;
    st = yk__checkpoint_require("--warm-start ", c->warm_start, false, &out->path);
    return st ? st : read_start(out, out->path, false);
}

/* ---- hashed keys */

/* How to hash the keys as in that run. */
static void hashing_remedy(const yk__start *start, size_t dim, char out[160])
{
    const int64_t given = start->config->hash_bits;
    int bits = 1;
    while ((size_t)1 << bits < dim)
        bits++;
    if (start->caller->data)
        snprintf(out, 160, "train with the option hash-bits %d (in Python, hash_bits=%d; in C, with index64)",
                 bits, bits);
    else if (given)
        snprintf(out, 160, "start a new run: --hash-bits has no effect on this format");
    else
        snprintf(out, 160, "add --hash-bits %d", bits);
    const size_t n = strlen(out);
    if (!given && (size_t)1 << bits != dim)
        snprintf(out + n, 160 - n, " and --features %zu", dim);
}

/* The keys of the data are hashed. */
static yk_status check_hashed(const yk_config *c, const yk_source *s, const yk_model_shape *run,
                              const char *option, const char *name)
{
    if (run->not_hashed)
        return yk_fail(
            YK_EUSAGE, "%s: the keys of %s are hashed into %zu features, but those of %s were not hashed: %s",
            option, s->spec, s->dim, name, c->hash_bits ? "leave out --hash-bits" : "start a new run");
    if (s->dim != run->dim)
        return yk_fail(
            YK_EUSAGE,
            "%s: the keys of %s are hashed into %zu features, but those of %s into %zu: use the same "
            "--hash-bits or --features",
            option, s->spec, s->dim, name, run->dim);
    return YK_OK;
}

/* If the numbers of columns or fields are equal, no other check would notice that those of `run` and of the data are
 * different. `option` and `name` say where `run` comes from. */
static yk_status check_keys(const yk__start *start, const yk_dataset *train, const yk_model_shape *run,
                            const char *option, const char *name)
{
    const yk_source *s = train->source;
    if (run->kind != YK_ROWS_SPARSE || s->kind != YK_ROWS_SPARSE)
        return YK_OK;
    if (run->fields > 1 && train->fields > 1 && run->positional != train->positional)
        return yk_fail(YK_EDATA, "%s: the fields of %s are %s, but those of %s are %s", option, s->spec,
                       run->positional ? "field numbers" : "positions", name,
                       run->positional ? "positions" : "field numbers");
    if (s->hashed_into)
        return check_hashed(start->config, s, run, option, name);
    if (s->may_have_hashes || !run->hashed)
        return YK_OK;
    char remedy[160];
    hashing_remedy(start, run->dim, remedy);
    return yk_fail(YK_EUSAGE,
                   "%s: the keys of %s are not hashed, but those of %s were hashed into %zu features: %s",
                   option, s->spec, name, run->dim, remedy);
}

/* A cache does not record whether its columns are hashes, but the run that this one starts from may. */
void yk__warm_start_hashing(const yk__start *start, const yk_source *s, yk_model_shape *shape)
{
    const yk_trained *model = start->caller->start;
    const yk_model_shape *run = model ? &model->model->shape : &start->shape;
    if (!s)
        return;
    shape->hashed = s->hashed_into || (s->may_have_hashes && run->hashed);
    shape->not_hashed = !s->hashed_into && (s->may_have_hashes ? run->not_hashed : s->kind == YK_ROWS_SPARSE);
}

yk_status yk__warm_start_check(const yk__start *s, const yk_dataset *d)
{
    const yk_model_shape *run = &s->shape;
    const yk_config *c = s->config;
    const bool sparse = d->kind == YK_ROWS_SPARSE;
    if (s->caller->start)
        return check_keys(s, d, &s->caller->start->model->shape, "start", "the initial model");
    if (!run->dim) /* none, or not the chief */
        return YK_OK;
    const char *spec = d->source->spec;
    if (sparse != (run->kind == YK_ROWS_SPARSE) || (!sparse && d->dim && d->dim != run->dim))
        return yk_fail(
            YK_EDATA, "--warm-start: %s has %s rows with %zu columns, but %s was trained on %s rows with %zu",
            spec, sparse ? "sparse" : "dense", d->dim, c->warm_start,
            run->kind == YK_ROWS_SPARSE ? "sparse" : "dense", run->dim);
    yk_status st = check_keys(s, d, run, "--warm-start", c->warm_start);
    if (st)
        return st;
    if (c->features && (uint64_t)c->features < run->dim)
        return yk_fail(YK_EUSAGE, "--warm-start: %s has %zu features; --features %lld is too small",
                       c->warm_start, run->dim, (long long)c->features);
    if (d->classes > run->classes)
        return yk_fail(YK_EDATA, "--warm-start: %s has %u classes, but %s was trained on %u", spec,
                       d->classes, c->warm_start, run->classes);
    if (d->fields > run->fields)
        return yk_fail(YK_EDATA, "--warm-start: %s has %u fields, but %s was trained on %u", spec, d->fields,
                       c->warm_start, run->fields);
    return YK_OK;
}

/* ---- its parameters */

void yk__parameters_set(const yk_model *m, const yk_local_group *group, yk_local *store)
{
    for (int g = 0; g < m->ngroups; g++) { /* ftrl derives the weights from its state */
        const yk_optim_step o = yk_optim_at(&group[g].optim, 0);
        const yk_local_state raw = yk_local_raw(store, g);
        yk_optim_reconcile(yk_local_rule(store, g), &o, &raw.live, NULL, 0, yk_group_floats(&m->group[g]));
    }
    yk_local_restore(store, 0);
}

yk_status yk__warm_start_load(const yk__start *s, const yk_model *m, const yk_local_group *group,
                              yk_local *store, const yk_keymap *remap)
{
    yk_status st = s->path ? yk_checkpoint_warm_start(s->path, m, store, remap) : YK_OK;
    if (st)
        return yk_fail(st, "--warm-start: %s", yk_error());
    if (s->path && yk__is_model_file(s->path))
        yk__parameters_set(m, group, store);
    return YK_OK;
}

void yk__warm_start_print(const yk__start *s, const yk_model *m)
{
    if (!s->path)
        return;
    yk_note("starting with the parameters of %s%s", s->path,
            yk__is_model_file(s->path) ? " (it has no optimizer state)" : "");
    if (m->sparse && m->shape.dim > s->shape.dim) {
        const size_t added = m->shape.dim - s->shape.dim;
        yk_note("%zu feature%s new", added, added == 1 ? " is" : "s are");
    }
}
