#include "data/tabular.h"

#include "base/log.h"
#include "base/number.h"
#include <stdio.h>
#include <strings.h>

/* ---- options */

static yk_status read_classes(yk_schema *s, yk_spec *spec)
{
    const char *given = yk_spec_text(spec, "classes");
    double v;
    if (given && yk_cell_number(given, strlen(given), &v)) {
        s->nclasses = (uint32_t)yk_spec_u64(spec, "classes", 0, 2, 1000001);
        return spec->status;
    }
    yk_status st = yk__words_split(given, true, &s->classes);
    s->nclasses = (uint32_t)s->classes.n;
    for (size_t i = 0; i < s->classes.n && !st; i++)
        if (yk__words_find(&s->classes, s->classes.name[i], strlen(s->classes.name[i])) != i)
            return yk_fail(YK_EUSAGE, "%s: classes: '%s' is listed twice", spec->text, s->classes.name[i]);
    if (!st && given && s->nclasses < 2)
        return yk_fail(YK_EUSAGE, "%s: classes=%s: must be a number or at least two names", spec->text,
                       given);
    return st;
}

yk_status yk_tabular_init(yk_tabular *t)
{
    yk_source *source = &t->base;
    yk_spec *spec = &source->parsed;
    yk_status st = yk_schema_create(source->ops->name, &t->own);
    if (st)
        return st;
    yk_schema *s = t->own;
    t->schema = source->options.schema ? source->options.schema : s;
    s->encode = (yk_encoding)yk_spec_choice(spec, "encode", "hash onehot dense", YK_ENCODE_HASH);
    s->scale = (yk_scale)yk_spec_choice(spec, "scale", "none log standard", YK_SCALE_NONE);
    s->features = yk__spec_keys(source, 0, UINT32_MAX).features;
    t->fields = yk__spec_fields(source);
    st = spec->status ? spec->status : yk__words_split(yk_spec_text(spec, "missing"), false, &s->missing);
    return st ? st : read_classes(s, spec);
}

/* Their values are written differently than in training, or mean something else. */
static void warn_unknown(const yk_tabular *t)
{
    const yk_schema *s = t->schema;
    yk_text list = {0};
    for (size_t i = 0; i < s->ncolumns; i++) {
        const yk__names *values = &s->column[i].values;
        char name[80];
        if (atomic_load(&t->seen[i]) == YK_SEEN_UNKNOWN && yk_text_item(&list))
            yk_text_print(&list, "%s ('%.40s')", yk_schema_name(s, &s->column[i], name),
                          values->n ? values->name[0] : "");
    }
    if (list.s)
        yk_warn("%s: no value of these columns occurred in the training data, so predictions ignore them (in "
                "quotes: a value from the training data): %s",
                t->base.spec, list.s);
    yk_text_fini(&list);
}

void yk_tabular_free(yk_source *source)
{
    yk_tabular *t = (yk_tabular *)source;
    if (t->seen)
        warn_unknown(t);
    yk_schema_free(t->own);
}

const char *yk_tabular_name(const yk_tabular *t, size_t i, char text_out[80])
{
    return yk_schema_name(t->own, &t->own->column[i], text_out);
}

/* ---- the columns of a list */

const char *yk__tabular_list(const yk_schema *s, char list[400])
{
    yk_text t = {0};
    for (size_t i = 0; i < s->ncolumns; i++)
        if (yk_text_item(&t))
            yk_text_print(&t, "%.40s", s->column[i].name);
    snprintf(list, 400, "%s", t.s ? t.s : "");
    yk_text_fini(&t);
    return list;
}

static yk_status fail_column(const yk_tabular *t, const char *key, const char *word)
{
    char list[400];
    if (t->own->header)
        return yk_fail(YK_EUSAGE, "%s: %s: no column '%s'; the columns are: %s", t->base.spec, key, word,
                       yk__tabular_list(t->own, list));
    return yk_fail(YK_EUSAGE, "%s: %s: no column '%s'; the columns have no names, only numbers from 1 to %zu",
                   t->base.spec, key, word, t->own->ncolumns);
}

/* The column with this name; ncolumns: none. */
static yk_status find_name(const yk_tabular *t, const char *key, const char *name, size_t *out)
{
    const yk_schema *s = t->own;
    *out = s->ncolumns;
    for (size_t i = 0; s->header && i < s->ncolumns; i++) {
        if (strcmp(s->column[i].name, name) != 0)
            continue;
        if (*out != s->ncolumns)
            return yk_fail(
                YK_EUSAGE,
                "%s: %s: columns %zu and %zu are both named '%s'; use the number of one of them: %s=%zu",
                t->base.spec, key, *out + 1, i + 1, name, key, *out + 1);
        *out = i;
    }
    return YK_OK;
}

