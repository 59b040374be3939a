#include "data/columns.h"

#include "base/number.h"
#include "data/tabular.h"
#include "format/parquet.h"
#include <stdio.h>
#include <strings.h>

/* ---- lists of words */

yk_status yk__words_split(const char *list, bool trim, yk__names *out)
{
    yk_status st = YK_OK;
    for (const char *p = list; p && !st; p = *p ? p + 1 : NULL) {
        const char *word = p;
        size_t n = strcspn(p, ",");
        p += n;
        if (trim)
            yk_cell_trim(&word, &n);
        st = yk__names_add(out, word, n);
    }
    return st;
}

size_t yk__words_find(const yk__names *w, const char *text, size_t n)
{
    size_t i = 0;
    while (i < w->n && (strlen(w->name[i]) != n || memcmp(w->name[i], text, n) != 0))
        i++;
    return i;
}

/* ---- cells */

int yk__word_number(const char *const *words, const char *text, size_t n)
{
    for (int i = 0; words[i]; i++)
        if (strlen(words[i]) == n && !memcmp(words[i], text, n))
            return i;
    return -1;
}

bool yk_cell_decimal(const char *text, size_t n, double *out)
{
    yk_cell_trim(&text, &n);
    double v;
    if (!n || yk_decimal_before(text, text + n, &v) != text + n || !isfinite(v))
        return false;
    *out = v;
    return true;
}

bool yk_cell_number(const char *text, size_t n, double *out)
{
    static const char *const words[] = {"false", "true", "False", "True", "FALSE", "TRUE", NULL};
    if (yk_cell_decimal(text, n, out))
        return true;
    yk_cell_trim(&text, &n);
    const int i = yk__word_number(words, text, n);
    if (i >= 0)
        *out = i % 2;
    return i >= 0;
}

/* ---- dates and times: ISO 8601, UTC or with an offset from it */

/* A number of `digits` digits, after a separator, which is one of the characters in `before` ("": no separator). */
static bool part(const char **p, const char *end, const char *before, int digits, int64_t *out)
{
    *out = 0;
    if (*before && (*p == end || !strchr(before, *(*p)++)))
        return false;
    for (; digits; digits--, (*p)++) {
        if (*p == end || **p < '0' || **p > '9')
            return false;
        *out = *out * 10 + (**p - '0');
    }
    return true;
}

/* Days since 1970 in the proleptic Gregorian calendar. Here years begin in March, so that a leap day is the last day of a year. */
static int64_t days_of(int64_t year, int64_t month, int64_t day)
{
    const int64_t y = month > 2 ? year : year - 1, m = month > 2 ? month - 3 : month + 9;
    return 365 * y + y / 4 - y / 100 + y / 400 + (153 * m + 2) / 5 + day - 719469;
}

/* Not strptime() and timegm(): they accept white space and missing digits, and threads would wait for their lock. */
static bool read_time(const char *p, const char *end, int64_t *days, double *seconds)
{
    int64_t year, month, day, hour, minute, second = 0;
    *seconds = 0.0;
    if (!part(&p, end, "", 4, &year) || !part(&p, end, "-", 2, &month) || !part(&p, end, "-", 2, &day) ||
        month < 1 || month > 12 || day < 1)
        return false;
    *days = days_of(year, month, day);
    if (*days >= (month < 12 ? days_of(year, month + 1, 1) : days_of(year + 1, 1, 1)))
        return false;
    if (p == end)
        return true;
    if (!part(&p, end, "T ", 2, &hour) || !part(&p, end, ":", 2, &minute) ||
        (p < end && *p == ':' && !part(&p, end, ":", 2, &second)) || hour > 23 || minute > 59 || second > 60)
        return false;
    *seconds = (double)(hour * 3600 + minute * 60 + second);
    if (p < end && *p == '.') {
        double unit = 1.0;
        for (p++; p < end && *p >= '0' && *p <= '9'; p++)
            *seconds += (*p - '0') * (unit /= 10.0);
    }
    if (p == end || (*p == 'Z' && p + 1 == end))
        return true;
    const double east = *p == '-' ? -1.0 : 1.0;
    if (!part(&p, end, "+-", 2, &hour) || !part(&p, end, ":", 2, &minute) || p != end || hour > 23 ||
        minute > 59)
        return false;
    *seconds -= east * (double)(hour * 3600 + minute * 60);
    return true;
}

char yk__time_kind(const char *type)
{
    return !strncasecmp(type, "timestamp", 9) ? 's' : !strncasecmp(type, "date", 4) ? 'd' : 0;
}

char yk__type_kind(const char *type)
{
    static const char *const any[] = {"", "empty", "null", "dictionary", NULL};
    static const char *const texts[] = {"text", "string", "binary",     "ENUM",
                                        "JSON", "BSON",   "BYTE_ARRAY", NULL};
    if (yk__word_number(any, type, strlen(type)) >= 0)
        return 0;
    for (size_t i = 0; texts[i]; i++)
        if (!strcasecmp(type, texts[i]))
            return 't';
    const char time = yk__time_kind(type);
    return time ? time : 'n';
}

