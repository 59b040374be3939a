#include "data/schema.h"

#include "base/json.h"
#include "base/mem.h"
#include "base/rng.h"
#include "data/columns.h"
#include <jansson.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>

const char *const yk_column_role_name[] = {"numeric", "categorical", "label", "weight",
                                           "id",      "ignored",     NULL};
const char *const yk_encoding_name[] = {"hash", "onehot", "dense", NULL};
const char *const yk_scale_name[] = {"none", "log", "standard", NULL};

/* ---- the object */

yk_status yk_schema_create(const char *format, yk_schema **out)
{
    yk_schema *s = *out = calloc(1, sizeof *s);
    if (!s)
        return yk_fail_memory(sizeof *s, "a schema");
    s->format = yk_arena_print(&s->arena, "%s", format);
    return s->arena.status;
}

void yk_schema_free(yk_schema *s)
{
    if (!s)
        return;
    for (size_t i = 0; i < s->ncolumns; i++)
        yk__names_fini(&s->column[i].values);
    free(s->column);
    yk_arena_free(&s->arena);
    yk_free(s->values.slot);
    yk__names_fini(&s->classes);
    yk__names_fini(&s->missing);
    free(s);
}

yk_status yk_schema_add(yk_schema *s, const char *name, size_t n, const char *type, yk_column_role role)
{
    if (YK_RESERVE(s->column, s->column_cap, s->ncolumns + 1, "columns"))
        return YK_ESYSTEM;
    yk_schema_column *c = &s->column[s->ncolumns];
    *c = (yk_schema_column){.role = role, .name = yk_arena_print(&s->arena, "%.*s", (int)n, name)};
    if (!c->name)
        return YK_ESYSTEM;
    snprintf(c->type, sizeof c->type, "%s", type);
    s->ncolumns++;
    return YK_OK;
}

const yk_schema_column *yk_schema_first(const yk_schema *s, yk_column_role role)
{
    for (size_t i = 0; i < s->ncolumns; i++)
        if (s->column[i].role == role)
            return &s->column[i];
    return NULL;
}

const char *yk_schema_name(const yk_schema *s, const yk_schema_column *c, char text_out[80])
{
    const size_t number = (size_t)(c - s->column) + 1;
    if (s->header && *c->name)
        snprintf(text_out, 80, "column %zu (%.40s)", number, c->name);
    else
        snprintf(text_out, 80, "column %zu", number);
    return text_out;
}

const char *yk_schema_title(const yk_schema *s, const yk_schema_column *c, char number_out[32])
{
    if (s->header && *c->name)
        return c->name;
    snprintf(number_out, 32, "column %zu", (size_t)(c - s->column) + 1);
    return number_out;
}

/* ---- what encoding needs */

static yk_status grow_values(yk_schema_values *v)
{
    yk_schema_values larger = {.n = v->n, .slots = v->slots ? 2 * v->slots : 1024};
    if (!(larger.slot = yk_alloc(larger.slots, sizeof *larger.slot, "distinct values")))
        return YK_ESYSTEM;
    for (size_t i = 0; i < v->slots; i++)
        if (v->slot[i].hash)
            *yk_schema_value_at(&larger, v->slot[i].hash) = v->slot[i];
    yk_free(v->slot);
    *v = larger;
    return YK_OK;
}

yk_status yk_schema_value_add(yk_schema_values *v, uint64_t hash, bool *new_out)
{
    if (2 * v->n >= v->slots && grow_values(v))
        return YK_ESYSTEM;
    struct yk_schema_value *slot = yk_schema_value_at(v, hash);
    *new_out = !slot->hash;
    if (*new_out)
        *slot = (struct yk_schema_value){hash, (uint32_t)v->n++};
    return YK_OK;
}

/* The features of a column's values are consecutive. */
static yk_status add_values(yk_schema *s, yk_schema_column *c)
{
    yk_status st = YK_OK;
    bool is_new;
    c->index = (uint32_t)(s->numeric + s->values.n);
    for (size_t i = 0; i < c->values.n && !st; i++) {
        const char *text = c->values.name[i];
        const uint64_t hash = yk_cell_hash(c->salt, text, strlen(text));
        const uint32_t index = (uint32_t)(s->numeric + s->values.n);
        if (!(st = yk_schema_value_add(&s->values, hash, &is_new)) && is_new)
            yk_schema_value_at(&s->values, hash)->index = index;
    }
    return st;
}

