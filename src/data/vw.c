/* vw:FILES, Vowpal Wabbit's text, plain or compressed, with an example on each line:
 *
 *     [LABEL [IMPORTANCE [INITIAL]]] ['TAG]|NAMESPACE[:WEIGHT] NAME[:VALUE] NAME[:VALUE] ... |NAMESPACE ...
 *
 *     1 |user age:0.31 paris |ad:0.5 shoes sale
 *     -1 'case-17|user age:0.54 rome |ad hats
 *
 * A feature is (namespace, name), with the value 1 by default; the weight of a namespace multiplies its values. The hashing
 * trick (Weinberger et al. 2009): its index is a hash of both below N, as in columns.h, also if the name is a number. N is 2^24,
 * or set by `?bits=B`, `?features=N`, --hash-bits or --features. Indices differ from those of Vowpal Wabbit. Values with the same
 * index are added; features with the value 0 are left out. A value that is not a number belongs to the name: city:paris.
 *
 * Labels -1/+1 and 0/1 are two classes; other labels are class numbers, from 1 with `?base=1`. The word before the first '|' is a tag
 * if it touches the '|' or begins with an apostrophe; tags are skipped. Examples have no weights here: an importance
 * other than 1, or an initial prediction other than 0, is a bad record unless `?weights=ignore` is given.
 *
 * Fields are the namespaces in the order of `?namespaces=user,ad`, because their order in the files may differ between training
 * and test data. A namespace that is not listed is a bad record. `default` is the one without a name.
 */
#include "data/columns.h"

#include "base/mem.h"
#include "base/number.h"
#include <math.h>
#include <stdlib.h>
#include <strings.h>

enum { MAX_LABEL = 1000000 };

typedef struct {
    yk_text_source text;
    uint64_t features;
    uint64_t base; /* the first class */
    bool fields;
    bool ignore_weights;
    yk__names namespaces; /* none: any */
    atomic_uint seen;     /* kinds of labels that any reader has seen */
} vw;

/* A feature: the upper half of a word is that of its hash (little endian), so that words are in the order of indices. */
typedef union {
    uint64_t word;
    struct {
        float value;
        uint32_t hash;
    };
} feature;

typedef struct {
    yk_text_reader text;
    feature *feature; /* [2 max] of a line: in its order, then sorted */
    uint16_t *field;  /* [max] */
    size_t feature_cap, field_cap;
} vw_reader;

/* The namespace that is being read. */
typedef struct {
    const char *name; /* [length] */
    size_t length;
    uint64_t salt;
    float weight;
    uint16_t field;
} space;

/* Also control characters, and so the bytes that end a line. */
static bool is_blank(char c)
{
    return (unsigned char)c <= ' ';
}

static bool ends_token(const char *p, const char *end)
{
    return p == end || is_blank(*p) || *p == '|';
}

/* The parsers return what follows the part that they read, or NULL if it is bad, with the status of the line in r->status. */

/* ---- before the first '|' */

static const char *end_of_word(const char *p, const char *end)
{
    while (p != end && !is_blank(*p))
        p++;
    return p;
}

static yk_status bad_label(yk_text_reader *r, const char *p, const char *bar)
{
    char token[48];
    double v;
    yk__text_show(p, (size_t)(end_of_word(p, bar) - p), token);
    if (p != bar && yk_decimal_before(p, bar, &v) == bar)
        return yk__text_bad(
            r, p, "no label: '%s' touches the '|', so it is a tag; put a blank before the '|'", token);
    if (p == bar || *p == '\'' || end_of_word(p, bar) == bar)
        return yk__text_bad(r, p, "no label; only yoke predict accepts lines without a label");
    return yk__text_bad(
        r, p, "the label '%s' is not a class: -1 and +1, or a whole number from %d to %d%s", token,
        (int)((const vw *)r->base.base.source)->base, MAX_LABEL,
        memchr(token, ':', strlen(token)) ? "; labels with costs or probabilities are not supported" : "");
}

static const char *skip_blanks(const char *p, const char *end)
{
    while (p != end && is_blank(*p))
        p++;
    return p;
}

/* The words after the label: the importance, which must be 1, the initial prediction, which must be 0, and the tag. `i`: how many
 * of the first two there were before p. */
