/* Matches the columns of a file with those of a model, and compares options with them; see tabular.h. */
#include "data/tabular.h"

#include "base/log.h"
#include "base/text.h"
#include <stdio.h>
#include <stdlib.h>

/* ---- columns */

static int by_name(const void *a, const void *b)
{
    const yk_schema_column *const *x = a, *const *y = b;
    const int order = strcmp((*x)->name, (*y)->name);
    return order ? order : (*x > *y) - (*x < *y);
}

/* The columns by name, and those of the same name by position. The caller frees them. */
static const yk_schema_column **sort_columns(const yk_schema *s)
{
    const yk_schema_column **by = malloc((s->ncolumns + 1) * sizeof *by);
    for (size_t i = 0; by && i < s->ncolumns; i++)
        by[i] = &s->column[i];
    if (by)
        qsort(by, s->ncolumns, sizeof *by, by_name);
    return by;
}

/* Predictions need neither labels nor weights. */
static bool is_needed(const yk_tabular *t, const yk_schema_column *c)
{
    const bool scored = !t->base.options.unlabeled;
    return yk_is_feature(c) || (c->role == YK_COLUMN_LABEL && scored) ||
           (c->role == YK_COLUMN_WEIGHT && scored && !t->weights);
}

/* Both lists of columns are sorted: goes through them in parallel. */
static yk_status match_sorted(yk_tabular *t, const yk_schema_column **file, const yk_schema_column **model)
{
    const yk_schema *m = t->base.options.schema, *s = t->own;
    yk_text list = {0};
    size_t f = 0, extra = 0;
    yk_status st = YK_OK;
    for (size_t k = 0; k <= m->ncolumns && !st; k++) {
        const yk_schema_column *want = k < m->ncolumns ? model[k] : NULL;
        for (; !st && f < s->ncolumns && (!want || strcmp(file[f]->name, want->name) < 0); f++) {
            const bool twice =
                k && !strcmp(file[f]->name, model[k - 1]->name) && model[k - 1]->role <= YK_COLUMN_LABEL;
            if (twice)
                st = yk_fail(YK_EDATA,
                             "%s: column %zu is a second column named '%s', but the model has only one",
                             t->base.spec, (size_t)(file[f] - s->column) + 1, file[f]->name);
            if (yk_text_item(&list))
                yk_text_print(&list, "%.40s", file[f]->name);
            extra++;
        }
        if (!want || st)
            break;
        const bool found = f < s->ncolumns && !strcmp(file[f]->name, want->name);
        if (found)
            t->column[file[f++] - s->column] = want;
        else if (is_needed(t, want))
            st = yk_fail(YK_EDATA,
                         "%s: the column '%s' is missing; the model needs it (%s); the columns are: %s",
                         t->base.spec, want->name, yk_column_role_name[want->role],
                         yk__tabular_list(s, (char[400]){0}));
    }
    if (!st && list.s)
        yk_note("%s: %zu column%s not in the model, and ignored: %s", t->base.spec, extra,
                extra == 1 ? " is" : "s are", list.s);
    yk_text_fini(&list);
    return st;
}

static yk_status match_names(yk_tabular *t)
{
    const yk_schema_column **file = sort_columns(t->own), **model = sort_columns(t->base.options.schema);
    yk_status st = file && model ? match_sorted(t, file, model) : yk_fail_memory(t->own->ncolumns, "columns");
    free(file);
    free(model);
    return st;
}

yk_status yk__tabular_unique(const yk_tabular *t)
{
    const yk_schema *s = t->own;
    const yk_schema_column **by = sort_columns(s), *before = NULL;
    yk_status st = by ? YK_OK : yk_fail_memory(s->ncolumns * sizeof *by, "columns");
    for (size_t i = 0; i < s->ncolumns && !st; i++) {
        if (!t->column[by[i] - s->column])
            continue;
        const size_t second = (size_t)(by[i] - s->column) + 1;
        if (before && !strcmp(before->name, by[i]->name))
            st = yk_fail(YK_EUSAGE,
                         "%s: columns %zu and %zu are both named '%s', and a model finds columns by name: "
                         "rename one, or add ignore=%zu to the spec",
                         t->base.spec, (size_t)(before - s->column) + 1, second, by[i]->name, second);
        before = by[i];
    }
    free(by);
    return st;
}

