#include "train/checkpoint.h"

#include "format/safetensors.h"
#include "train/checkpoint_dir.h"
#include "train/trained.h"
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define TEXT_(x) #x
#define TEXT(x)  TEXT_(x)

/* ---- saving ---- */

/* An array in state.safetensors has the name of the optimizer's state; in all groups but the first one, prefixed by the
 * name of the group. */
static void add_array(yk_checkpoint_arrays *a, const yk_group *g, bool first, const char *name, void *data,
                      yk_dtype dtype)
{
    yk_checkpoint_array *to = &a->array[a->n++];
    *to = (yk_checkpoint_array){.dtype = dtype, .data = data, .size = yk_group_floats(g), .group = g};
    if (name)
        snprintf(to->name, sizeof to->name, "%s%s%s", first ? "" : g->name, first ? "" : ".", name);
}

/* As in --optimizer; each group by name if keyed groups have different optimizers. A dense group is the last group. */
static void name_optimizers(const yk_local *store, char *out, size_t size)
{
    const int last = yk_local_groups(store) - 1;
    const char *const first_name = yk_local_raw(store, 0).rule->name;
    bool by_name = false, differs = false;
    for (int g = 1; g <= last; g++) {
        const yk_local_state raw = yk_local_raw(store, g);
        const bool other = strcmp(raw.rule->name, first_name) != 0;
        differs |= other;
        by_name |= other && raw.shape->keyed;
    }
    snprintf(out, size, "%s", differs ? "" : first_name);
    for (int g = 0; by_name && g <= last; g++)
        snprintf(out + strlen(out), size - strlen(out), "%s%s=%s", g ? "," : "",
                 yk_local_raw(store, g).shape->name, yk_local_raw(store, g).rule->name);
    if (differs && !by_name)
        snprintf(out, size, "keyed=%s,dense=%s", first_name, yk_local_raw(store, last).rule->name);
}

void yk_checkpoint_arrays_of(yk_local *store, yk_checkpoint_arrays *out, bool decayed)
{
    const int groups = yk_local_groups(store);
    out->n = 0;
    name_optimizers(store, out->optimizer, sizeof out->optimizer);
    for (int g = 0; g < groups; g++)
        add_array(out, yk_local_raw(store, g).shape, g == 0, NULL,
                  decayed ? yk_local_table(store, g).w : yk_local_raw(store, g).live.w, YK_DTYPE_F32);
    for (int g = 0; g < groups; g++) {
        const yk_local_state raw = yk_local_raw(store, g);
        for (int i = 0; i < raw.rule->slots; i++)
            add_array(out, raw.shape, g == 0, raw.rule->slot_name[i], raw.live.s[i], YK_DTYPE_F32);
        if (raw.touched) { /* weights before pending decay is applied; the model file has them after it */
            add_array(out, raw.shape, g == 0, "raw_weights", raw.live.w, YK_DTYPE_F32);
            add_array(out, raw.shape, g == 0, "touched", raw.touched,
                      YK_DTYPE_U32); /* remapped like floats */
            out->array[out->n - 2].decay = out->array[out->n - 1].decay = true;
        }
    }
}

static yk_tensor vector(const char *name, yk_dtype dtype, size_t n, const void *data)
{
    return (yk_tensor){.name = name, .dtype = dtype, .rank = 1, .shape = {n}, .data = data};
}

/* The numbers of a run in state.safetensors: arrays of 8-byte values, and where each of them is in yk_progress_state. */
enum { MAX_NUMBERS = 12 };

#define AT(field) offsetof(yk_progress_state, field)

