/* --warm-start: a run begins with the parameters and the optimizer state of another run.
 *
 * The chief reads the checkpoint. Its shape is a part of the shape of the data (cluster.c): the model has all features of
 * the earlier run, and possibly new ones. Keys of keyed groups are copied one by one, because a bias comes after the last
 * feature:
 *
 *     earlier run    | 0 1 2 ... 999 | bias |
 *     this run       | 0 1 2 ... 999 | 1000 ... 1199 | bias |          1000 to 1199: initial values
 *
 * A checkpoint of this run has everything that is needed to resume it; the earlier run may be gone by then.
 */
#include "train/setup.h"

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

/* Models without a schema, as yoke 0.2 wrote them, have the number of features that keys were hashed into. */
static uint64_t hashed_features(const yk_model_shape *shape)
{
    return shape->kind == YK_ROWS_SPARSE && shape->hashed ? shape->dim : 0;
}

/* own: the checkpoint belongs to this run, or to the job that this process joins. */
static yk_status read_start(yk__trainer *t, const char *path, bool own)
{
    yk__warm_start *s = &t->start;
    yk_checkpoint_info info;
    yk_status st = yk_checkpoint_describe(path, &info);
    t->schema = info.schema;
    s->features = hashed_features(&info.shape);
    s->net = info.shape.net;
    s->found = !st;
    if (!st && t->config->warm_start) {
        st = check_model(t->config, path, info.model, &info.shape);
        s->shape = info.shape;
        s->earlier = info.earlier + (own ? 0 : info.step);
    }
    free(info.model);
    return st;
}

/* The checkpoint of this run, or of the job; NULL: none. Warnings about damaged ones follow when it is loaded. */
static yk_status find_own(const yk_config *c, char **path_out)
{
    const yk_log *log = yk_log_get();
    const char *dir = c->resume ? c->out : c->join;
    *path_out = NULL;
    yk_log_set(NULL);
    const yk_status st = dir ? yk_checkpoint_find(dir, path_out) : YK_OK;
    yk_log_set(log);
    return st;
}

yk_status yk__warm_start_find(yk__trainer *t)
{
    const yk_config *c = t->config;
    const yk_trained *model = t->caller->start;
    char *own = NULL;
    if (yk__continues(t->caller))
        t->start.earlier = model->steps;
    if (model && c->warm_start)
        return yk_fail(YK_EUSAGE, "warm-start cannot be used with an initial model (start)");
    if (model) {
        t->start.features = model->schema ? 0 : hashed_features(&model->model->shape);
        return YK_OK;
    }
    yk_status st = find_own(c, &own);
    if (!st && own)
        st = read_start(t, own, true);
    else if (!st && c->warm_start &&
             !(st = yk__checkpoint_require("--warm-start ", c->warm_start, false, &t->start.path)))
        st = read_start(t, t->start.path, false);
    free(own);
    return st;
}

/* ---- hashed keys */

/* How to hash the keys as in that run. */
static void hashing_remedy(const yk__trainer *t, size_t dim, char out[160])
{
    const int64_t given = t->config->hash_bits;
    int bits = 1;
    while ((size_t)1 << bits < dim)
        bits++;
    if (t->caller->data)
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
static yk_status check_keys(const yk__trainer *t, const yk_model_shape *run, const char *option,
                            const char *name)
{
    const yk_dataset *train = &t->train;
    const yk_source *s = train->source;
    if (run->kind != YK_ROWS_SPARSE || s->kind != YK_ROWS_SPARSE)
        return YK_OK;
    if (run->fields > 1 && train->fields > 1 && run->positional != train->positional)
        return yk_fail(YK_EDATA, "%s: the fields of %s are %s, but those of %s are %s", option, s->spec,
                       run->positional ? "field numbers" : "positions", name,
                       run->positional ? "positions" : "field numbers");
    if (s->hashed_into)
        return check_hashed(t->config, s, run, option, name);
    if (s->may_have_hashes || !run->hashed)
        return YK_OK;
    char remedy[160];
    hashing_remedy(t, run->dim, remedy);
    return yk_fail(YK_EUSAGE,
                   "%s: the keys of %s are not hashed, but those of %s were hashed into %zu features: %s",
                   option, s->spec, name, run->dim, remedy);
}

/* A cache does not record whether its columns are hashes, but the run that this one starts from may. */
void yk__warm_start_hashing(const yk__trainer *t, yk_model_shape *shape)
{
    const yk_trained *model = t->caller->start;
    const yk_model_shape *run = model ? &model->model->shape : &t->start.shape;
    const yk_source *s = t->train.source;
    if (!s) /* a server, which does not need it */
        return;
    shape->hashed = s->hashed_into || (s->may_have_hashes && run->hashed);
    shape->not_hashed = !s->hashed_into && (s->may_have_hashes ? run->not_hashed : s->kind == YK_ROWS_SPARSE);
}

yk_status yk__warm_start_check(const yk__trainer *t)
{
    const yk_model_shape *run = &t->start.shape;
    const yk_config *c = t->config;
    const yk_dataset *d = &t->train;
    const bool sparse = d->kind == YK_ROWS_SPARSE;
    if (t->caller->start)
        return check_keys(t, &t->caller->start->model->shape, "start", "the initial model");
    if (!run->dim) /* none, or not the chief */
        return YK_OK;
    const char *spec = d->source->spec;
    if (sparse != (run->kind == YK_ROWS_SPARSE) || (!sparse && d->dim && d->dim != run->dim))
        return yk_fail(
            YK_EDATA, "--warm-start: %s has %s rows with %zu columns, but %s was trained on %s rows with %zu",
            spec, sparse ? "sparse" : "dense", d->dim, c->warm_start,
            run->kind == YK_ROWS_SPARSE ? "sparse" : "dense", run->dim);
    yk_status st = check_keys(t, run, "--warm-start", c->warm_start);
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
        yk_optim_reconcile(raw.rule, &o, &raw.live, NULL, 0, yk_group_floats(&m->group[g]));
    }
    yk_local_restore(store, 0);
}

yk_status yk__warm_start_load(const yk__trainer *t, const yk_local_group *group, yk_local *store, bool print)
{
    const yk__warm_start *s = &t->start;
    if (!s->path)
        return YK_OK;
    const yk_status st = yk_checkpoint_load(s->path, t->model, store, t->remap, NULL);
    if (st)
        return yk_fail(st, "--warm-start: %s", yk_error());
    const bool stateless = yk__is_model_file(s->path);
    const size_t dim = t->model->shape.dim, added = dim - s->shape.dim;
    if (stateless)
        yk__parameters_set(t->model, group, store);
    if (print)
        yk_note("starting with the parameters of %s%s", s->path,
                stateless ? " (it has no optimizer state)" : "");
    if (print && t->model->sparse && dim > s->shape.dim)
        yk_note("%zu feature%s new", added, added == 1 ? " is" : "s are");
    return YK_OK;
}