/* Without names. If the label may be missing, the data may have one column less. */
static yk_status match_positions(yk_tabular *t)
{
    const yk_schema *m = t->base.options.schema, *s = t->own;
    const yk_schema_column *label = yk_schema_first(m, YK_COLUMN_LABEL);
    const bool shorter = label && t->base.options.unlabeled && s->ncolumns + 1 == m->ncolumns;
    if (s->ncolumns != m->ncolumns && !shorter)
        return yk_fail(YK_EDATA,
                       "%s: %zu column%s, but the model was trained on %zu; columns without names are "
                       "matched by position",
                       t->base.spec, s->ncolumns, yk_plural(s->ncolumns), m->ncolumns);
    if (s->header != m->header && !strstr(t->base.ops->options, "header"))
        return yk_fail(YK_EDATA,
                       "%s: the columns have names, but the model was trained on data without a header: "
                       "train it on data that has a header",
                       t->base.spec);
    if (s->header != m->header && !yk_spec_text(&t->base.parsed, "header"))
        return yk_fail(YK_EDATA,
                       "%s: the data has %s header, but the training data had %s: add ?header=%d to match "
                       "the columns by position, or ?header=%d if the first line is %s",
                       t->base.spec, s->header ? "a" : "no", m->header ? "one" : "none", s->header,
                       !s->header, s->header ? "a row" : "a header");
    for (size_t i = 0, k = 0; i < s->ncolumns; i++, k++) {
        k += shorter && &m->column[k] == label;
        t->column[i] = &m->column[k];
    }
    return YK_OK;
}

/* ---- types */

bool yk__time_differs(const char *type, const char *other)
{
    const char a = yk__type_kind(type), b = yk__type_kind(other);
    return a && b && a != b && (a == 's' || a == 'd' || b == 's' || b == 'd');
}

/* *unlike_out: a category is a number here, but was a text. A text is a date if it is written as one. */
static yk_status compare_type(const yk_tabular *t, size_t i, const char *name, bool *unlike_out)
{
    const yk_schema_column *c = t->column[i];
    const char *type = t->own->column[i].type, here = yk__type_kind(type), there = yk__type_kind(c->type);
    const bool category = c->role == YK_COLUMN_CATEGORICAL;
    *unlike_out = category && here == 'n' && there == 't';
    if (!yk__time_differs(type, c->type) || here == 't' || (category && there == 't'))
        return YK_OK;
    if (category || (strcmp(type, "number") && strcmp(c->type, "number")))
        return yk_fail(YK_EDATA,
                       "%s: %s has the type %s here, but %s in the training data, and their numbers mean "
                       "different things: convert the column",
                       t->base.spec, name, type, c->type);
    yk_warn("%s: %s has the type %s here, but %s in the training data: %s given as numbers are %s since 1970",
            t->base.spec, name, type, c->type, here == 'd' || there == 'd' ? "dates" : "times",
            here == 'd' || there == 'd' ? "days" : "seconds");
    return YK_OK;
}

yk_status yk__tabular_types(const yk_tabular *t)
{
    const bool guessed = !strcmp(t->base.ops->name, "csv");
    yk_text list = {0};
    yk_status st = YK_OK;
    for (size_t i = 0; i < t->own->ncolumns && !st; i++) {
        char name[80];
        bool unlike;
        if (!t->column[i] || !yk_is_feature(t->column[i]))
            continue;
        st = compare_type(t, i, yk_tabular_name(t, i, name), &unlike);
        if (unlike && !guessed && yk_text_item(&list))
            yk_text_add(&list, name);
    }
    if (list.s && !st)
        yk_warn("%s: categorical columns have numbers or booleans here, but strings in the training data: "
                "values are equal only if they are written the same way (7 is not 07, true is not True): %s",
                t->base.spec, list.s);
    yk_text_fini(&list);
    return st;
}

/* ---- options */

static yk_status fail_differs(const yk_tabular *t, const char *name, const char *key, const char *here,
                              const char *model)
{
    return yk_fail(YK_EUSAGE, "%s: %s: %s is %s here, but %s in the model: leave out this option",
                   t->base.spec, name, key, here, model);
}

