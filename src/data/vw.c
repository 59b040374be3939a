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
 * if it touches the '|' or begins with an apostrophe; predictions can carry it, as the column `tag`. The importance is
 * the weight of the example. `?weights=ignore` ignores it, and also initial predictions other than 0, which are bad records otherwise.
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

/* ---- the bytes that end a name, a value or a namespace in Vowpal Wabbit text: blanks, ':' and '|'. They are found in blocks of 64
 * bytes before the features are parsed: a loop that finds the end of a token before it begins the next one waits for each result.
 *
 *     ends e;
 *     find_ends(&e, line, end);            // e.at[0 .. e.n - 1], up to the end of the line or until there are enough for now
 *
 * *end must be one of these bytes, and the 63 bytes after it must be readable. e.at may include some that are after `end`.
 */
enum { MAX_ENDS = 256 };

typedef struct {
    const char *at[MAX_ENDS + 68]; /* [n] */
    size_t n;
} ends;

/* Bit i: byte i of 64 ends a token. */
static inline uint64_t ends_of_64(const char *p)
{
    uint64_t found = 0;
#ifdef __SSE2__
    typedef uint8_t bytes __attribute__((vector_size(16)));
    typedef char mask __attribute__((vector_size(16)));
    for (int i = 0; i < 4; i++) {
        bytes x;
        memcpy(&x, p + 16 * i, sizeof x);
        const mask hit = (mask)((x <= ' ') | (x == ':') | (x == '|'));
        found |= (uint64_t)(uint32_t)__builtin_ia32_pmovmskb128(hit) << 16 * i;
    }
#else
    for (int i = 0; i < 8; i++) {
        const uint64_t low = YK__BYTES(0x7f);
        uint64_t x;
        memcpy(&x, p + 8 * i, sizeof x);
        const uint64_t colon = x ^ YK__BYTES(':'), bar = x ^ YK__BYTES('|');
        const uint64_t others = (((x & low) + YK__BYTES(0x7f - ' ')) | x) & (((colon & low) + low) | colon) &
                                (((bar & low) + low) | bar);
        found |= ((~others & YK__BYTES(0x80)) >> 7) * 0x0102040810204080u >> 56 << 8 * i;
    }
#endif
    return found;
}

static void find_ends(ends *e, const char *p, const char *end)
{
    size_t n = 0;
    for (; p <= end && n < MAX_ENDS; p += 64) {
        uint64_t found = ends_of_64(p);
        do { /* four at a time: the end of a loop over single bits is unpredictable */
            for (int i = 0; i < 4; i++, found &= found - 1) {
                e->at[n] = p + __builtin_ctzll(found | (uint64_t)1 << 63);
                n += found != 0;
            }
        } while (found);
    }
    e->n = n;
}

/* ---- the source */

typedef struct {
    yk_source base;
    uint64_t features;
    uint64_t first_class; /* 0 or 1 */
    bool fields;
    bool ignore_weights;
    atomic_uint seen; /* kinds of labels that any reader has seen */
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

/* A function that fails leaves the status of the line in r->status. */

/* A number of n characters; false: it is not one. The frequent cases, 7 and 0.123456, need no branch on the number of digits, which
 * would be unpredictable. */
static inline bool parse_value(const char *p, size_t n, double *out)
{
    static const double power[] = {1e0, 1e1, 1e2, 1e3, 1e4, 1e5, 1e6, 1e7, 1e8};
    const char *const end = p + n;
    uint64_t x;
    uint32_t digits;
    memcpy(&x, p, sizeof x);
    if ((x >> 8 & 255) == '.' && (x & 255) - '0' < 10 && n - 3 < 8) {
        const double whole = (double)((x & 255) - '0');
        memcpy(&x, p + 2, sizeof x);
        if (yk__text_digits(x, n - 2, &digits)) {
            *out = (whole * power[n - 2] + (double)digits) / power[n - 2];
            return true;
        }
    } else if (n - 1 < 8 && yk__text_digits(x, n, &digits)) {
        *out = (double)digits;
        return true;
    }
    return n && yk_decimal_before(p, end, out) == end;
}

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
    return yk__text_bad(r, p, "the label '%s' is not a class: -1 and +1, or a whole number from %d to %d%s",
                        token, (int)((const vw *)r->base.source)->first_class, YK__MAX_LABEL,
                        memchr(token, ':', strlen(token))
                            ? "; labels with costs or probabilities are not supported"
                            : "; " YK__REGRESSION);
}

