#include "train/checkpoint.h"

#include "base/mem.h"
#include "base/number.h"
#include "format/safetensors.h"
#include "train/checkpoint_dir.h"
#include "train/trained.h"
#include <inttypes.h>
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

void yk_checkpoint_arrays_of(yk_local *store, yk_checkpoint_arrays *out)
{
    const int groups = yk_local_groups(store);
    out->n = 0;
    out->optimizer = yk_local_rule(store, 0)->name;
    for (int g = 0; g < groups; g++)
        add_array(out, yk_local_group_of(store, g), g == 0, NULL, yk_local_table(store, g).w, YK_DTYPE_F32);
    for (int g = 0; g < groups; g++) {
        const yk_group *group = yk_local_group_of(store, g);
        const yk_local_state raw = yk_local_raw(store, g);
        const yk_optim_rule *rule = yk_local_rule(store, g);
        for (int i = 0; i < rule->slots; i++)
            add_array(out, group, g == 0, rule->slot_name[i], raw.live.s[i], YK_DTYPE_F32);
        if (raw.touched) { /* weights before pending decay is applied; the model file has them after it */
            add_array(out, group, g == 0, "raw_weights", raw.live.w, YK_DTYPE_F32);
            add_array(out, group, g == 0, "touched", raw.touched, YK_DTYPE_U32); /* remapped like floats */
        }
    }
}

static yk_tensor vector(const char *name, yk_dtype dtype, size_t n, const void *data)
{
    return (yk_tensor){.name = name, .dtype = dtype, .rank = 1, .shape = {n}, .data = data};
}

static yk_status save_state(const char *run_dir, const yk_checkpoint_arrays *a, const yk_progress_state *p)
{
    yk_tensor t[YK_CHECKPOINT_ARRAYS + 4];
    size_t n = 0;
    for (size_t i = 0; i < a->n; i++)
        if (*a->array[i].name)
            t[n++] = vector(a->array[i].name, a->array[i].dtype, a->array[i].size, a->array[i].data);
    const uint64_t counters[] = {p->step, p->epoch, p->examples, p->period_examples};
    const uint64_t late[] = {p->late, p->late_examples};
    const double sums[] = {p->period_loss, p->seconds};
    t[n] = vector("counters", YK_DTYPE_U64, 4, counters);
    t[n + 1] = vector("sums", YK_DTYPE_F64, 2, sums);
    t[n + 2] = vector("place", YK_DTYPE_U64, p->ncursor, p->cursor);
    t[n + 3] = vector("late", YK_DTYPE_U64, 2, late);
    const yk_pair meta[] = {
        {"format_version", TEXT(YK__MODEL_FORMAT)}, {"optimizer", a->optimizer}, {"yoke", YK_VERSION}};
    return yk_safetensors_write(run_dir, YK__SAVING "/" YK__STATE_FILE, t, n + 4, meta, 3);
}

typedef yk_status remapping(const yk_keymap *keymap, float *array, size_t width);

static yk_status remap(const yk_checkpoint_array *a, const yk_keymap *keymap, remapping *by)
{
    return keymap && a->group->keyed ? by(keymap, a->data, a->group->width) : YK_OK;
}

static yk_status remap_all(const yk_checkpoint_arrays *a, const yk_keymap *keymap, remapping *by)
{
    yk_status st = YK_OK;
    for (size_t i = 0; !st && i < a->n; i++)
        st = remap(&a->array[i], keymap, by);
    return st;
}

yk_status yk_checkpoint_write(const char *run_dir, const char *model_name, const yk_model *m,
                              const yk_checkpoint_arrays *arrays, const yk_keymap *keymap,
                              const yk_progress_state *progress, char **path_out)
{
    yk_status st = remap_all(arrays, keymap, yk_keymap_restore);
    if (st || (st = yk__checkpoint_begin(run_dir)))
        return st;
    float *params[YK_MAX_GROUPS];
    for (int g = 0; g < m->ngroups; g++)
        params[g] = arrays->array[g].data;
    st = yk__model_write(run_dir, YK__SAVING "/" YK__MODEL_FILE, model_name, m, params, progress->step);
    if (!st)
        st = save_state(run_dir, arrays, progress);
    return yk__checkpoint_end(run_dir, progress->step, st, path_out);
}