static bool parse_weights(yk_text_reader *r, const char *p, const char *bar, int i)
{
    static const char *const name[] = {"importance weight", "initial prediction"};
    const vw *s = (const vw *)r->base.base.source;
    char token[48];
    for (;; i++) {
        p = skip_blanks(p, bar);
        const char *after = end_of_word(p, bar);
        double v;
        const bool number = yk_decimal_before(p, after, &v) == after && p != after;
        if (i == 0 && number && after == bar)
            return yk__text_bad(
                       r, p,
                       "a number that touches the '|' is a tag: put an apostrophe before it, or a blank "
                       "after it if it is the importance"),
                   false;
        if (after == bar || (*p == '\'' && skip_blanks(after, bar) == bar)) /* no more words, or a tag */
            return true;
        yk__text_show(p, (size_t)(after - p), token);
        if (i > 1 || !number)
            return yk__text_bad(r, p, "'%s' is neither a number nor a tag, which begins with an apostrophe",
                                token),
                   false;
        if (v != 1.0 - i && !s->ignore_weights && !r->base.base.source->unlabeled)
            return yk__text_bad(r, p,
                                "the %s is %s, but only %d is supported; remove it, repeat the line, or add "
                                "?weights=ignore",
                                name[i], token, 1 - i),
                   false;
        p = after;
    }
}

static bool parse_label(yk_text_reader *r, const char *p, const char *bar, int32_t *label_out)
{
    vw *s = (vw *)r->base.base.source;
    p = skip_blanks(p, bar);
    const char *after = end_of_word(p, bar);
    double v;
    *label_out = 0;
    if ((after == bar || *p == '\'') && r->base.base.source->unlabeled)
        return parse_weights(r, p, bar, 1);
    if (after == bar || yk_decimal_before(p, after, &v) != after || !(v >= -1.0 && v <= MAX_LABEL) ||
        v != (double)(int32_t)v || (s->base && v < 1.0))
        return bad_label(r, p, bar), false;
    const int32_t label = (int32_t)v;
    if (!yk__labels_agree(&s->seen, label))
        return yk__text_bad(
                   r, p, "the label %d does not match the others: with -1 the only other label is +1", label),
               false;
    *label_out = label < 0 ? 0 : label - (int32_t)s->base;
    after = skip_blanks(after, bar);
    return after == bar || parse_weights(r, after, bar, 0);
}

/* ---- features */

/* Finds bytes below `limit` in a word: the lowest set bit marks the first one. */
static inline uint64_t find_below(uint64_t x, char limit)
{
    return (x - YK__BYTES(limit)) & ~x & YK__BYTES(0x80);
}

/* Finds a blank, ':' or '|'. */
static inline uint64_t find_end(uint64_t x)
{
    return find_below(x, ' ' + 1) | find_below(x ^ YK__BYTES(':'), 1) | find_below(x ^ YK__BYTES('|'), 1);
}

/* Reads a name up to a blank, ':' or '|', and hashes it in the same pass. The line ends with a blank. */
static inline const char *hash_name(const char *p, uint64_t salt, uint64_t *hash_out)
{
    const char *const first = p;
    uint64_t x, hit, h = salt;
    memcpy(&x, p, sizeof x);
    for (; !(hit = find_end(x)); p += 8, memcpy(&x, p, sizeof x))
        h = yk__cell_hash_word(h, x);
    p += __builtin_ctzll(hit) >> 3;
    *hash_out = yk__cell_hash_end(h, x, (size_t)(p - first));
    return p;
}

/* A number. The frequent case, 0.123456, needs no branch on the number of digits, which would be unpredictable. */
static inline const char *parse_value(const char *p, const char *end, double *out)
{
    static const double power[] = {1e0, 1e1, 1e2, 1e3, 1e4, 1e5, 1e6, 1e7};
    uint64_t x;
    memcpy(&x, p, sizeof x);
    if ((x & 0xffff) == ('0' | '.' << 8)) {
        memcpy(&x, p + 2, sizeof x);
        x ^= YK__BYTES('0');
        const uint64_t ends = (x | (x + YK__BYTES(0x80 - 10))) & YK__BYTES(0x80); /* not digits */
        const unsigned n = ends ? (unsigned)__builtin_ctzll(ends) >> 3 : 8;
        if (n - 1 < 7 && ends_token(p + 2 + n, end)) {
            *out = (double)yk__text_number(x << (64 - 8 * n)) / power[n];
            return p + 2 + n;
        }
    }
    return yk_decimal_before(p, end, out);
}