/* Of missing values and classes. */
static yk_status find_numbers(yk_schema *s)
{
    const yk__names *words = &s->missing, *classes = &s->classes;
    const yk_schema_column *label = yk_schema_first(s, YK_COLUMN_LABEL);
    s->missing_number = yk_arena_alloc(&s->arena, words->n + 1, sizeof *s->missing_number, "missing values");
    s->class_number = yk_arena_alloc(&s->arena, classes->n + 1, sizeof *s->class_number, "classes");
    if (s->arena.status)
        return s->arena.status;
    for (size_t i = 0; i < words->n; i++) /* false is not every 0 */
        s->nmissing +=
            yk_cell_decimal(words->name[i], strlen(words->name[i]), &s->missing_number[s->nmissing]);
    for (size_t i = 0; i < classes->n; i++)
        if (!label ||
            !yk_cell_number_of(label, classes->name[i], strlen(classes->name[i]), &s->class_number[i]))
            s->class_number[i] = (double)NAN;
    return YK_OK;
}

yk_status yk_schema_finish(yk_schema *s)
{
    uint16_t field = 0;
    yk_status st = YK_OK;
    s->numeric = s->categories = s->values.n = 0;
    for (size_t i = 0; i < s->ncolumns; i++) {
        yk_schema_column *c = &s->column[i];
        if (!yk_is_feature(c))
            continue;
        c->field = field++;
        c->salt = yk_mix64(field);
        c->factor = c->deviation > 0.0 ? 1.0 / c->deviation : 1.0;
        if (c->role == YK_COLUMN_NUMERIC)
            c->index = (uint32_t)s->numeric++;
        else
            s->categories++;
    }
    const bool listed = s->categories && s->encode != YK_ENCODE_HASH;
    for (size_t i = 0; i < s->ncolumns && !st; i++)
        if (s->column[i].role == YK_COLUMN_CATEGORICAL) {
            const char kind = yk__type_kind(s->column[i].type);
            s->column[i].typed = kind && kind != 't' && strcmp(s->column[i].type, "number");
            s->column[i].index = (uint32_t)s->numeric;
            st = listed ? add_values(s, &s->column[i]) : YK_OK;
        }
    if (listed && !st && !s->values.slots)
        st = grow_values(&s->values);
    if (!s->categories || listed)
        s->features = s->numeric + s->values.n;
    if (!st && !s->missing_number)
        st = find_numbers(s);
    if (s->scale == YK_SCALE_LOG && !s->log_of) {
        s->log_of = yk_arena_alloc(&s->arena, YK_SCHEMA_LOGS, sizeof *s->log_of, "logarithms");
        for (int i = 0; s->log_of && i < YK_SCHEMA_LOGS; i++)
            s->log_of[i] = (float)log1p((double)i);
    }
    return st ? st : s->arena.status;
}

/* ---- writing */

static void put_text(yk_json *j, const char *name, const char *text)
{
    if (yk_is_utf8(text)) {
        yk_json_text(j, name, text);
        return;
    }
    yk_text t = {0};
    for (const uint8_t *p = (const uint8_t *)text; *p; p++) {
        const char two[] = {(char)(0xc0 | *p >> 6), (char)(0x80 | (*p & 0x3f))};
        yk_text_put(&t, *p < 0x80 ? (const char *)p : two, *p < 0x80 ? 1 : 2);
    }
    YK_JSON(j, YK_OBJECT(name), YK_TEXT("latin1", t.s), YK_END);
    yk_text_fini(&t);
}

static void put_names(yk_json *j, const char *name, const yk__names *names)
{
    yk_json_array(j, name);
    for (size_t i = 0; i < names->n; i++)
        put_text(j, NULL, names->name[i]);
    yk_json_end(j);
}