/* Roles that options give to columns: those in a list, or those that are in none. */
static yk_status compare_roles(const yk_tabular *t, bool listed)
{
    const bool others =
        yk_spec_text(&t->base.parsed, "numeric") && !yk_spec_text(&t->base.parsed, "categorical");
    for (size_t i = 0; i < t->own->ncolumns; i++) {
        const yk_schema_column *own = &t->own->column[i], *c = t->column[i];
        const yk_column_role here = listed ? own->role : YK_COLUMN_CATEGORICAL;
        const bool said = listed ? own->chosen : others && !own->chosen && c && c->role == YK_COLUMN_NUMERIC;
        char name[80];
        const bool unused = here == YK_COLUMN_ID || here == YK_COLUMN_IGNORED; /* they are interchangeable */
        if (said && (unused ? c && c->role <= YK_COLUMN_LABEL : !c || c->role != here))
            return fail_differs(t, yk_tabular_name(t, i, name), "its role", yk_column_role_name[here],
                                c ? yk_column_role_name[c->role] : "not");
    }
    return YK_OK;
}

static const char *join(yk_arena *a, const yk__names *names)
{
    yk_text t = {0};
    for (size_t i = 0; i < names->n; i++)
        yk_text_print(&t, "%s%s", i ? "," : "", names->name[i]);
    const char *all = yk_arena_print(a, "%s", t.s ? t.s : "");
    a->status = t.status ? t.status : a->status;
    yk_text_fini(&t);
    return all;
}

/* An option that contradicts the model. */
static yk_status compare_options(yk_tabular *t)
{
    const yk_schema *m = t->schema, *s = t->own;
    const yk_spec *spec = &t->base.parsed;
    yk_arena *const a = &t->base.arena;
    const yk_schema_column *number = yk_schema_first(m, YK_COLUMN_NUMERIC),
                           *category = yk_schema_first(m, YK_COLUMN_CATEGORICAL),
                           *label = yk_schema_first(m, YK_COLUMN_LABEL);
    char name[80];
    const struct {
        const yk_schema_column *column; /* NULL: none has this property */
        bool given;
        const char *what, *here, *model;
    } property[] = {
        {number, yk_spec_text(spec, "scale"), "scale", yk_scale_name[s->scale], yk_scale_name[m->scale]},
        {category, yk_spec_text(spec, "encode"), "encode", yk_encoding_name[s->encode],
         yk_encoding_name[m->encode]},
        {category, yk_schema_hashes(m) && s->features, "the number of features (bits, features)",
         yk_arena_print(a, "%llu", (unsigned long long)s->features),
         yk_arena_print(a, "%llu", (unsigned long long)m->features)},
        {label, s->nclasses && m->nclasses, "classes", yk_arena_print(a, "%u", s->nclasses),
         yk_arena_print(a, "%u", m->nclasses)},
        {label, yk_spec_text(spec, "classes") && (s->classes.n || m->classes.n), "classes",
         join(a, &s->classes), join(a, &m->classes)},
        {number ? number : category, yk_spec_text(spec, "missing"), "missing", join(a, &s->missing),
         join(a, &m->missing)},
    };
    yk_status st = a->status;
    for (size_t i = 0; i < sizeof property / sizeof *property && !st; i++)
        if (property[i].column && property[i].given && strcmp(property[i].here, property[i].model))
            st = fail_differs(t, yk_schema_name(m, property[i].column, name), property[i].what,
                              property[i].here, *property[i].model ? property[i].model : "not given");
    return st;
}

yk_status yk__tabular_match(yk_tabular *t)
{
    const bool names = t->own->header && t->schema->header;
    yk_status st = names ? match_names(t) : match_positions(t);
    if (st || (st = compare_roles(t, true)) || (st = compare_roles(t, false)) || (st = compare_options(t)))
        return st;
    for (size_t i = 0; i < t->own->ncolumns; i++) {
        const yk_schema_column *c = t->column[i];
        const bool label = c && c->role == YK_COLUMN_LABEL && !t->base.options.unlabeled;
        const bool weight = c && c->role == YK_COLUMN_WEIGHT && !t->base.options.unlabeled;
        const bool counts =
            c && yk_is_feature(c) &&
            !(t->base.options.fit && c->role == YK_COLUMN_CATEGORICAL && t->schema->encode == YK_ENCODE_HASH);
        if (!label && !weight && !counts)
            t->column[i] = NULL;
    }
    if (yk_spec_text(&t->base.parsed, "fit"))
        yk_note("%s: fit has no effect: the model's own means and values are used", t->base.spec);
    return YK_OK;
}