static const char *bad_value(yk_text_reader *r, const char *at, const char *token, const char *reason)
{
    char text[48];
    size_t n = 0;
    while (n <= 40 && (unsigned char)token[n] > ' ' && token[n] != '|')
        n++;
    yk__text_bad(r, at, "the value in '%s' %s", yk__text_show(token, n, text), reason);
    return NULL;
}

/* A value that is not a number: text, as in city:paris, or a mistake. `name`: where the feature begins. */
static const char *parse_text(yk_text_reader *r, const char *name, const char *p, const char *end,
                              uint64_t salt, uint64_t *hash_out)
{
    const char *after = p;
    double v;
    while (!ends_token(after, end) && *after != ':')
        after++;
    const size_t n = (size_t)(after - p);
    const char *number = yk_decimal_before(p, after, &v);
    if (n == 0)
        return bad_value(r, p, name, "is missing");
    if (!ends_token(after, end))
        return bad_value(r, after, name, "has a ':'; a feature is NAME or NAME:VALUE");
    if (number && *number == ',')
        return bad_value(r, number, name, "is not a number; write a decimal point instead of the comma");
    for (size_t sign = *p == '-' || *p == '+', k = 0; k < 3; k++) {
        static const char *const names[] = {"nan", "inf", "infinity"};
        if (strlen(names[k]) == n - sign && !strncasecmp(p + sign, names[k], n - sign))
            return bad_value(r, p, name, "is not a finite number");
    }
    *hash_out = yk_cell_hash(salt, name, (size_t)(after - name));
    return after;
}

static const char *parse_namespace(yk_text_reader *r, const char *p, const char *end, space *out)
{
    const vw *s = (const vw *)r->base.base.source;
    const char *const first = p;
    char token[48];
    p = hash_name(p, 0, &out->salt);
    const size_t n = (size_t)(p - first);
    const size_t field = s->namespaces.n ? n ? yk__words_find(&s->namespaces, first, n)
                                             : yk__words_find(&s->namespaces, "default", 7)
                                         : 0;
    if (s->namespaces.n && field == s->namespaces.n)
        return yk__text_bad(r, first, "the namespace '%s' is not in ?namespaces=",
                            n ? yk__text_show(first, n, token) : "default"),
               NULL;
    out->name = first;
    out->length = n;
    out->field = (uint16_t)field;
    out->weight = 1.0f;
    if (p == end || *p != ':')
        return p;
    double v;
    const char *after = yk_decimal_before(++p, end, &v);
    if (!after || !ends_token(after, end) || !isfinite((float)v))
        return yk__text_bad(r, p, "the weight of the namespace '%s' is not a number",
                            yk__text_show(first, n, token)),
               NULL;
    out->weight = (float)v;
    return after;
}

/* The features from the first '|' on. Returns their number; SIZE_MAX: the line is bad. */
static size_t parse_features(vw_reader *reader, const char *p, const char *end)
{
    yk_text_reader *r = &reader->text;
    const vw *s = (const vw *)r->base.base.source;
    const bool fields = s->fields;
    space in = {0};
    size_t n = 0;
    while (p != end) {
        if (is_blank(*p)) {
            p++;
            continue;
        }
        if (*p == '|') {
            if (!(p = parse_namespace(r, p + 1, end, &in)))
                return SIZE_MAX;
            continue;
        }
        const char *const name = p;
        uint64_t hash;
        float value = in.weight;
        p = hash_name(p, in.salt, &hash);
        size_t length = (size_t)(p - name);
        if (p != end && *p == ':') {
            double v = 1.0;
            const char *const after = p == name ? NULL : parse_value(++p, end, &v);
            if (p == name)
                return yk__text_bad(r, p, "a feature has no name before the ':'"), SIZE_MAX;
            p = after && ends_token(after, end) ? after : parse_text(r, name, p, end, in.salt, &hash);
            if (!p)
                return SIZE_MAX;
            length = p == after ? length : (size_t)(p - name);
            value = p == after ? (float)v * in.weight : value;
            if (!isfinite(value))
                return bad_value(r, name, name, "is too large"), SIZE_MAX;
        }
        yk_source_named(&s->text.base.base, yk_key_id(hash, s->features), in.name, in.length, '^', name,
                        length);
        reader->feature[n] = (feature){.value = value, .hash = (uint32_t)(hash >> 32)};
        if (fields)
            reader->field[n] = in.field;
        n += value != 0.0f;
    }
    return n;
}

/* ---- rows */