static const char *skip_blanks(const char *p, const char *end)
{
    while (p != end && is_blank(*p))
        p++;
    return p;
}

/* The words after the label: the importance, the initial prediction, which must be 0, and the tag. `i`: how many of the first two
 * there were before p. */
static bool parse_weights(yk_text_reader *r, const char *p, const char *bar, int i, float *weight_out)
{
    const vw *s = (const vw *)r->base.source;
    char token[48];
    for (;; i++) {
        p = skip_blanks(p, bar);
        const char *after = end_of_word(p, bar);
        double v;
        const bool number = yk_decimal_before(p, after, &v) == after && p != after;
        if (i == 0 && number && after == bar)
            return YK__TEXT_BAD(r, p,
                                "a number that touches the '|' is a tag: put an apostrophe before it, or a "
                                "blank after it if it is the importance weight");
        if (after == bar || (*p == '\'' && skip_blanks(after, bar) == bar)) /* no more words, or a tag */
            return true;
        yk__text_show(p, (size_t)(after - p), token);
        if (i > 1 || !number)
            return YK__TEXT_BAD(r, p, "'%s' is neither a number nor a tag; tags begin with an apostrophe",
                                token);
        if (i == 0 && !(v >= 0.0 && isfinite((float)v)))
            return YK__TEXT_BAD(r, p, "the importance weight %s is negative", token);
        if (i == 1 && v != 0.0 && !s->ignore_weights && !r->base.source->options.unlabeled)
            return YK__TEXT_BAD(r, p,
                                "the initial prediction is %s, but only 0 is supported; remove it, or add "
                                "?weights=ignore",
                                token);
        if (i == 0 && !s->ignore_weights)
            *weight_out = (float)v;
        p = after;
    }
}

static bool parse_label(yk_text_reader *r, const char *p, const char *bar, yk__label *out)
{
    vw *s = (vw *)r->base.source;
    const bool numbers = s->base.options.numbers;
    p = skip_blanks(p, bar);
    const char *after = end_of_word(p, bar);
    double v = 0.0;
    *out = (yk__label){.weight = 1.0f};
    if ((after == bar || *p == '\'') && r->base.source->options.unlabeled)
        return parse_weights(r, p, bar, 1, &out->weight);
    const bool number = after != bar && parse_value(p, (size_t)(after - p), &v) && isfinite((float)v);
    out->target = (float)v;
    if (!number || (!numbers && (!yk__is_class(v) || (s->first_class && v < 1.0))))
        return bad_label(r, p, bar), false;
    const int32_t label = numbers ? 0 : (int32_t)v;
    if (!numbers && !yk__labels_agree(&s->seen, label))
        return YK__TEXT_BAD(
            r, p, "the label %d does not match earlier labels: -1 can only be combined with +1", label);
    out->label = label < 0 || numbers ? 0 : label - (int32_t)s->first_class;
    after = skip_blanks(after, bar);
    return after == bar || parse_weights(r, after, bar, 0, &out->weight);
}

/* ---- features */

static inline uint64_t hash_name(uint64_t salt, const char *p, size_t n)
{
    const char *const last = p + (n & ~(size_t)7);
    uint64_t x, h = salt;
    for (memcpy(&x, p, sizeof x); p != last; memcpy(&x, p, sizeof x)) {
        h = yk__cell_hash_word(h, x);
        p += 8;
    }
    return yk__cell_hash_end(h, x, n);
}

static bool bad_value(yk_text_reader *r, const char *at, const char *token, const char *reason)
{
    char text[48];
    size_t n = 0;
    while (n <= 40 && (unsigned char)token[n] > ' ' && token[n] != '|')
        n++;
    yk__text_bad(r, at, "the value in '%s' %s", yk__text_show(token, n, text), reason);
    return false;
}

/* A value from p to `after` that is not a number: text, as in city:paris, or a mistake. `name`: where the feature begins. */
static bool check_text(yk_text_reader *r, const char *name, const char *p, const char *after)
{
    const size_t n = (size_t)(after - p);
    double v;
    const char *number = yk_decimal_before(p, after, &v);
    if (n == 0)
        return bad_value(r, p, name, "is missing");
    if (*after == ':')
        return bad_value(r, after, name, "contains a second ':'; a feature is NAME or NAME:VALUE");
    if (number && *number == ',')
        return bad_value(r, number, name, "is not a number; write a decimal point instead of the comma");
    for (size_t sign = *p == '-' || *p == '+', k = 0; k < 3; k++) {
        static const char *const names[] = {"nan", "inf", "infinity"};
        if (strlen(names[k]) == n - sign && !strncasecmp(p + sign, names[k], n - sign))
            return bad_value(r, p, name, "is not a finite number");
    }
    return true;
}