static const struct numbers {
    const char *name;
    bool needed; /* others are left out if all are 0; files of 0.1.0 do not have all of them */
    yk_dtype dtype;
    size_t n, at[MAX_NUMBERS];
} all_numbers[] = {
    {"counters", true, YK_DTYPE_U64, 4, {AT(step), AT(epoch), AT(examples), AT(period_examples)}},
    {"sums", true, YK_DTYPE_F64, 2, {AT(period_loss), AT(seconds)}},
    {"extra_weight", false, YK_DTYPE_F64, 1, {AT(period_extra_weight)}},
    {"late", false, YK_DTYPE_U64, 2, {AT(late), AT(late_examples)}},
    {"earlier", false, YK_DTYPE_U64, 1, {AT(earlier)}},
    {"data_examples", false, YK_DTYPE_U64, 1, {AT(data_examples)}},
    {"best_counters",
     false,
     YK_DTYPE_U64,
     6,
     {AT(best.step), AT(best.waited), AT(best.validation.examples), AT(best.test.examples),
      AT(best.lr_waited), AT(best.reductions)}},
    {"best_scores",
     false,
     YK_DTYPE_F64,
     12,
     {AT(best.mark), AT(best.best), AT(best.validation.weight), AT(best.validation.loss),
      AT(best.validation.accuracy), AT(best.validation.majority_accuracy), AT(best.validation.auc),
      AT(best.test.weight), AT(best.test.loss), AT(best.test.accuracy), AT(best.test.majority_accuracy),
      AT(best.test.auc)}}};

enum { NUMBERS = sizeof all_numbers / sizeof *all_numbers };

static yk_status save_state(const char *run_dir, const yk_checkpoint_arrays *a, const yk_progress_state *p)
{
    yk_tensor t[YK_CHECKPOINT_ARRAYS + NUMBERS + 1];
    size_t n = 0;
    for (size_t i = 0; i < a->n; i++)
        if (*a->array[i].name)
            t[n++] = vector(a->array[i].name, a->array[i].dtype, a->array[i].size, a->array[i].data);
    uint64_t value[NUMBERS][MAX_NUMBERS]; /* or doubles */
    for (size_t i = 0; i < NUMBERS; i++) {
        const struct numbers *from = &all_numbers[i];
        bool any = from->needed;
        for (size_t k = 0; k < from->n; k++) {
            memcpy(&value[i][k], (const char *)p + from->at[k], sizeof value[i][k]);
            any |= value[i][k] != 0;
        }
        if (any)
            t[n++] = vector(from->name, from->dtype, from->n, value[i]);
    }
    t[n++] = vector("place", YK_DTYPE_U64, p->ncursor, p->cursor);
    const yk_pair meta[] = {{"format_version", TEXT(YK__MODEL_FORMAT)},
                            {"optimizer", a->optimizer},
                            {"yoke", YK_VERSION},
                            {"monitor", p->best.monitor}};
    return yk_safetensors_write(run_dir, YK__SAVING "/" YK__STATE_FILE, t, n, meta, p->best.step ? 4 : 3);
}

static yk_status remap(const yk_checkpoint_array *a, const yk_keymap *keymap, bool to_keys)
{
    return keymap && a->group->keyed ? yk_keymap_move(keymap, a->data, a->group->width, to_keys) : YK_OK;
}

yk_status yk_checkpoint_remap(const yk_checkpoint_arrays *a, const yk_keymap *keymap, bool to_keys)
{
    yk_status st = YK_OK;
    for (size_t i = 0; !st && i < a->n; i++)
        st = remap(&a->array[i], keymap, to_keys);
    return st;
}

yk_status yk_checkpoint_write(const char *run_dir, const char *model_name, const char *schema,
                              const yk_model *m, const yk_checkpoint_arrays *arrays, const yk_keymap *keymap,
                              const yk_progress_state *progress, char **path_out)
{
    yk_status st = yk_checkpoint_remap(arrays, keymap, true);
    if (st || (st = yk__checkpoint_begin(run_dir)))
        return st;
    float *params[YK_MAX_GROUPS];
    for (int g = 0; g < m->ngroups; g++)
        params[g] = arrays->array[g].data;
    st = yk__model_write(run_dir, YK__SAVING "/" YK__MODEL_FILE, model_name, schema, m, params,
                         progress->step);
    if (!st)
        st = save_state(run_dir, arrays, progress);
    return yk__checkpoint_end(run_dir, progress->step, progress->best.step, st, path_out);
}

