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

enum { MOST_ARRAYS = YK_MAX_GROUPS * (2 + YK_MAX_SLOTS), NAME = 48 };

#define TEXT_(x) #x
#define TEXT(x)  TEXT_(x)

/* ---- saving ---- */

/* An array of the store, for state.safetensors. Those of the first group have the names of the optimizer's state; those of
 * other groups have the group's name before it. */
typedef struct {
    char name[NAME];
    yk_dtype dtype;
    float *data;
    size_t size, width; /* floats, of a key */
    bool keyed;
} array;

static void add_array(array *a, size_t *n, const yk_group *g, bool first, const char *name, void *data,
                      yk_dtype dtype)
{
    array *to = &a[(*n)++];
    *to = (array){
        .dtype = dtype, .data = data, .size = yk_group_floats(g), .width = g->width, .keyed = g->keyed};
    snprintf(to->name, sizeof to->name, "%s%s%s", first ? "" : g->name, first ? "" : ".", name);
}

static size_t state_arrays(yk_local *store, array a[static MOST_ARRAYS])
{
    size_t n = 0;
    for (int g = 0; g < yk_local_groups(store); g++) {
        const yk_group *group = yk_local_group_of(store, g);
        const yk_local_state raw = yk_local_raw(store, g);
        const yk_optim_rule *rule = yk_local_rule(store, g);
        for (int i = 0; i < rule->slots; i++)
            add_array(a, &n, group, g == 0, rule->slot_name[i], raw.live.s[i], YK_DTYPE_F32);
        if (raw.touched) { /* the weights as they are; the model file has them with their decay made up for */
            add_array(a, &n, group, g == 0, "raw_weights", raw.live.w, YK_DTYPE_F32);
            add_array(a, &n, group, g == 0, "touched", raw.touched, YK_DTYPE_U32); /* renamed like floats */
        }
    }
    return n;
}

static yk_status save_state(const char *run_dir, yk_local *store, const yk_progress_state *p)
{
    yk_tensor t[MOST_ARRAYS + 4] = {0};
    array a[MOST_ARRAYS];
    const size_t n = state_arrays(store, a);
    for (size_t i = 0; i < n; i++)
        t[i] = (yk_tensor){
            .name = a[i].name, .dtype = a[i].dtype, .rank = 1, .shape = {a[i].size}, .data = a[i].data};
    const uint64_t counters[] = {p->step, p->epoch, p->examples, p->period_examples};
    const uint64_t late[] = {p->late, p->late_examples};
    const double sums[] = {p->period_loss, p->seconds};
    t[n] = (yk_tensor){.name = "counters", .dtype = YK_DTYPE_U64, .rank = 1, .shape = {4}, .data = counters};
    t[n + 1] = (yk_tensor){.name = "sums", .dtype = YK_DTYPE_F64, .rank = 1, .shape = {2}, .data = sums};
    t[n + 2] = (yk_tensor){
        .name = "place", .dtype = YK_DTYPE_U64, .rank = 1, .shape = {p->ncursor}, .data = p->cursor};
    t[n + 3] = (yk_tensor){.name = "late", .dtype = YK_DTYPE_U64, .rank = 1, .shape = {2}, .data = late};
    const yk_pair meta[] = {{"format_version", TEXT(YK__MODEL_FORMAT)},
                            {"optimizer", yk_local_rule(store, 0)->name},
                            {"yoke", YK_VERSION}};
    return yk_safetensors_write(run_dir, YK__SAVING "/" YK__STATE_FILE, t, n + 4, meta, 3);
}

/* Renames the keys of all arrays of the quiesced store to those of the data while they are written, and back: in place,
 * because a second copy of 33 million weights is not to be had everywhere. */
static yk_status rename_all(yk_local *store, const yk_keymap *keymap,
                            yk_status (*rename_one)(const yk_keymap *, float *, size_t))
{
    array a[MOST_ARRAYS];
    const size_t n = keymap ? state_arrays(store, a) : 0;
    yk_status st = YK_OK;
    for (int g = 0; !st && keymap && g < yk_local_groups(store); g++)
        if (yk_local_group_of(store, g)->keyed)
            st = rename_one(keymap, yk_local_table(store, g).w, yk_local_group_of(store, g)->width);
    for (size_t i = 0; !st && i < n; i++)
        if (a[i].keyed)
            st = rename_one(keymap, a[i].data, a[i].width);
    return st;
}

yk_status yk_checkpoint_save(const char *run_dir, const char *model_name, const yk_model *m, yk_local *store,
                             const yk_keymap *keymap, const yk_progress_state *progress, char **path_out)
{
    yk_status st = yk__checkpoint_begin(run_dir);
    if (!st && !(st = rename_all(store, keymap, yk_keymap_restore))) {
        float *params[YK_MAX_GROUPS];
        for (int g = 0; g < m->ngroups; g++)
            params[g] = yk_local_table(store, g).w;
        st = yk__model_write(run_dir, YK__SAVING "/" YK__MODEL_FILE, model_name, m, params, progress->step);
        if (!st)
            st = save_state(run_dir, store, progress);
        yk_status back = rename_all(store, keymap, yk_keymap_apply);
        st = st ? st : back;
    }
    return yk__checkpoint_end(run_dir, progress->step, st, path_out);
}

/* ---- loading ---- */

/* On failure *out is NULL. */
static yk_status open_file(const char *folder, const char *name, yk_safetensors **out)
{
    char *path;
    if (asprintf(&path, "%s/%s", folder, name) < 0)
        return yk_fail_memory(strlen(folder), "a path");
    yk_status st = yk_safetensors_open(path, out);
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
                                      *late = yk_safetensors_find(s, "late"); /* NULL in older ones */
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
    array want[MOST_ARRAYS];
    const size_t n = state_arrays(store, want);
    for (size_t i = 0; !st && i < n; i++) {
        const yk_tensor *t;
        st = yk_safetensors_need(state, want[i].name, want[i].dtype, 1, (uint64_t[]){want[i].size}, &t);
        if (st)
            yk_fail(st, "%s; it may have been trained with other options (--optimizer, --l2)", yk_error());
        else
            memcpy(want[i].data, t->data, want[i].size * sizeof(float));
    }
    for (int g = 0; !st && keymap && g < yk_local_groups(store); g++)
        if (yk_local_group_of(store, g)->keyed && !yk_local_raw(store, g).touched)
            st = yk_keymap_apply(keymap, params[g], yk_local_group_of(store, g)->width);
    for (size_t i = 0; !st && keymap && i < n; i++)
        if (want[i].keyed)
            st = yk_keymap_apply(keymap, want[i].data, want[i].width);
    if (!st)
        st = read_progress(state, progress);
    if (!st)
        yk_local_restore(store, progress->step);
    yk_safetensors_free(model);
    yk_safetensors_free(state);
    return st;
}