/* The namespace of n bytes at p. n_weight: the number of bytes of its weight, after a ':'; SIZE_MAX: none. false: it is bad. */
static bool parse_namespace(yk_text_reader *r, const char *p, size_t n, size_t n_weight, space *out)
{
    const vw *s = (const vw *)r->base.source;
    const bool listed = s->base.names.n;
    const size_t field = !listed ? 0
                         : n     ? yk__words_find(&s->base.names, p, n)
                                 : yk__words_find(&s->base.names, "default", 7);
    char token[48];
    double v = 1.0;
    if (listed && field == s->base.names.n)
        return YK__TEXT_BAD(r, p, "the namespace '%s' is not listed in ?namespaces=",
                            n ? yk__text_show(p, n, token) : "default");
    if (n_weight != SIZE_MAX && (!parse_value(p + n + 1, n_weight, &v) || !isfinite((float)v)))
        return YK__TEXT_BAD(r, p + n + 1, "the weight of the namespace '%s' is not a number",
                            yk__text_show(p, n, token));
    *out = (space){p, n, hash_name(0, p, n), (float)v, (uint16_t)field};
    return true;
}

/* The feature at p, which ends at *end or, with a value, at end[1]. Returns the number of token ends that it uses; 0: it is bad. */
static inline size_t parse_feature(yk_text_reader *r, const space *in, const char *p, const char *const *end,
                                   feature *out)
{
    const yk_source *s = r->base.source;
    size_t length = (size_t)(*end - p), used = 1;
    uint64_t hash = hash_name(in->salt, p, length);
    float value = in->weight;
    double v;
    if (**end == ':') {
        used = 2;
        if (length == 0)
            return yk__text_bad(r, p, "a feature has no name before the ':'"), 0;
        if (*end[1] != ':' && parse_value(*end + 1, (size_t)(end[1] - *end) - 1, &v))
            value *= (float)v;
        else if (check_text(r, p, *end + 1, end[1]))
            hash = hash_name(in->salt, p, length = (size_t)(end[1] - p));
        else
            return 0;
        if (!isfinite(value))
            return bad_value(r, p, p, "is too large"), 0;
    }
    if (s->options.names)
        yk_source_named(s, yk_key_id(hash, ((const vw *)s)->features), in->name, in->length, '^', p, length);
    *out = (feature){.value = value, .hash = (uint32_t)(hash >> 32)};
    return used;
}

/* The features from the first '|' on. Returns their number; SIZE_MAX: the line is bad. */
static size_t parse_features(vw_reader *reader, const char *bar, const char *end)
{
    yk_text_reader *r = &reader->text;
    feature *const list = reader->feature;
    uint16_t *const field = ((const vw *)r->base.source)->fields ? reader->field : NULL;
    space in = {0};
    ends e;
    size_t n = 0;
    find_ends(&e, bar, end);
    for (size_t i = 0; e.at[i] != end;) {
        if (i + 2 >= e.n && e.at[e.n - 1] < end) { /* a feature may use two more */
            find_ends(&e, e.at[i], end);
            i = 0;
        }
        const char *const p = e.at[i] + 1, *const after = e.at[i + 1];
        if (*e.at[i] == '|') {
            const bool weight = *after == ':';
            const size_t n_weight = !weight               ? SIZE_MAX
                                    : *e.at[i + 2] == ':' ? 0
                                                          : (size_t)(e.at[i + 2] - after) - 1;
            if (!parse_namespace(r, p, (size_t)(after - p), n_weight, &in))
                return SIZE_MAX;
            i += weight ? 2 : 1;
        } else if (after == p && *after != ':') {
            i++;
        } else {
            feature f;
            const size_t used = parse_feature(r, &in, p, e.at + i + 1, &f);
            if (!used)
                return SIZE_MAX;
            if (field)
                field[n] = in.field;
            list[n] = f;
            n += f.value != 0.0f;
            i += used;
        }
    }
    return n;
}

/* ---- rows */

