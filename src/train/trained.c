#include "train/trained.h"

#include "base/mem.h"
#include "base/number.h"
#include "train/checkpoint.h"
#include "train/checkpoint_dir.h"
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define TEXT_(x) #x
#define TEXT(x)  TEXT_(x)

/* ---- the file ---- */

/* The metadata of a model. */
typedef struct {
    yk_pair pair[16];
    char text[16][YK_STANDARDIZE_TEXT];
    size_t n;
} metadata;

static void add_text(metadata *m, const char *key, const char *value)
{
    m->pair[m->n++] = (yk_pair){key, value};
}

static void add_number(metadata *m, const char *key, uint64_t value)
{
    snprintf(m->text[m->n], sizeof m->text[0], "%" PRIu64, value);
    add_text(m, key, m->text[m->n]);
}

static void describe(const yk_model *model, const char *name, const char *schema, uint64_t step, metadata *m)
{
    const yk_model_shape *shape = &model->shape;
    m->n = 0;
    add_text(m, "format_version", TEXT(YK__MODEL_FORMAT));
    add_text(m, "model", name);
    add_number(m, "dim", shape->dim);
    add_number(m, "classes", shape->classes);
    add_number(m, "kind", shape->kind);
    add_number(m, "bias", shape->bias);
    add_number(m, "step", step);
    add_text(m, "yoke", YK_VERSION);
    snprintf(m->text[m->n], sizeof m->text[0], "%zux%zux%zu", shape->channels, shape->height, shape->width);
    add_text(m, "image", m->text[m->n]);
    yk_net_options_standardize_text(&shape->net, m->text[m->n]);
    add_text(m, "standardize", m->text[m->n]);
    if (shape->fields > 1)
        add_number(m, "fields", shape->fields);
    if (shape->fields > 1 && shape->positional)
        add_text(m, "fields_by", "position");
    if (shape->hashed)
        add_text(m, "hashed", "1");
    if (shape->not_hashed)
        add_text(m, "not_hashed", "1");
    if (strcmp(model->loss->name, model->ops->loss))
        add_text(m, "loss", model->loss->name);
    if (schema)
        add_text(m, "schema", schema);
}

yk_status yk__model_write(const char *dir, const char *file, const char *name, const char *schema,
                          const yk_model *m, float *const *params, uint64_t step)
{
    yk_tensor t[YK_MAX_TENSORS] = {0};
    float *data[YK_MAX_TENSORS] = {0};
    metadata meta;
    yk_status st = YK_OK;
    for (int i = 0; !st && i < m->ntensors; i++) {
        const yk_model_tensor *from = &m->tensor[i];
        float *own = params[from->group];
        t[i] = (yk_tensor){.name = from->name,
                           .dtype = YK_DTYPE_F32,
                           .rank = (size_t)from->rank,
                           .data = own + from->offset};
        for (int r = 0; r < from->rank; r++)
            t[i].shape[r] = from->shape[r];
        if (!from->transposed)
            continue;
        t[i].data = data[i] = yk_alloc(from->size, sizeof(float), "a checkpoint");
        if (data[i])
            yk_model_export(m, i, own, data[i]);
        else
            st = YK_ESYSTEM;
    }
    describe(m, name, schema, step, &meta);
    if (!st)
        st = yk_safetensors_write(dir, file, t, (size_t)m->ntensors, meta.pair, meta.n);
    for (int i = 0; i < m->ntensors; i++)
        yk_free(data[i]);
    return st;
}

static yk_status check_format(const char *path, const yk_safetensors *s)
{
    const char *text = yk_safetensors_meta(s, "format_version"), *by = yk_safetensors_meta(s, "yoke");
    if (!text)
        return YK_OK;
    uint64_t version;
    const char *end = yk_digits(text, UINT64_MAX, &version);
    if (!end || *end)
        return yk_fail(YK_EDATA,
                       "%s: the metadata says \"format_version\": \"%.20s\", which is not a format version; "
                       "the file was not written by yoke",
                       path, text);
    if (version > YK__MODEL_FORMAT)
        return yk_fail(
            YK_EDATA,
            "%s: format version %llu, written by yoke %.20s; this is yoke %s, which reads versions "
            "up to %d: use that version of yoke, or a newer one",
            path, (unsigned long long)version, by ? by : "(unknown)", YK_VERSION, YK__MODEL_FORMAT);
    return YK_OK;
}

