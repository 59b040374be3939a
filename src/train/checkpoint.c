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

enum { MAX_ARRAYS = YK_MAX_GROUPS * (2 + YK_MAX_SLOTS), NAME = 48 };

#define TEXT_(x) #x
#define TEXT(x)  TEXT_(x)

/* ---- saving ---- */

/* An array of the store in state.safetensors. It has the name of the optimizer's state; in all groups but the first one,
 * prefixed by the name of the group. */
typedef struct {
    char name[NAME];
    yk_dtype dtype;
    float *data;
    size_t size;
    const yk_group *group;
} array;

static void add_array(array *a, size_t *n, const yk_group *g, bool first, const char *name, void *data,
                      yk_dtype dtype)
{
    array *to = &a[(*n)++];
    *to = (array){.dtype = dtype, .data = data, .size = yk_group_floats(g), .group = g};
    snprintf(to->name, sizeof to->name, "%s%s%s", first ? "" : g->name, first ? "" : ".", name);
}

static size_t state_arrays(yk_local *store, array a[static MAX_ARRAYS])
{
    size_t n = 0;
    for (int g = 0; g < yk_local_groups(store); g++) {
        const yk_group *group = yk_local_group_of(store, g);
        const yk_local_state raw = yk_local_raw(store, g);
        const yk_optim_rule *rule = yk_local_rule(store, g);
        for (int i = 0; i < rule->slots; i++)
            add_array(a, &n, group, g == 0, rule->slot_name[i], raw.live.s[i], YK_DTYPE_F32);
        if (raw.touched) { /* weights before pending decay is applied; the model file has them after it */
            add_array(a, &n, group, g == 0, "raw_weights", raw.live.w, YK_DTYPE_F32);
            add_array(a, &n, group, g == 0, "touched", raw.touched, YK_DTYPE_U32); /* remapped like floats */
        }
    }
    return n;
}

static yk_tensor vector(const char *name, yk_dtype dtype, size_t n, const void *data)
{
    return (yk_tensor){.name = name, .dtype = dtype, .rank = 1, .shape = {n}, .data = data};
}

static yk_status save_state(const char *run_dir, yk_local *store, const yk_progress_state *p)
{
    yk_tensor t[MAX_ARRAYS + 4];
    array a[MAX_ARRAYS];
    const size_t n = state_arrays(store, a);
    for (size_t i = 0; i < n; i++)
        t[i] = vector(a[i].name, a[i].dtype, a[i].size, a[i].data);
    const uint64_t counters[] = {p->step, p->epoch, p->examples, p->period_examples};
    const uint64_t late[] = {p->late, p->late_examples};
    const double sums[] = {p->period_loss, p->seconds};
    t[n] = vector("counters", YK_DTYPE_U64, 4, counters);
    t[n + 1] = vector("sums", YK_DTYPE_F64, 2, sums);
    t[n + 2] = vector("place", YK_DTYPE_U64, p->ncursor, p->cursor);
    t[n + 3] = vector("late", YK_DTYPE_U64, 2, late);
    const yk_pair meta[] = {{"format_version", TEXT(YK__MODEL_FORMAT)},
                            {"optimizer", yk_local_rule(store, 0)->name},
                            {"yoke", YK_VERSION}};
    return yk_safetensors_write(run_dir, YK__SAVING "/" YK__STATE_FILE, t, n + 4, meta, 3);
}

typedef yk_status remapping(const yk_keymap *keymap, float *array, size_t width);

static yk_status remap(const yk_group *g, float *data, const yk_keymap *keymap, remapping *by)
{
    return keymap && g->keyed ? by(keymap, data, g->width) : YK_OK;
}

/* Puts all arrays of the quiesced store into the order of the data's keys to write them, and back: in place, because
 * there may be no memory for a second copy of 33 million weights. */
static yk_status remap_all(yk_local *store, const yk_keymap *keymap, remapping *by)
{
    array a[MAX_ARRAYS];
    const size_t n = state_arrays(store, a);
    yk_status st = YK_OK;
    for (int g = 0; !st && g < yk_local_groups(store); g++)
        st = remap(yk_local_group_of(store, g), yk_local_table(store, g).w, keymap, by);
    for (size_t i = 0; !st && i < n; i++)
        st = remap(a[i].group, a[i].data, keymap, by);
    return st;
}

yk_status yk_checkpoint_save(const char *run_dir, const char *model_name, const yk_model *m, yk_local *store,
                             const yk_keymap *keymap, const yk_progress_state *progress, char **path_out)
{
    yk_status st = yk__checkpoint_begin(run_dir);
    if (!st && !(st = remap_all(store, keymap, yk_keymap_restore))) {
        float *params[YK_MAX_GROUPS];
        for (int g = 0; g < m->ngroups; g++)
            params[g] = yk_local_table(store, g).w;
        st = yk__model_write(run_dir, YK__SAVING "/" YK__MODEL_FILE, model_name, m, params, progress->step);
        if (!st)
            st = save_state(run_dir, store, progress);
        yk_status back = remap_all(store, keymap, yk_keymap_apply);
        st = st ? st : back;
    }
    return yk__checkpoint_end(run_dir, progress->step, st, path_out);
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
    for (int i = 0; i < 4; i++)
        if (c[i] > UINT64_MAX / 4) /* sums of counters must not overflow */
            return yk_fail(YK_EDATA, "the counters of the checkpoint are damaged: %llu steps or examples",
                           (unsigned long long)c[i]);
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
    array want[MAX_ARRAYS];
    const size_t n = state_arrays(store, want);
    for (size_t i = 0; !st && i < n; i++) {
        const yk_tensor *t;
        st = yk_safetensors_need(state, want[i].name, want[i].dtype, 1, (uint64_t[]){want[i].size}, &t);
        if (st)
            yk_fail(st, "%s; the run may have other options than the checkpoint (--optimizer, --l2)",
                    yk_error());
        else
            memcpy(want[i].data, t->data, want[i].size * sizeof(float));
    }
    for (int g = 0; !st && g < yk_local_groups(store); g++)
        if (!yk_local_raw(store, g).touched)
            st = remap(yk_local_group_of(store, g), params[g], keymap, yk_keymap_apply);
    for (size_t i = 0; !st && i < n; i++)
        st = remap(want[i].group, want[i].data, keymap, yk_keymap_apply);
    if (!st)
        st = read_progress(state, progress);
    if (!st)
        yk_local_restore(store, progress->step);
    yk_safetensors_free(model);
    yk_safetensors_free(state);
    return st;
}