bool yk_cell_number_of(const yk_schema_column *c, const char *text, size_t n, double *out)
{
    int64_t days;
    double seconds;
    if (yk_cell_number(text, n, out))
        return true;
    const char kind = yk__time_kind(c->type);
    yk_cell_trim(&text, &n);
    if (!kind || !read_time(text, text + n, &days, &seconds))
        return false;
    *out = kind == 'd' ? (double)days + floor(seconds / 86400.0) : (double)days * 86400.0 + seconds;
    return true;
}

/* 10, -3: these are the texts of these numbers. */
static bool is_whole(const char *text, size_t n)
{
    const char *const end = text + n;
    text += n && *text == '-';
    bool whole = text < end && (*text != '0' || text + 1 == end);
    for (; text < end; text++)
        whole &= *text >= '0' && *text <= '9';
    return whole;
}

/* A category that is not a text in the training data, as its formats write it: 3 for 3.0. The text itself, or in `out`. */
static const char *typed_text(const yk_schema_column *c, const char *text, size_t *n,
                              char out[YK_PARQUET_TEXT_SIZE])
{
    const char *const type = c->type, kind = yk__time_kind(type);
    const bool boolean = !strncasecmp(type, "bool", 4);
    double v;
    if ((!kind && !boolean && is_whole(text, *n)) || !yk_cell_number_of(c, text, *n, &v) || fabs(v) > 0x1p53)
        return text;
    const int64_t integer = (int64_t)v;
    const yk_parquet_form form = kind == 'd'                                          ? YK_PARQUET_DATE
                                 : kind == 's'                                        ? YK_PARQUET_TIME
                                 : boolean                                            ? YK_PARQUET_BOOLEAN
                                 : !strcmp(type, "float16")                           ? YK_PARQUET_HALF
                                 : !strcmp(type, "float32") || !strcmp(type, "FLOAT") ? YK_PARQUET_FLOAT
                                                                                      : YK_PARQUET_NUMBER;
    const bool whole = kind == 'd' || (boolean && (v == 0.0 || v == 1.0));
    yk_parquet_number_text(
        &(yk_parquet_values){.integer = whole ? &integer : NULL, .real = whole ? NULL : &v, .form = form}, 0,
        out);
    *n = strlen(out);
    return out;
}

bool yk_cell_missing(const yk_schema *s, const char *text, size_t n, bool numeric)
{
    static const char *const names[] = {"NA", "N/A", "NaN", "nan", "NULL", "null", "None", "\\N", NULL};
    double v;
    if (n == 0 || (s->missing.n && yk__words_find(&s->missing, text, n) != s->missing.n))
        return true;
    if (!numeric || (strchr("Nn\\", *text) && yk__word_number(names, text, n) >= 0))
        return numeric;
    if (s->nmissing && yk_cell_number(text, n, &v))
        return yk_number_missing(s, v);
    yk_cell_trim(&text, &n);
    return n == 0;
}

/* ---- rows */

static bool class_of_number(yk_tabular *t, double v, int32_t *out)
{
    const yk_schema *s = t->schema;
    if (!yk__is_class(v) || !yk__labels_agree(&t->labels_seen, (int32_t)v) ||
        (s->nclasses && v >= (double)s->nclasses))
        return false;
    *out = v < 0.0 ? 0 : (int32_t)v;
    return true;
}

/* By the name of a class or, if no class has this name, by its value: 10.0 is the class 10. */
static bool class_of_text(yk_tabular *t, const yk_schema_column *c, const char *text, size_t n, int32_t *out)
{
    const yk_schema *s = t->schema;
    double v;
    if (!s->classes.n)
        return n && yk_cell_number(text, n, &v) && class_of_number(t, v, out);
    yk_cell_trim(&text, &n);
    size_t i = yk__words_find(&s->classes, text, n);
    if (i == s->classes.n && yk_cell_number_of(c, text, n, &v))
        for (i = 0; i < s->classes.n && s->class_number[i] != v;)
            i++;
    *out = (int32_t)i;
    return i != s->classes.n;
}

/* A weight, or a label that is a number. */
static bool put_number(yk_row *w, const yk_schema_column *c, double v)
{
    if (c->role == YK_COLUMN_LABEL)
        w->of.target = (float)v;
    else
        w->of.weight = (float)v;
    return isfinite((float)v) && (c->role == YK_COLUMN_LABEL || v >= 0.0);
}

static bool is_number(const yk_tabular *t, const yk_schema_column *c)
{
    return c->role == YK_COLUMN_WEIGHT || (c->role == YK_COLUMN_LABEL && t->base.options.numbers);
}