yk_status yk__model_open(const char *path, yk_safetensors **out)
{
    const yk_status st = yk_safetensors_open(path, out);
    return st ? st : check_format(path, *out);
}

yk_status yk__model_read(const yk_safetensors *s, const yk_model *m, float *const *params)
{
    for (int i = 0; i < m->ntensors; i++) {
        const yk_model_tensor *want = &m->tensor[i];
        uint64_t shape[YK_MAX_RANK];
        for (int r = 0; r < want->rank; r++)
            shape[r] = want->shape[r];
        const yk_tensor *t;
        const char *name = want->name;
        if (*want->earlier && !yk_safetensors_find(s, name) && yk_safetensors_find(s, want->earlier))
            name = want->earlier;
        yk_status st = yk_safetensors_need(s, name, YK_DTYPE_F32, (size_t)want->rank, shape, &t);
        if (st)
            return st;
        yk_model_import(m, i, t->data, params[want->group]);
    }
    return YK_OK;
}

/* A number in the metadata. *ok_out becomes false if it is missing, not a number, or larger than `max`. */
static uint64_t read_meta(const char *text, uint64_t max, bool *ok_out)
{
    uint64_t n = 0;
    const char *end = text ? yk_digits(text, max, &n) : NULL;
    *ok_out &= end && !*end;
    return n;
}

/* The shape of the data that the model was trained on. */
static bool read_shape(const yk_safetensors *s, yk_model_shape *out)
{
    enum { MAX_CLASSES = 1 << 24 };
    bool ok = true;
    uint64_t c = 0, h = 0, w = 0;
    const char *fields = yk_safetensors_meta(s, "fields");
    *out =
        (yk_model_shape){.kind = (yk_rows_kind)read_meta(yk_safetensors_meta(s, "kind"), YK_ROWS_SPARSE, &ok),
                         .dim = read_meta(yk_safetensors_meta(s, "dim"), INT32_MAX, &ok),
                         .classes = (uint32_t)read_meta(yk_safetensors_meta(s, "classes"), MAX_CLASSES, &ok),
                         .fields = fields ? (uint32_t)read_meta(fields, UINT16_MAX + 1, &ok) : 1,
                         .positional = yk_safetensors_meta(s, "fields_by") != NULL,
                         .hashed = yk_safetensors_meta(s, "hashed") != NULL,
                         .not_hashed = yk_safetensors_meta(s, "not_hashed") != NULL,
                         .bias = read_meta(yk_safetensors_meta(s, "bias"), 1, &ok)};
    const char *at =
        yk_safetensors_meta(s, "image"); /* channels x height x width; not always present in files of 0.1.0 */
    if (!at)
        return ok;
    at = yk_digits(at, out->dim, &c);
    at = at && *at == 'x' ? yk_digits(at + 1, out->dim, &h) : NULL;
    at = at && *at == 'x' ? yk_digits(at + 1, out->dim, &w) : NULL;
    out->channels = c;
    out->height = h;
    out->width = w;
    return ok && at && !*at && c * h <= out->dim && c * h * w <= out->dim;
}