/* Entries with fields are sorted by yk_rows_commit(). */
static yk_status put_row(vw_reader *r, size_t n, int32_t label, yk_rows *rows)
{
    const vw *s = (const vw *)r->text.base.base.source;
    uint32_t *index;
    float *value;
    uint16_t *field;
    yk_status st = yk_rows_sparse(rows, n, &index, &value);
    if (st || (s->fields && (st = yk_rows_fields(rows, n, &field))))
        return st;
    feature *f = r->feature;
    size_t out = 0;
    if (s->fields)
        memcpy(field, r->field, n * sizeof *field);
    else
        yk__sort_words(&r->feature->word, n, &(f += n)->word);
    for (size_t i = 0; i < n; i++) {
        const uint32_t id = yk_key_id(f[i].word, s->features);
        if (!s->fields && out && index[out - 1] == id) {
            value[out - 1] += f[i].value;
        } else {
            index[out] = id;
            value[out++] = f[i].value;
        }
    }
    return yk_rows_commit(rows, out, label);
}

static yk_status parse_line(yk_text_reader *r, const char *line, size_t length, yk_rows *rows,
                            bool *added_out)
{
    vw_reader *reader = (vw_reader *)r;
    const char *const bar = memchr(line, '|', length);
    const size_t max = length / 2 + 1; /* "a " is the shortest feature */
    int32_t label;
    yk_status st;
    if (!bar && skip_blanks(line, line + length) == line + length)
        return YK_OK; /* Vowpal Wabbit ends examples of several lines with an empty line */
    if (!bar)
        return yk__text_bad(r, line, "no '|' before the features");
    if ((st = YK_RESERVE(reader->feature, reader->feature_cap, 2 * max, "features of a line")) ||
        (st = YK_RESERVE(reader->field, reader->field_cap, max, "features of a line")))
        return st;
    if (!parse_label(r, line, bar, &label))
        return r->status;
    const size_t n = parse_features(reader, bar, line + length);
    if (n == SIZE_MAX)
        return r->status;
    st = put_row(reader, n, label, rows);
    *added_out = !st;
    return st;
}

static bool is_row(const yk_text_reader *r, const char *line, size_t length)
{
    (void)r;
    return memchr(line, '|', length);
}

/* ---- the source */

static yk_status vw_open(yk_source *source, yk_spec *spec, yk_split split, const yk_source_options *o)
{
    (void)split;
    vw *s = (vw *)source;
    s->features = yk__spec_keys(spec, o, 24, UINT32_MAX).features;
    s->base = yk_spec_u64(spec, "base", 0, 0, 1);
    s->ignore_weights = yk_spec_choice(spec, "weights", "ignore", -1) == 0;
    const bool one = yk_spec_choice(spec, "fields", "one", -1) == 0;
    yk_status st = spec->status
                       ? spec->status
                       : yk__words_split(yk_spec_text(spec, "namespaces", NULL), true, &s->namespaces);
    if (st)
        return st;
    if (s->namespaces.n > UINT16_MAX)
        return yk_fail(YK_EUSAGE, "%s: more than %d namespaces", spec->text, UINT16_MAX);
    if (!one && !s->namespaces.n && o->fields == YK_FIELDS_ALL)
        return yk_fail(YK_EUSAGE,
                       "%s: the model needs fields, which are the namespaces: list them, as in "
                       "?namespaces=user,ad, or add ?fields=one",
                       spec->text);
    s->fields = !one && s->namespaces.n && o->fields != YK_FIELDS_NONE;
    s->text.parse = parse_line;
    s->text.is_row = is_row;
    source->fields = s->fields ? (uint32_t)s->namespaces.n : 1;
    source->dim = (size_t)s->features;
    source->hashed_into = s->features;
    return yk__text_open(&s->text, spec->where);
}

static void vw_free(yk_source *source)
{
    yk__names_fini(&((vw *)source)->namespaces);
    yk__file_free(source);
}

static void vw_reader_close(yk_reader *reader)
{
    vw_reader *r = (vw_reader *)reader;
    free(r->feature);
    free(r->field);
    yk__file_reader_close(reader);
}

const yk_source_ops yk__vw_source = {
    .name = "vw",
    .usage = "vw:FILES",
    .options = "base bits features fields namespaces weights",
    .record = "line",
    .is_text = true,
    .source_size = sizeof(vw),
    .reader_size = sizeof(vw_reader),
    .open = vw_open,
    .free = vw_free,
    .reader_open = yk__text_reader_open,
    .reader_close = vw_reader_close,
    .reader_check = yk__file_reader_check,
    .next = yk__text_next,
    .count = yk__text_count,
};