/* ---- loading ---- */

typedef struct {
    yk_safetensors *model, *state; /* state: NULL if the path is that of a model file */
} files;

/* close_files() even after an error. */
static yk_status open_files(const char *path, files *out)
{
    *out = (files){0};
    if (yk__is_model_file(path))
        return yk__model_open(path, &out->model);
    yk_status st = yk__model_open(yk_path_of("%s/" YK__MODEL_FILE, path).s, &out->model);
    return st ? st : yk__model_open(yk_path_of("%s/" YK__STATE_FILE, path).s, &out->state);
}

static void close_files(files *f)
{
    yk_safetensors_free(f->model);
    yk_safetensors_free(f->state);
}

static yk_status read_numbers(const yk_safetensors *s, const struct numbers *to, yk_progress_state *p)
{
    const yk_tensor *t;
    if (!to->needed && !yk_safetensors_find(s, to->name))
        return YK_OK;
    yk_status st = yk_safetensors_need(s, to->name, to->dtype, 1, (uint64_t[]){to->n}, &t);
    for (size_t k = 0; !st && k < to->n; k++) {
        uint64_t value;
        memcpy(&value, (const char *)t->data + k * sizeof value, sizeof value);
        if (to->dtype == YK_DTYPE_U64 && value > UINT64_MAX / 4) /* sums of counters must not overflow */
            return yk_fail(YK_EDATA, "the counters of the checkpoint are damaged: %llu steps or examples",
                           (unsigned long long)value);
        memcpy((char *)p + to->at[k], &value, sizeof value);
    }
    return st;
}

/* The caller frees p->cursor. */
static yk_status read_progress(const yk_safetensors *s, yk_progress_state *p)
{
    const yk_tensor *cursor = yk_safetensors_find(s, "place");
    const char *monitor = yk_safetensors_meta(s, "monitor");
    yk_status st = YK_OK;
    *p = (yk_progress_state){0};
    snprintf(p->best.monitor, sizeof p->best.monitor, "%s", monitor ? monitor : "");
    for (size_t i = 0; !st && i < NUMBERS; i++)
        st = read_numbers(s, &all_numbers[i], p);
    if (st)
        return st;
    if (!cursor || cursor->dtype != YK_DTYPE_U64 || cursor->rank != 1 || !cursor->shape[0])
        return yk_fail(YK_EDATA, "the checkpoint has no data cursor");
    if (p->best.reductions > YK_MAX_REDUCTIONS)
        p->best.reductions = YK_MAX_REDUCTIONS;
    if (!(p->cursor = malloc(cursor->bytes + 1)))
        return yk_fail_memory(cursor->bytes, "the data cursor");
    memcpy(p->cursor, cursor->data, cursor->bytes);
    p->ncursor = cursor->shape[0];
    return YK_OK;
}

/* Copies the keys of a group, in the order of the data, from one that may have fewer features. A key after the features (a bias) stays
 * after them. */
static void copy_keys(const yk_group *g, size_t dim, size_t old_dim, const float *from, float *to)
{
    const size_t all = yk_group_floats(g), added = g->keyed ? (dim - old_dim) * g->width : 0,
                 first = added ? old_dim * g->width : all;
    memcpy(to, from, first * sizeof *to);
    memcpy(to + first + added, from + first, (all - first - added) * sizeof *to);
}

/* The weights, from a model file with fewer features. */
static yk_status read_old_weights(const char *path, const yk_safetensors *file, const yk_model *m,
                                  float *const *params)
{
    yk_trained *old;
    const yk_status st = yk__trained_read(path, file, &old);
    if (st)
        return st;
    for (int g = 0; g < m->ngroups; g++)
        copy_keys(&m->group[g], m->shape.dim, old->model->shape.dim,
                  old->params + yk_model_group_offset(old->model, g), params[g]);
    yk_trained_release(old);
    return YK_OK;
}