yk_status yk__model_info(const char *path, const yk_safetensors *s, const char **name_out,
                         yk_model_shape *shape_out)
{
    *name_out = yk_safetensors_meta(s, "model");
    if (!*name_out || !read_shape(s, shape_out))
        return yk_fail(YK_EDATA,
                       "%s: the metadata does not describe a model (model, kind, dim, classes, bias, image)",
                       path);
    const char *loss = yk_safetensors_meta(s, "loss");
    if (loss && yk_loss_find(loss, &shape_out->loss))
        return yk_fail(YK_EDATA,
                       "%s: the metadata says \"loss\": \"%.20s\", which this version of yoke does not have",
                       path, loss);
    if (yk_net_options_standardize(&shape_out->net, yk_safetensors_meta(s, "standardize")))
        return yk_fail(YK_EDATA, "%s: %s", path, yk_error());
    return YK_OK;
}

yk_status yk__model_schema(const char *path, const yk_safetensors *s, yk_schema **out)
{
    const char *text = yk_safetensors_meta(s, "schema");
    *out = NULL;
    return text ? yk_schema_parse(text, path, out) : YK_OK;
}

/* ---- the model ---- */

/* Takes `params`; NULL: allocates them. */
static yk_status create(const char *name, const yk_model_shape *shape, float *params, yk_trained **out)
{
    yk_trained *t = calloc(1, sizeof *t);
    if (!t || !(t->name = strdup(name))) {
        free(t);
        yk_free(params);
        return yk_fail_memory(sizeof *t, "a model");
    }
    t->params = params;
    atomic_init(&t->references, 1);
    yk_status st = yk_model_create(name, shape, &t->model);
    if (!st && !params &&
        !(t->params = yk_alloc(yk_model_group_offset(t->model, t->model->ngroups), sizeof *t->params,
                               "the parameters")))
        st = YK_ESYSTEM;
    if (st)
        yk_trained_release(t);
    else
        *out = t;
    return st;
}

static void groups_of(const yk_trained *t, float *out[YK_MAX_GROUPS])
{
    for (int g = 0; g < t->model->ngroups; g++)
        out[g] = t->params + yk_model_group_offset(t->model, g);
}

yk_status yk__trained_read(const char *path, const yk_safetensors *s, yk_trained **out)
{
    const char *name;
    yk_model_shape shape;
    yk_trained *t;
    float *params[YK_MAX_GROUPS];
    yk_status st = yk__model_info(path, s, &name, &shape);
    if (st || (st = create(name, &shape, NULL, &t)))
        return st;
    groups_of(t, params);
    if ((st = yk__model_read(s, t->model, params)) || (st = yk__model_schema(path, s, &t->schema)))
        yk_trained_release(t);
    else
        *out = t;
    return st;
}

yk_status yk_trained_file(const char *path, char **file_out)
{
    char *found = NULL;
    yk_status st = yk__checkpoint_require("", path, true, &found);
    if (st || yk__is_model_file(found)) {
        *file_out = found;
        return st;
    }
    st = yk_path_keep(yk_path_of("%s/" YK__MODEL_FILE, found).s, file_out);
    free(found);
    return st;
}

yk_status yk_trained_load(const char *path, yk_trained **out)
{
    char *file = NULL;
    yk_safetensors *s = NULL;
    yk_status st = yk_trained_file(path, &file);
    if (!st)
        st = yk__model_open(file, &s);
    if (!st)
        st = yk__trained_read(file, s, out);
    yk_safetensors_free(s);
    free(file);
    return st;
}

yk_status yk_trained_save(const yk_trained *m, const char *dir, const char *name)
{
    float *params[YK_MAX_GROUPS];
    char *schema = m->schema ? yk_schema_write(m->schema) : NULL;
    groups_of(m, params);
    const yk_status st = m->schema && !schema
                             ? yk_fail_memory(1000, "the schema")
                             : yk__model_write(dir, name, m->name, schema, m->model, params, 0);
    free(schema);
    return st;
}

static bool is_state(const yk_checkpoint_array *a)
{
    return *a->name && !a->decay;
}

/* Copies between an array of a store, with internal ids, and an array that is indexed by the keys of the data. to_copy: from the store. */
static yk_status copy_array(const yk_checkpoint_array *a, const yk_keymap *keymap, float *copy, bool to_copy)
{
    float *to = to_copy ? copy : a->data;
    if (copy != a->data)
        memcpy(to, to_copy ? a->data : copy, a->size * sizeof *to);
    return keymap && a->group->keyed ? yk_keymap_move(keymap, to, a->group->width, to_copy) : YK_OK;
}