/* Remaps the arrays in place: there may be no memory for a second copy of 33 million weights. */
yk_status yk_checkpoint_save(const char *run_dir, const char *model_name, const yk_model *m, yk_local *store,
                             const yk_keymap *keymap, const yk_progress_state *progress, char **path_out)
{
    yk_checkpoint_arrays a;
    yk_checkpoint_arrays_of(store, &a);
    yk_status st = yk_checkpoint_write(run_dir, model_name, m, &a, keymap, progress, path_out);
    yk_status back = st ? YK_OK : remap_all(&a, keymap, yk_keymap_apply); /* after a failure, the run ends */
    return st ? st : back;
}

/* ---- loading ---- */

/* On failure *out is NULL. */
static yk_status open_file(const char *folder, const char *name, yk_safetensors **out)
{
    char *path = yk__path("%s/%s", folder, name);
    yk_status st = path ? yk_safetensors_open(path, out) : YK_ESYSTEM;
    if (!st && (st = yk__model_check_format(path, *out))) {
        yk_safetensors_free(*out);
        *out = NULL;
    }
    free(path);
    return st;
}

static yk_status read_progress(const yk_safetensors *s, yk_progress_state *p)
{
    const yk_tensor *counters, *sums, *cursor = yk_safetensors_find(s, "place"),
                                      *late = yk_safetensors_find(s, "late"); /* NULL in files of 0.1.0 */
    yk_status st = yk_safetensors_need(s, "counters", YK_DTYPE_U64, 1, (uint64_t[]){4}, &counters);
    if (!st)
        st = yk_safetensors_need(s, "sums", YK_DTYPE_F64, 1, (uint64_t[]){2}, &sums);
    if (st)
        return st;
    if (!cursor || cursor->dtype != YK_DTYPE_U64 || cursor->rank != 1)
        return yk_fail(YK_EDATA, "the checkpoint has no data cursor");
    uint64_t c[4];
    double d[2];
    memcpy(c, counters->data, sizeof c);
    memcpy(d, sums->data, sizeof d);
    *p = (yk_progress_state){.step = c[0],
                             .epoch = c[1],
                             .examples = c[2],
                             .period_examples = c[3],
                             .period_loss = d[0],
                             .seconds = d[1],
                             .ncursor = cursor->shape[0]};
    if (late && late->dtype == YK_DTYPE_U64 && late->bytes == 2 * sizeof p->late) {
        memcpy(&p->late, late->data, sizeof p->late);
        memcpy(&p->late_examples, (const char *)late->data + sizeof p->late, sizeof p->late_examples);
    }
    p->cursor = malloc(cursor->bytes + 1);
    if (!p->cursor)
        return yk_fail_memory(cursor->bytes, "the data cursor");
    memcpy(p->cursor, cursor->data, cursor->bytes);
    return YK_OK;
}

yk_status yk_checkpoint_load(const char *path, const yk_model *m, yk_local *store, const yk_keymap *keymap,
                             yk_progress_state *progress)
{
    yk_safetensors *model = NULL, *state = NULL;
    *progress = (yk_progress_state){0};
    yk_status st = open_file(path, YK__MODEL_FILE, &model);
    if (!st)
        st = open_file(path, YK__STATE_FILE, &state);
    float *params[YK_MAX_GROUPS] = {0};
    for (int g = 0; g < yk_local_groups(store); g++)
        params[g] = yk_local_raw(store, g).live.w;
    if (!st)
        st = yk__model_read(model, m, params);
    yk_checkpoint_arrays all;
    yk_checkpoint_arrays_of(store, &all);
    for (size_t i = 0; !st && i < all.n; i++) {
        const yk_checkpoint_array *a = &all.array[i];
        const yk_tensor *t;
        if (!*a->name) /* weights: in the model file, unless decay is pending */
            continue;
        st = yk_safetensors_need(state, a->name, a->dtype, 1, (uint64_t[]){a->size}, &t);
        if (st)
            yk_fail(st, "%s; the run may have other options than the checkpoint (--optimizer, --l2)",
                    yk_error());
        else
            memcpy(a->data, t->data, a->size * sizeof(float));
    }
    for (size_t i = 0; !st && i < all.n; i++)
        if (*all.array[i].name || !yk_local_raw(store, (int)i).touched)
            st = remap(&all.array[i], keymap, yk_keymap_apply);
    if (!st)
        st = read_progress(state, progress);
    if (!st)
        yk_local_restore(store, progress->step);
    yk_safetensors_free(model);
    yk_safetensors_free(state);
    return st;
}