static yk_status read_state(const yk_safetensors *file, size_t dim, size_t old_dim,
                            const yk_checkpoint_array *a)
{
    const size_t added = a->group->keyed ? (dim - old_dim) * a->group->width : 0;
    const yk_tensor *t;
    yk_status st = yk_safetensors_need(file, a->name, a->dtype, 1, (uint64_t[]){a->size - added}, &t);
    if (!st)
        copy_keys(a->group, dim, old_dim, t->data, a->data);
    return st;
}

/* Fills the arrays of the store. old_dim: the features of the checkpoint, which may be fewer than those of `m`. `decay`: whether to
 * fill those of pending decay, too. */
static yk_status read_arrays(const char *path, const files *f, const yk_model *m, size_t old_dim,
                             yk_local *store, const yk_keymap *keymap, bool decay)
{
    const bool grown = old_dim != m->shape.dim;
    yk_checkpoint_arrays all;
    float *params[YK_MAX_GROUPS] = {0};
    yk_status st = YK_OK;
    yk_checkpoint_arrays_of(store, &all, false);
    for (int g = 0; !st && g < m->ngroups; g++) {
        params[g] = all.array[g].data;
        if (grown) /* initial values of new features */
            st = remap(&all.array[g], keymap, true);
    }
    if (!st)
        st = grown ? read_old_weights(path, f->model, m, params) : yk__model_read(f->model, m, params);
    for (size_t i = 0; !st && i < all.n; i++) { /* raw_weights replace those of the model file */
        const yk_checkpoint_array *a = &all.array[i];
        if (a->decay && !decay)
            continue;
        if (*a->name && f->state && (st = read_state(f->state, m->shape.dim, old_dim, a)))
            return yk_fail(
                st, "%s; the options of the run may differ from those of the checkpoint (--optimizer, --l2)",
                yk_error());
        st = remap(a, keymap, false);
    }
    return st;
}

/* state: NULL: of a model file. */
static yk_status check_optimizer(const char *path, const yk_safetensors *state, yk_local *store)
{
    char is[YK_OPTIMIZER_NAMES];
    const char *was = state ? yk_safetensors_meta(state, "optimizer") : NULL;
    name_optimizers(store, is, sizeof is);
    if (!was || !strcmp(was, is))
        return YK_OK;
    return yk_fail(YK_EUSAGE, "%s has the state of the optimizer %s, not of %s: use --optimizer %s", path,
                   was, is, was);
}

yk_status yk_checkpoint_load(const char *path, const yk_model *m, yk_local *store, const yk_keymap *keymap,
                             yk_progress_state *progress)
{
    files f;
    const char *name;
    yk_model_shape shape = m->shape;
    if (progress)
        *progress = (yk_progress_state){0};
    yk_status st = open_files(path, &f);
    if (!st && !progress)
        st = yk__model_info(path, f.model, &name, &shape);
    if (!st)
        st = check_optimizer(path, f.state, store);
    if (!st)
        st = read_arrays(path, &f, m, shape.dim, store, keymap, progress);
    if (!st && progress)
        st = read_progress(f.state, progress);
    if (!st)
        yk_local_restore(store, progress ? progress->step : 0);
    close_files(&f);
    return st;
}

yk_status yk_checkpoint_describe(const char *path, yk_checkpoint_info *out)
{
    files f;
    yk_progress_state p = {0};
    const char *name;
    *out = (yk_checkpoint_info){0};
    yk_status st = open_files(path, &f);
    if (!st)
        st = yk__model_info(path, f.model, &name, &out->shape);
    if (!st && f.state)
        st = read_progress(f.state, &p);
    if (!st && !(out->model = strdup(name)))
        st = yk_fail_memory(strlen(name), "the name of a model");
    if (!st)
        st = yk__model_schema(path, f.model, &out->schema);
    out->step = p.step;
    out->earlier = p.earlier;
    free(p.cursor);
    close_files(&f);
    return st;
}