/* The weights in a store and those of a model, or the state of the optimizer in both. */
static yk_status copy(const yk_trained *t, const yk_checkpoint_arrays *all, const yk_keymap *keymap,
                      bool state, bool keep)
{
    float *at = t->state;
    yk_status st = YK_OK;
    for (int g = 0; !st && !state && g < t->model->ngroups; g++)
        st = copy_array(&all->array[g], keymap, t->params + yk_model_group_offset(t->model, g), keep);
    for (const yk_checkpoint_array *a = all->array; !st && state && a < all->array + all->n; a++)
        if (is_state(a)) {
            st = copy_array(a, keymap, at, keep);
            at += a->size;
        }
    return st;
}

yk_status yk_trained_take(const char *name, const char *schema, const yk_model *m, yk_local *store,
                          const yk_keymap *keymap, yk_trained **out)
{
    yk_trained *t;
    yk_checkpoint_arrays all;
    yk_checkpoint_arrays_of(store, &all, true);
    yk_status st = create(name, &m->shape, m->ngroups == 1 ? yk_local_take(store, 0) : NULL, &t);
    if (st)
        return st;
    st = schema ? yk_schema_parse(schema, "the model", &t->schema) : YK_OK;
    if (!st)
        st = copy(t, &all, keymap, false, true);
    if (st)
        yk_trained_release(t);
    else
        *out = t;
    return st;
}

yk_status yk_trained_restore(const yk_trained *from, const char *name, const yk_model *m, yk_local *store,
                             const yk_keymap *keymap, bool state)
{
    const yk_model_shape *a = &from->model->shape, *b = &m->shape;
    yk_checkpoint_arrays all;
    if (strcmp(from->name, name) || a->dim != b->dim || a->classes != b->classes || a->bias != b->bias ||
        from->model->nparams != m->nparams)
        return yk_fail(
            YK_EUSAGE,
            "cannot start from model '%s' with %zu columns and %u classes: this run trains '%s' with %zu "
            "columns and %u classes",
            from->name, a->dim, a->classes, name, b->dim, b->classes);
    yk_checkpoint_arrays_of(store, &all, false);
    if (state && strcmp(from->optimizer, all.optimizer))
        return yk_fail(
            YK_EUSAGE,
            "the initial model has the state of the optimizer %s, not of %s: use the same optimizer",
            from->optimizer, all.optimizer);
    const yk_status st = copy(from, &all, keymap, false, false);
    return st || !state ? st : copy(from, &all, keymap, true, false);
}

yk_status yk_trained_keep_state(yk_trained *m, yk_local *store, const yk_keymap *keymap, uint64_t steps)
{
    yk_checkpoint_arrays all;
    size_t n = 0;
    yk_checkpoint_arrays_of(store, &all, true);
    for (size_t i = 0; i < all.n; i++)
        n += is_state(&all.array[i]) ? all.array[i].size : 0;
    m->state = yk_alloc(n + 1, sizeof *m->state, "the optimizer's state");
    m->optimizer = strdup(all.optimizer);
    m->steps = steps;
    if (!m->state || !m->optimizer)
        return m->state ? yk_fail_memory(sizeof all.optimizer, "the optimizer's state") : YK_ESYSTEM;
    return copy(m, &all, keymap, true, true);
}

void yk_trained_retain(yk_trained *m)
{
    atomic_fetch_add(&m->references, 1);
}

void yk_trained_release(yk_trained *m)
{
    if (!m || atomic_fetch_sub(&m->references, 1) > 1)
        return;
    yk_free(m->params);
    yk_free(m->state);
    free(m->optimizer);
    yk_model_free(m->model);
    yk_schema_free(m->schema);
    free(m->name);
    free(m);
}