/* "price", "3", "-1" (the last), "2-14" or "15-": columns [*first_out, *end_out). */
static yk_status find_columns(const yk_tabular *t, const char *key, const char *word, size_t *first_out,
                              size_t *end_out)
{
    const size_t n = t->own->ncolumns;
    uint64_t first, last;
    yk_status st = find_name(t, key, word, first_out);
    *end_out = *first_out + 1;
    if (st || *first_out != n)
        return st;
    const bool from_end = *word == '-';
    const char *rest = yk_digits(word + from_end, n, &first);
    if (!rest || first == 0)
        return fail_column(t, key, word);
    first = from_end ? n + 1 - first : first;
    last = first;
    if (!from_end && *rest == '-')
        rest = rest[1] ? yk_digits(rest + 1, n, &last) : (last = n, rest + 1);
    if (!rest || *rest || last < first)
        return fail_column(t, key, word);
    *first_out = (size_t)first - 1;
    *end_out = (size_t)last;
    return YK_OK;
}

/* The column of the file with this name; YK_EUSAGE: there is none, or several. `option`: for messages. */
static yk_status find_column(const yk_tabular *t, const char *option, const char *name, size_t *out)
{
    size_t end;
    yk_status st = find_columns(t, option, name, out, &end);
    return st || end == *out + 1
               ? st
               : yk_fail(YK_EUSAGE, "%s: %s=%s: must be one column", t->base.spec, option, name);
}

/* split-by=COLUMN: readers of the source then need not number the rows. */
static yk_status choose_split(yk_tabular *t)
{
    const char *by = yk_spec_text(&t->base.parsed, "split-by");
    if (!by)
        return YK_OK;
    if (!t->base.part.on)
        return yk_fail(YK_EUSAGE, "%s: split-by needs split, such as split=0.9", t->base.spec);
    t->part = t->base.part;
    t->base.part = (yk_split_range){0};
    return find_column(t, "split-by", by, &t->split_by);
}

/* `key`: the option that says so. */
static yk_status set_role(yk_tabular *t, const char *key, size_t i, yk_column_role role)
{
    char name[80];
    yk_schema_column *c = &t->own->column[i];
    if (c->chosen)
        return yk_fail(YK_EUSAGE, "%s: %s: %s is listed twice", t->base.spec, key,
                       yk_tabular_name(t, i, name));
    c->role = role;
    c->chosen = true;
    return YK_OK;
}

static yk_status choose_columns(yk_tabular *t, const char *key, yk_column_role role)
{
    yk__names words = {0};
    yk_status st = yk__words_split(yk_spec_text(&t->base.parsed, key), true, &words);
    for (size_t w = 0; w < words.n && !st; w++) {
        size_t first, end;
        st = find_columns(t, key, words.name[w], &first, &end);
        for (size_t i = first; !st && i < end; i++)
            st = set_role(t, key, i, role);
    }
    yk__names_fini(&words);
    return st;
}

/* ---- the label */

static bool is_label_name(const char *name)
{
    static const char *const known[] = {"label", "target", "y", "click", "clicked", "class"};
    for (size_t i = 0; i < sizeof known / sizeof *known; i++)
        if (!strcasecmp(name, known[i]))
            return true;
    return false;
}

/* With a header, the column with a usual name; without one, the first. ncolumns: none. */
static yk_status guess_label(const yk_tabular *t, size_t *out)
{
    const yk_schema *s = t->own;
    const size_t n = s->ncolumns;
    char list[400], why[600] = "";
    *out = n;
    for (size_t i = 0; s->header && i < n; i++) {
        if (is_label_name(s->column[i].name) && *out != n && !*why)
            snprintf(
                why, sizeof why,
                "columns %zu (%.40s) and %zu (%.40s) may both be the label: add ?label=%zu or ?label=%zu",
                *out + 1, s->column[*out].name, i + 1, s->column[i].name, *out + 1, i + 1);
        else if (is_label_name(s->column[i].name))
            *out = i;
    }
    if (n == 1 && !t->base.options.unlabeled)
        *out = 0; /* the delimiter may be wrong */
    else if (s->header && *out == n && !t->base.options.unlabeled)
        snprintf(why, sizeof why,
                 "no column is named label, target, y, click, clicked or class: choose the label with "
                 "?label=NAME; the columns are: %s",
                 yk__tabular_list(s, list));
    if (!s->header && n > 1) {
        *out = 0;
        yk_warn("%s: there is no header: the first column is the label; to choose another, add ?label=NUMBER",
                t->base.spec);
    }
    if (*why && !t->base.options.inspects)
        return yk_fail(YK_EUSAGE, "%s: %s", t->base.spec, why);
    if (*why) {
        yk_warn("%s: %s", t->base.spec, why);
        *out = n;
    }
    return YK_OK;
}