bool yk_row_text(yk_row *w, yk_tabular *t, const yk_schema_column *c, const char *text, size_t n)
{
    const yk_schema *s = t->schema;
    char typed[YK_PARQUET_TEXT_SIZE];
    double v;
    if (is_number(t, c))
        return n && yk_cell_number_of(c, text, n, &v) && put_number(w, c, v);
    if (c->role == YK_COLUMN_LABEL)
        return class_of_text(t, c, text, n, &w->of.label);
    if (c->typed && t->base.ops->parse)
        text = typed_text(c, text, &n, typed);
    if (!yk_is_feature(c) || yk_cell_missing(s, text, n, c->role == YK_COLUMN_NUMERIC))
        return true;
    if (c->role == YK_COLUMN_NUMERIC)
        return yk_cell_number_of(c, text, n, &v) && yk_row_scaled(w, s, c, v);
    const uint64_t hash = yk_cell_hash(c->salt, text, n);
    yk_row_hash(w, s, c, hash);
    if (t->base.options.names && s->encode == YK_ENCODE_HASH) {
        char number[32];
        const char *name = yk_schema_title(s, c, number);
        yk_source_named(&t->base, (uint32_t)s->numeric + yk_key_id(hash, s->features - s->numeric), name,
                        strlen(name), '=', text, n);
    }
    return true;
}

bool yk_row_number(yk_row *w, yk_tabular *t, const yk_schema_column *c, double v)
{
    return is_number(t, c) ? put_number(w, c, v) : class_of_number(t, v, &w->of.label);
}

/* ---- errors */

static bool is_decimal(const char *text, size_t n)
{
    double v;
    yk_cell_trim(&text, &n);
    return n && memchr("+-.0123456789", *text, 13) && yk_decimal_before(text, text + n, &v) == text + n &&
           !isnan(v);
}

const char *yk_cell_comma_hint(const char *text, size_t n)
{
    const char *comma = memchr(text, ',', n), *end = text + n;
    return comma && is_decimal(text, (size_t)(comma - text)) && comma + 1 < end &&
                   is_decimal(comma + 1, (size_t)(end - comma) - 1)
               ? "; numbers need a decimal point, not a comma"
               : "";
}

static void label_fault(const yk_schema *s, const char *name, const char *text, size_t n, char out[400])
{
    char token[48];
    double v;
    yk__text_show(text, n, token);
    if (!n)
        snprintf(out, 400, "%s: the label is missing; label=NAME or label=NUMBER chooses another column",
                 name);
    else if (s->classes.n)
        snprintf(out, 400, "%s: the label '%s' is not listed in classes=", name, token);
    else if (!yk_cell_number(text, n, &v))
        snprintf(out, 400,
                 "%s: the label '%s' is not a number; list the classes with classes=NAME,NAME, or choose "
                 "another column with label=",
                 name, token);
    else if (s->nclasses && v >= 0.0 && v == floor(v))
        snprintf(out, 400, "%s: the label '%s' is out of range: classes=%u allows 0 to %u", name, token,
                 s->nclasses, s->nclasses - 1);
    else
        snprintf(out, 400,
                 "%s: the label '%s' is not a class (-1 and 1, or whole numbers from 0 to %d); label= "
                 "chooses another column; " YK__REGRESSION,
                 name, token, YK__MAX_LABEL);
}

void yk_cell_fault(const yk_tabular *t, size_t i, const char *text, size_t n, char out[400])
{
    const char kind = yk__time_kind(t->column[i]->type);
    char name[80], token[48];
    yk_tabular_name(t, i, name);
    yk__text_show(text, n, token);
    if (t->column[i]->role == YK_COLUMN_WEIGHT)
        snprintf(out, 400, "%s: the weight '%s' is not a non-negative number", name, token);
    else if (is_number(t, t->column[i]))
        snprintf(out, 400,
                 "%s: the label '%s' is not a number; label= chooses another column, and --loss logistic or "
                 "softmax is for classes",
                 name, token);
    else if (t->column[i]->role == YK_COLUMN_LABEL)
        label_fault(t->schema, name, text, n, out);
    else if (is_decimal(text, n))
        snprintf(out, 400, "%s: %s is too large for a 32-bit float", name, token);
    else if (kind == 'd' || kind == 's')
        snprintf(out, 400, "%s: '%s' is not a %s such as %s, as in the training data", name, token,
                 kind == 'd' ? "date" : "time", kind == 'd' ? "2024-02-29" : "2024-02-29 12:30:00");
    else if (t->schema != t->own && !t->base.options.fit)
        snprintf(out, 400, "%s: '%s' is not a number%s; the column is numeric in the model", name, token,
                 yk_cell_comma_hint(text, n));
    else
        snprintf(out, 400,
                 "%s: '%s' is not a number%s; if the column is not numeric, add it to categorical= or "
                 "ignore=; if it stands for a missing value, add it to missing=",
                 name, token, yk_cell_comma_hint(text, n));
}