/* Entries with fields are sorted by yk_rows_commit(). */
static yk_status put_row(vw_reader *r, size_t n, const yk__label *of, yk_rows *rows)
{
    const vw *s = (const vw *)r->text.base.source;
    uint32_t *index;
    float *value;
    uint16_t *field;
    yk_status st = yk_rows_sparse(rows, n, &index, &value);
    if (st || (s->fields && (st = yk_rows_fields(rows, n, &field))))
        return st;
    feature *f = r->feature;
    size_t out = 0;
    uint32_t last = 0;
    if (s->fields)
        memcpy(field, r->field, n * sizeof *field);
    else
        yk__sort_words(&r->feature->word, n, &(f += n)->word);
    for (size_t i = 0; i < n; i++) {
        const uint32_t id = yk_key_id(f[i].word, s->features);
        if (!s->fields && out && last == id) {
            value[out - 1] += f[i].value;
        } else {
            index[out] = last = id;
            value[out++] = f[i].value;
        }
    }
    return yk__commit(rows, out, of, s->base.options.numbers);
}

/* Keeps the tag of a line, which may be empty. */
static yk_status keep_tag(yk_reader *r, const char *line, const char *bar)
{
    const char *end = bar, *p;
    while (end != line && is_blank(end[-1]))
        end--;
    for (p = end; p != line && !is_blank(p[-1]); p--)
        ;
    if (*p == '\'')
        p++;
    else if (end != bar)
        p = end;
    const yk_status st = yk__carry_row(r);
    if (!st)
        yk__carry(r, 0, p, (size_t)(end - p));
    return st;
}

static yk_status parse_line(yk_text_reader *r, const char *line, size_t length, yk_rows *rows)
{
    vw_reader *reader = (vw_reader *)r;
    const char *const bar = memchr(line, '|', length);
    const size_t max = length / 2 + 1; /* "a " is the shortest feature */
    yk__label first;
    yk_status st;
    if (!bar)
        return yk__text_bad(r, line, "no '|' before the features");
    if ((st = YK_RESERVE(reader->feature, reader->feature_cap, 2 * max, "features of a line")) ||
        (st = YK_RESERVE(reader->field, reader->field_cap, max, "features of a line")))
        return st;
    if (!parse_label(r, line, bar, &first))
        return r->status;
    const size_t n = parse_features(reader, bar, line + length);
    if (n == SIZE_MAX)
        return r->status;
    st = put_row(reader, n, &first, rows);
    return st || !r->base.source->ncarry ? st : keep_tag(&r->base, line, bar);
}

/* An empty line ends a multi-line example. */
static bool is_row(const char *line, size_t length)
{
    return skip_blanks(line, line + length) != line + length;
}

/* ---- the source */

static yk_status vw_open(yk_source *source)
{
    yk_spec *spec = &source->parsed;
    vw *s = (vw *)source;
    s->features = yk__spec_keys(source, 24, UINT32_MAX).features;
    s->first_class = yk_spec_u64(spec, "base", 0, 0, 1);
    s->ignore_weights = yk_spec_choice(spec, "weights", "ignore", -1) == 0;
    const bool one = yk_spec_choice(spec, "fields", "one", -1) == 0;
    yk_status st =
        spec->status ? spec->status : yk__words_split(yk_spec_text(spec, "namespaces"), true, &source->names);
    if (st)
        return st;
    if (source->options.carry && !source->options.inspects && strcmp(source->options.carry, "tag"))
        return yk_fail(YK_EUSAGE, "%s: no column '%s'; the only column of vw data is 'tag'", spec->text,
                       source->options.carry);
    if (s->base.names.n > UINT16_MAX)
        return yk_fail(YK_EUSAGE, "%s: more than %d namespaces", spec->text, UINT16_MAX);
    if (!one && !s->base.names.n && source->options.fields == YK_FIELDS_ALL)
        return yk_fail(YK_EUSAGE,
                       "%s: the model needs fields, which are the namespaces: list them, as in "
                       "?namespaces=user,ad, or add ?fields=one",
                       spec->text);
    s->fields = !one && s->base.names.n && source->options.fields != YK_FIELDS_NONE;
    source->fields = s->fields ? (uint32_t)s->base.names.n : 1;
    source->ncarry = source->options.carry != NULL;
    source->dim = (size_t)s->features;
    source->hashed_into = s->features;
    return yk__text_open(source);
}

static void vw_reader_close(yk_reader *reader)
{
    vw_reader *r = (vw_reader *)reader;
    free(r->feature);
    free(r->field);
}

const yk_source_ops yk__vw_source = {
    .name = "vw",
    .options = "base bits features fields namespaces weights",
    .kept = "base namespaces weights",
    .record = "line",
    .has_texts = true,
    .source_size = sizeof(vw),
    .reader_size = sizeof(vw_reader),
    .open = vw_open,
    .reader_close = vw_reader_close,
    .parse = parse_line,
    .is_row = is_row,
};