char *yk_schema_write(const yk_schema *s)
{
    yk_json all = {.digits = 17}, *j = &all;
    YK_JSON(j, YK_OBJECT(NULL), YK_INT("version", YK_SCHEMA_VERSION), YK_TEXT("format", s->format));
    if (s->ncolumns) {
        YK_JSON(j, YK_BOOL("header", s->header), YK_TEXT("encode", yk_encoding_name[s->encode]),
                YK_TEXT("scale", yk_scale_name[s->scale]), YK_INT("features", s->features));
        put_names(j, "missing", &s->missing);
    }
    if (s->classes.n)
        put_names(j, "classes", &s->classes);
    else
        YK_JSON(j, YK_INT_OR_NULL("classes", s->nclasses, s->nclasses));
    yk_json_array(j, "columns");
    for (size_t i = 0; i < s->ncolumns; i++) {
        const yk_schema_column *c = &s->column[i];
        yk_json_object(j, NULL);
        put_text(j, "name", c->name);
        YK_JSON(j, YK_TEXT("role", yk_column_role_name[c->role]), YK_TEXT("type", c->type));
        if (yk_is_feature(c))
            YK_JSON(j, YK_INT("index", c->index), YK_INT("field", c->field));
        if (c->role == YK_COLUMN_NUMERIC && s->scale == YK_SCALE_STANDARD)
            YK_JSON(j, YK_REAL("mean", c->mean), YK_REAL("deviation", c->deviation));
        if (c->role == YK_COLUMN_CATEGORICAL && s->encode != YK_ENCODE_HASH)
            put_names(j, "values", &c->values);
        yk_json_end(j);
    }
    yk_json_end(j);
    if (s->options)
        yk_json_text(j, "options", s->options);
    if (s->height) {
        YK_JSON(j, YK_OBJECT("image"), YK_INT("channels", s->channels), YK_INT("height", s->height),
                YK_INT("width", s->width), YK_END, YK_TEXT("fit", s->fit),
                YK_TEXT("standardize", s->standardize));
    }
    yk_json_end(j);
    return yk_json_take(j);
}

/* ---- parsing. Each function returns false if the JSON is not a schema. */

static bool get_text(const json_t *from, yk__names *out)
{
    const char *text = json_string_value(from), *latin = json_string_value(json_object_get(from, "latin1"));
    if (text)
        return !yk__names_add(out, text, strlen(text));
    char *bytes = latin ? strdup(latin) : NULL, *to = bytes;
    if (!bytes)
        return false;
    for (const char *p = latin; *p; p++) {
        const bool two = (*p & 0xfc) == 0xc0 && p[1]; /* a character from 0x80 to 0xff */
        *to++ = two ? (char)((*p & 3) << 6 | (p[1] & 0x3f)) : *p;
        p += two;
    }
    const bool ok = !yk__names_add(out, bytes, (size_t)(to - bytes));
    free(bytes);
    return ok;
}

static bool get_names(const json_t *from, yk__names *out)
{
    bool ok = true;
    for (size_t i = 0; ok && i < json_array_size(from); i++)
        ok = get_text(json_array_get(from, i), out);
    return ok;
}

static bool get_word(const json_t *from, const char *const *words, int *out)
{
    const char *text = json_string_value(from);
    *out = text ? yk__word_number(words, text, strlen(text)) : -1;
    return *out >= 0;
}

static bool get_column(const json_t *from, yk_schema *s)
{
    yk__names name = {0};
    int role;
    const char *type = json_string_value(json_object_get(from, "type"));
    bool ok = get_word(json_object_get(from, "role"), yk_column_role_name, &role) &&
              get_text(json_object_get(from, "name"), &name) &&
              !yk_schema_add(s, name.name[0], strlen(name.name[0]), type ? type : "", (yk_column_role)role);
    yk__names_fini(&name);
    if (!ok)
        return false;
    yk_schema_column *c = &s->column[s->ncolumns - 1];
    c->mean = json_number_value(json_object_get(from, "mean"));
    c->deviation = json_number_value(json_object_get(from, "deviation"));
    return isfinite(c->mean) && isfinite(c->deviation) &&
           get_names(json_object_get(from, "values"), &c->values);
}

/* NULL: it is missing, or not a text. */
static const char *get_copy(const json_t *from, const char *key, yk_schema *s)
{
    const char *text = json_string_value(json_object_get(from, key));
    return text ? yk_arena_print(&s->arena, "%s", text) : NULL;
}