/* label=NAME, label=NUMBER or label=none; the labels of a model, and of the caller of a frame, are known. */
static yk_status choose_label(yk_tabular *t)
{
    const char *given = yk_spec_text(&t->base.parsed, "label");
    size_t i = t->own->ncolumns;
    if (yk_schema_first(t->own, YK_COLUMN_LABEL) || (given && !strcmp(given, "none")))
        return YK_OK;
    yk_status st = given                    ? find_column(t, "label", given, &i)
                   : t->base.options.schema ? YK_OK
                                            : guess_label(t, &i);
    return st || i == t->own->ncolumns ? st : set_role(t, "label", i, YK_COLUMN_LABEL);
}

/* weight=NAME or weight=NUMBER. */
static yk_status choose_weight(yk_tabular *t)
{
    const char *given = yk_spec_text(&t->base.parsed, "weight");
    size_t i;
    yk_status st = given ? find_column(t, "weight", given, &i) : YK_OK;
    if (st || !given)
        return st;
    return t->own->column[i].chosen
               ? yk_fail(YK_EUSAGE, "%s: weight=%s is also the label", t->base.spec, given)
               : set_role(t, "weight", i, YK_COLUMN_WEIGHT);
}

/* ---- roles */

static yk_status choose_carried(yk_tabular *t)
{
    const bool all = t->carries_all = t->base.options.carry && !strcmp(t->base.options.carry, "*");
    yk__names words = {0};
    yk_status st = yk__words_split(t->base.options.carry, true, &words);
    const size_t n = all ? t->own->ncolumns : words.n;
    if (!st && !(t->carry = yk_arena_alloc(&t->base.arena, n + 1, sizeof *t->carry, "columns")))
        st = YK_ESYSTEM;
    for (size_t k = 0; k < n && !st; k++)
        if (all)
            t->carry[k] = k;
        else
            st = find_column(t, "--id or --with", words.name[k], &t->carry[k]);
    t->base.ncarry = n;
    yk__names_fini(&words);
    return st;
}

/* Columns that are not in any list are numeric. If only numeric= is given (`others`), they are categorical. */
static void choose_default(yk_tabular *t, size_t i, bool others)
{
    yk_schema_column *c = &t->own->column[i];
    if (others)
        c->role = YK_COLUMN_CATEGORICAL;
    if (t->own->header && yk_is_pandas_index(c))
        c->role = YK_COLUMN_IGNORED;
    c->chosen = others || c->role == YK_COLUMN_IGNORED;
    if (t->own->header && !*c->name)
        yk_warn("%s: column %zu has no name, and is a feature: if it is the index of a pandas table, add "
                "ignore=%zu to the spec; otherwise, name it",
                t->base.spec, i + 1, i + 1);
}

yk_status yk_tabular_columns(yk_tabular *t)
{
    yk_schema *s = t->own;
    yk_status st;
    if (!(t->column = yk_arena_alloc(&t->base.arena, s->ncolumns + 1, sizeof *t->column, "columns")))
        return YK_ESYSTEM;
    if ((st = choose_split(t)) || (st = choose_carried(t)) || (st = choose_label(t)) ||
        (st = choose_weight(t)) || (st = choose_columns(t, "numeric", YK_COLUMN_NUMERIC)) ||
        (st = choose_columns(t, "categorical", YK_COLUMN_CATEGORICAL)) ||
        (st = choose_columns(t, "id", YK_COLUMN_ID)) || (st = choose_columns(t, "ignore", YK_COLUMN_IGNORED)))
        return st;
    if (t->base.options.schema)
        return yk__tabular_match(t);
    const bool others =
        yk_spec_text(&t->base.parsed, "numeric") && !yk_spec_text(&t->base.parsed, "categorical");
    for (size_t i = 0; i < s->ncolumns; i++) {
        yk_schema_column *c = &s->column[i];
        if (!c->chosen)
            choose_default(t, i, others);
        const bool label = c->role == YK_COLUMN_LABEL;
        t->column[i] = label || c->role == YK_COLUMN_WEIGHT || yk_is_feature(c) ? c : NULL;
    }
    return s->header && !t->base.options.inspects ? yk__tabular_unique(t) : YK_OK;
}

yk_status yk_tabular_row(const yk_tabular *t, yk_reader *r)
{
    if (t->base.options.fit)
        yk__fit_row(t->base.options.fit);
    return t->base.ncarry ? yk__carry_row(r) : YK_OK;
}

yk_status yk_tabular_text(const yk_tabular *t, yk_reader *r, size_t i, const char *text, size_t n)
{
    const bool all = t->carries_all; /* no search */
    for (size_t k = all ? i : 0; k < (all ? i + 1 : t->base.ncarry); k++)
        if (t->carry[k] == i)
            yk__carry(r, k, text, n);
    return t->base.options.fit ? yk__fit_text(t->base.options.fit, t->column[i], text, n) : YK_OK;
}

/* ---- the end of opening */

/* By default, the categories of the training rows are hashed into at least twice as many features as there can be values. */
static uint64_t default_features(const yk_tabular *t, uint64_t rows)
{
    enum { MIN_BITS = 16, MAX_BITS = 24 };
    int bits = MIN_BITS;
    const uint64_t values = rows * t->own->categories;
    while (bits < MAX_BITS && ((uint64_t)1 << bits) / 2 < values)
        bits++;
    return (uint64_t)1 << (t->base.options.bits_from_rows && rows ? bits : MAX_BITS);
}

static yk_status make_schema(yk_tabular *t, uint64_t rows)
{
    yk_schema *s = t->own;
    const char *files = yk_spec_text(&t->base.parsed, "fit");
    yk_status st = yk_schema_finish(s);
    if (st)
        return st;
    if (s->numeric + s->categories == 0)
        return yk_fail(YK_EDATA, "%s: no column is left besides the label%s", t->base.spec,
                       t->base.ops->parse ? "; if the delimiter is wrong, set it with delimiter=" : "");
    if (yk_schema_hashes(s) && !s->features)
        s->features = default_features(t, rows);
    if (yk_schema_hashes(s) && s->features <= s->numeric)
        return yk_fail(YK_EUSAGE, "%s: %llu feature%s not enough: the data has %zu numeric column%s",
                       t->base.spec, (unsigned long long)s->features, s->features == 1 ? " is" : "s are",
                       s->numeric, yk_plural(s->numeric));
    if (!yk__fit_needed(s))
        return files ? yk_fail(YK_EUSAGE, "%s: fit is for encode=onehot, encode=dense and scale=standard",
                               t->base.spec)
                     : YK_OK;
    if (!files && t->base.once)
        return yk_fail(YK_EUSAGE,
                       "%s: %s can be read only once: %s for encode=onehot, encode=dense and scale=standard",
                       t->base.spec, yk_source_once_name(&t->base),
                       t->base.ops->parse ? "add fit=FILES" : "read it into a table first");
    if (!files && t->base.split == YK_SPLIT_TEST)
        return yk_fail(YK_EUSAGE,
                       "%s: means and one-hot values must be those of the training data: add fit=FILES with "
                       "the training files",
                       t->base.spec);
    return (st = yk__fit(t)) ? st : yk_schema_finish(s);
}

/* Only hashing has a number of features to choose. */
static yk_status check_effect(const yk_tabular *t)
{
    static const char *const keys[] = {"bits", "features"};
    for (size_t i = 0; i < 2 && !yk_schema_hashes(t->schema); i++)
        if (yk_spec_text(&t->base.parsed, keys[i]))
            return yk_fail(YK_EUSAGE, "%s: %s has no effect: %s; leave it out", t->base.spec, keys[i],
                           t->schema->categories ? "categories are not hashed, but encoded by value"
                                                 : "there are no categorical columns");
    return YK_OK;
}

yk_status yk_tabular_finish(yk_tabular *t, uint64_t rows)
{
    yk_source *source = &t->base;
    yk_status st = t->base.options.schema ? yk__tabular_types(t) : make_schema(t, rows);
    const yk_schema *s = t->schema;
    st = st ? st : check_effect(t);
    if (!st && t->base.options.schema && s->values.n &&
        !(t->seen = yk_arena_alloc(&t->base.arena, s->ncolumns, sizeof *t->seen, "columns")))
        st = YK_ESYSTEM;
    const bool dense = yk_schema_dense(s);
    t->fields = t->fields && !dense;
    source->schema = s;
    source->kind = dense ? YK_ROWS_F32 : YK_ROWS_SPARSE;
    source->classes = s->nclasses;
    source->fields = t->fields ? (uint32_t)(s->numeric + s->categories) : 1;
    source->dim = (size_t)s->features;
    source->hashed_into = yk_schema_hashes(s) ? s->features : 0;
    return st;
}