static bool get_all(const json_t *from, yk_schema *s)
{
    const json_t *columns = json_object_get(from, "columns"), *classes = json_object_get(from, "classes"),
                 *image = json_object_get(from, "image");
    int encode = 0, scale = 0;
    bool ok = json_array_size(columns) <= YK_SCHEMA_MAX_COLUMNS;
    for (size_t i = 0; ok && i < json_array_size(columns); i++)
        ok = get_column(json_array_get(columns, i), s);
    if (!ok || !get_names(classes, &s->classes) || !get_names(json_object_get(from, "missing"), &s->missing))
        return false;
    if (s->ncolumns && (!get_word(json_object_get(from, "encode"), yk_encoding_name, &encode) ||
                        !get_word(json_object_get(from, "scale"), yk_scale_name, &scale)))
        return false;
    s->encode = (yk_encoding)encode;
    s->scale = (yk_scale)scale;
    s->header = json_is_true(json_object_get(from, "header"));
    const json_int_t features = json_integer_value(json_object_get(from, "features")),
                     n = json_integer_value(classes);
    s->features = (uint64_t)features;
    s->nclasses = s->classes.n ? (uint32_t)s->classes.n : (uint32_t)n;
    s->channels = (size_t)json_integer_value(json_object_get(image, "channels"));
    s->height = (size_t)json_integer_value(json_object_get(image, "height"));
    s->width = (size_t)json_integer_value(json_object_get(image, "width"));
    s->standardize = get_copy(from, "standardize", s);
    s->fit = get_copy(from, "fit", s);
    s->options = get_copy(from, "options", s);
    return n >= 0 && n <= UINT32_MAX && features >= 0 && features <= UINT32_MAX && !yk_schema_finish(s) &&
           s->features == (uint64_t)features && (!s->ncolumns || s->features > s->numeric || !s->categories);
}

yk_status yk_schema_parse(const char *text, const char *name, yk_schema **out)
{
    json_error_t why;
    json_t *from = json_loads(text, JSON_REJECT_DUPLICATES, &why);
    const json_int_t version = json_integer_value(json_object_get(from, "version"));
    const char *format = json_string_value(json_object_get(from, "format"));
    yk_status st = YK_OK;
    *out = NULL;
    if (version > YK_SCHEMA_VERSION)
        st = yk_fail(YK_EDATA, "%s: its schema has version %lld, but yoke %s reads only versions up to %d",
                     name, (long long)version, YK_VERSION, YK_SCHEMA_VERSION);
    else if (version < 1 || !format)
        st = yk_fail(YK_EDATA, "%s: its schema is damaged%s%s", name, from ? "" : ": ", from ? "" : why.text);
    else if (!(st = yk_schema_create(format, out)) && !get_all(from, *out))
        st = yk_fail(YK_EDATA, "%s: its schema is damaged", name);
    json_decref(from);
    if (st) {
        yk_schema_free(*out);
        *out = NULL;
    }
    return st;
}

/* ---- for people */

char *yk_schema_summary(const yk_schema *s)
{
    const yk_schema_column *label = yk_schema_first(s, YK_COLUMN_LABEL);
    yk_text t = {0};
    size_t ignored = 0, index = 0;
    for (size_t i = 0; i < s->ncolumns; i++)
        if (s->column[i].role == YK_COLUMN_IGNORED)
            ++*(yk_is_pandas_index(&s->column[i]) ? &index : &ignored);
    if (label && s->header)
        yk_text_print(&t, "label %s", label->name);
    else if (label)
        yk_text_print(&t, "label column %zu", (size_t)(label - s->column) + 1);
    else
        yk_text_add(&t, "no label");
    if (s->numeric)
        yk_text_print(&t, ", %zu numeric%s", s->numeric,
                      s->scale == YK_SCALE_LOG        ? " (log)"
                      : s->scale == YK_SCALE_STANDARD ? " (standardized)"
                                                      : "");
    if (s->categories && s->encode != YK_ENCODE_HASH)
        yk_text_print(&t, ", %zu categorical (one-hot, %zu values)", s->categories, s->values.n);
    else if (s->categories && !(s->features & (s->features - 1)))
        yk_text_print(&t, ", %zu categorical (hashed, 2^%d)", s->categories, __builtin_ctzll(s->features));
    else if (s->categories)
        yk_text_print(&t, ", %zu categorical (hashed, %llu)", s->categories, (unsigned long long)s->features);
    for (size_t i = 0; i < s->ncolumns; i++)
        if (s->column[i].role == YK_COLUMN_ID)
            yk_text_print(&t, ", id %s", yk_schema_title(s, &s->column[i], (char[32]){0}));
    if (ignored)
        yk_text_print(&t, ", %zu ignored", ignored);
    if (index)
        yk_text_add(&t, ", the index of pandas ignored");
    return yk_text_take(&t);
}
