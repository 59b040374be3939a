#include "format/arrow.h"

#include "base/mem.h"
#include <math.h>
#include <stdlib.h>
#include <string.h>

/* ---- types */

/* A format that ends with ':' may be followed by a time zone. */
static const struct {
    const char *format;
    yk_arrow_type type;
} known[] = {
    {"n", {"null", NULL, 'n', 0, YK_PARQUET_INTEGER, 0, 1, YK_PARQUET_NUMBER}},
    {"b", {"bool", NULL, 'b', 0, YK_PARQUET_INTEGER, 0, 1, YK_PARQUET_BOOLEAN}},
    {"c", {"int8", NULL, 'c', 0, YK_PARQUET_INTEGER, 0, 1, YK_PARQUET_NUMBER}},
    {"C", {"uint8", NULL, 'C', 0, YK_PARQUET_INTEGER, 0, 1, YK_PARQUET_NUMBER}},
    {"s", {"int16", NULL, 's', 0, YK_PARQUET_INTEGER, 0, 1, YK_PARQUET_NUMBER}},
    {"S", {"uint16", NULL, 'S', 0, YK_PARQUET_INTEGER, 0, 1, YK_PARQUET_NUMBER}},
    {"i", {"int32", NULL, 'i', 0, YK_PARQUET_INTEGER, 0, 1, YK_PARQUET_NUMBER}},
    {"I", {"uint32", NULL, 'I', 0, YK_PARQUET_INTEGER, 0, 1, YK_PARQUET_NUMBER}},
    {"l", {"int64", NULL, 'l', 0, YK_PARQUET_INTEGER, 0, 1, YK_PARQUET_NUMBER}},
    {"L", {"uint64", NULL, 'L', 0, YK_PARQUET_INTEGER, 0, 1, YK_PARQUET_UNSIGNED}},
    {"e", {"float16", NULL, 'e', 0, YK_PARQUET_REAL, 0, 1, YK_PARQUET_HALF}},
    {"f", {"float32", NULL, 'f', 0, YK_PARQUET_REAL, 0, 1, YK_PARQUET_FLOAT}},
    {"g", {"float64", NULL, 'g', 0, YK_PARQUET_REAL, 0, 1, YK_PARQUET_NUMBER}},
    {"u", {"string", NULL, 'u', 0, YK_PARQUET_TEXT, 0, 1, YK_PARQUET_NUMBER}},
    {"U", {"string", NULL, 'U', 0, YK_PARQUET_TEXT, 0, 1, YK_PARQUET_NUMBER}},
    {"vu", {"string", NULL, 'v', 0, YK_PARQUET_TEXT, 0, 1, YK_PARQUET_NUMBER}},
    {"z", {"binary", NULL, 'u', 0, YK_PARQUET_TEXT, 0, 1, YK_PARQUET_NUMBER}},
    {"Z", {"binary", NULL, 'U', 0, YK_PARQUET_TEXT, 0, 1, YK_PARQUET_NUMBER}},
    {"vz", {"binary", NULL, 'v', 0, YK_PARQUET_TEXT, 0, 1, YK_PARQUET_NUMBER}},
    {"tdD", {"date", NULL, 'i', 0, YK_PARQUET_INTEGER, 0, 1, YK_PARQUET_DATE}},
    {"tdm", {"date", NULL, 'l', 0, YK_PARQUET_INTEGER, 0, 86400000, YK_PARQUET_DATE}},
    {"tss:", {"timestamp[s]", NULL, 'l', 0, YK_PARQUET_REAL, 1, 1, YK_PARQUET_TIME}},
    {"tsm:", {"timestamp[ms]", NULL, 'l', 0, YK_PARQUET_REAL, 1e-3, 1, YK_PARQUET_TIME}},
    {"tsu:", {"timestamp[us]", NULL, 'l', 0, YK_PARQUET_REAL, 1e-6, 1, YK_PARQUET_TIME}},
    {"tsn:", {"timestamp[ns]", NULL, 'l', 0, YK_PARQUET_REAL, 1e-9, 1, YK_PARQUET_TIME}},
};

/* NULL: not supported. */
static const yk_arrow_type *find_type(const char *format)
{
    for (size_t i = 0; i < sizeof known / sizeof *known; i++) {
        const size_t n = strlen(known[i].format);
        if (!strncmp(format, known[i].format, n) && (!format[n] || known[i].format[n - 1] == ':'))
            return &known[i].type;
    }
    return NULL;
}

yk_arrow_type yk_arrow_type_of(const struct ArrowSchema *s)
{
    static const char *const refused[][2] = {
        {"d:", "decimal"},  {"w:", "fixed-size binary"}, {"tt", "time"},
        {"tD", "duration"}, {"ti", "interval"},          {"+s", "struct"},
        {"+m", "map"},      {"+", "list or union"},      {"", "unknown"}};
    const struct ArrowSchema *const values = s->dictionary ? s->dictionary : s;
    const yk_arrow_type *t = find_type(values->format), *index = s->dictionary ? find_type(s->format) : NULL;
    size_t i = 0;
    while (strncmp(values->format, refused[i][0], strlen(refused[i][0])))
        i++;
    if (!t || (s->dictionary && (!index || !strchr("cCsSiIlL", index->letter) || values->dictionary)))
        return (yk_arrow_type){.name = "", .refused = refused[i][1]};
    yk_arrow_type out = *t;
    out.is_text = index || t->kind == YK_PARQUET_TEXT;
    if (index) {
        out.name = "dictionary";
        out.index = index->letter;
    }
    return out;
}

/* ---- values */

static double half(uint16_t h)
{
    const int exponent = h >> 10 & 31;
    const double fraction = h & 1023, sign = h & 0x8000 ? -1.0 : 1.0;
    if (exponent == 31)
        return fraction > 0.0 ? (double)NAN : sign * (double)INFINITY;
    return sign * ldexp(exponent ? 1024.0 + fraction : fraction, (exponent ? exponent : 1) - 25);
}

static bool bit_at(const void *bits, size_t i)
{
    return ((const uint8_t *)bits)[i / 8] >> i % 8 & 1;
}

#define CONVERT(from, to, convert)                                                                           \
    for (size_t i = 0; i < n; i++) {                                                                         \
        from x;                                                                                              \
        memcpy(&x, (const char *)p + (first + i) * sizeof x, sizeof x);                                      \
        ((to *)out)[i] = convert(x);                                                                         \
    }                                                                                                        \
    break

void yk__arrow_convert(char letter, const void *p, size_t first, size_t n, void *out)
{
    switch (letter) {
    case 'b':
        for (size_t i = 0; i < n; i++)
            ((int64_t *)out)[i] = bit_at(p, first + i);
        break;
    case 'c':
        CONVERT(int8_t, int64_t, (int64_t));
    case 'C':
        CONVERT(uint8_t, int64_t, (int64_t));
    case 's':
        CONVERT(int16_t, int64_t, (int64_t));
    case 'S':
        CONVERT(uint16_t, int64_t, (int64_t));
    case 'i':
        CONVERT(int32_t, int64_t, (int64_t));
    case 'I':
        CONVERT(uint32_t, int64_t, (int64_t));
    case 'f':
        CONVERT(float, double, (double));
    case 'e':
        CONVERT(uint16_t, double, half);
    case 'n':
        memset(out, 0, n * sizeof(int64_t));
        break;
    default:
        memcpy(out, (const char *)p + first * 8, n * 8);
    }
}

/* The values, for yk_parquet_values.real or .integer: in place in the array, or converted to `out`. */
static const void *numbers(const yk_arrow_type *t, char letter, const struct ArrowArray *a, size_t first,
                           size_t n, uint64_t out[YK_PARQUET_BATCH])
{
    const void *p = letter == 'n' ? NULL : a->buffers[1];
    const bool in_place = strchr("lLg", letter) && (uintptr_t)p % 8 == 0;
    if (in_place && t->unit <= 0.0 && t->divisor == 1)
        return (const uint64_t *)p + first;
    yk__arrow_convert(letter, p, first, n, out);
    for (size_t i = 0; t->unit > 0.0 && i < n; i++) {
        const double seconds = (double)(int64_t)out[i] * t->unit;
        memcpy(&out[i], &seconds, sizeof seconds);
    }
    for (size_t i = 0; t->divisor > 1 && i < n; i++)
        out[i] = (uint64_t)((int64_t)out[i] / t->divisor);
    return out;
}

static yk_parquet_text view_at(const struct ArrowArray *a, size_t i)
{
    const char *view = (const char *)a->buffers[1] + 16 * i;
    int32_t length, at[2];
    memcpy(&length, view, sizeof length);
    if (length <= 12)
        return (yk_parquet_text){view + 4, length > 0 ? (size_t)length : 0};
    memcpy(at, view + 8, sizeof at);
    const bool known_buffer = at[0] >= 0 && at[0] < a->n_buffers - 3;
    return known_buffer ? (yk_parquet_text){(const char *)a->buffers[2 + at[0]] + at[1], (size_t)length}
                        : (yk_parquet_text){"", 0};
}

/* Where a text begins, and the one before it ends. */
static int64_t offset_at(char letter, const void *offsets, size_t i)
{
    return letter == 'u' ? ((const int32_t *)offsets)[i] : ((const int64_t *)offsets)[i];
}

static void texts(char letter, const struct ArrowArray *a, size_t first, size_t n, yk_parquet_text *out)
{
    const char *bytes = letter == 'v' || !a->buffers[2] ? "" : a->buffers[2];
    for (size_t i = 0; i < n; i++) {
        if (letter == 'v') {
            out[i] = view_at(a, first + i);
            continue;
        }
        const int64_t begin = offset_at(letter, a->buffers[1], first + i),
                      end = offset_at(letter, a->buffers[1], first + i + 1);
        out[i] = (yk_parquet_text){bytes + begin, end > begin ? (size_t)(end - begin) : 0};
    }
}

/* ---- arrays */

/* The buffers of a type: validity, values or offsets, bytes. */
static bool has_buffers(char letter, const struct ArrowArray *a)
{
    const int64_t want = letter == 'n' ? 0 : strchr("uUv", letter) ? 3 : 2;
    return a->length >= 0 && a->offset >= 0 && a->n_buffers >= want &&
           (want < 2 || a->buffers[1] || a->length == 0);
}

static bool has_nulls(const struct ArrowArray *a)
{
    return a->null_count != 0 && a->n_buffers && a->buffers[0];
}

/* Numbers that numbers() returned. */
static void set_numbers(const yk_arrow_type *t, const void *p, yk_parquet_values *out)
{
    *(t->kind == YK_PARQUET_REAL ? (const void **)&out->real : (const void **)&out->integer) = p;
}

/* The values of the dictionary as texts; a null is "". */
static yk_status open_dictionary(yk_arrow_values *v)
{
    enum { DIGITS = YK_PARQUET_TEXT_SIZE };
    const struct ArrowArray *d = v->array->dictionary;
    const size_t n = (size_t)d->length, offset = (size_t)d->offset;
    const bool numeric = v->type.kind != YK_PARQUET_TEXT;
    if (numeric && !(v->digits = malloc(n * DIGITS + 1)))
        return yk_fail_memory(n * DIGITS, "a dictionary");
    if (!numeric && n)
        texts(v->type.letter, d, offset, n, v->text);
    for (size_t first = 0; numeric && first < n; first += YK_PARQUET_BATCH) {
        const size_t some = n - first < YK_PARQUET_BATCH ? n - first : YK_PARQUET_BATCH;
        yk_parquet_values values = {.form = v->type.form};
        set_numbers(&v->type, numbers(&v->type, v->type.letter, d, offset + first, some, v->value), &values);
        for (size_t i = 0; i < some; i++) {
            char *digits = v->digits + (first + i) * DIGITS;
            yk_parquet_number_text(&values, i, digits);
            v->text[first + i] = (yk_parquet_text){digits, strlen(digits)};
        }
    }
    for (size_t i = 0; i < n && (v->type.letter == 'n' || has_nulls(d)); i++)
        if (v->type.letter == 'n' || !bit_at(d->buffers[0], offset + i))
            v->text[i].n = 0;
    v->entries = n;
    v->out.dictionary = v->out.texts = v->direct ? 0 : n;
    v->out.text = v->text + (v->direct ? n : 0);
    return YK_OK;
}

yk_status yk_arrow_open(yk_arrow_values *v, const yk_arrow_type *type, const struct ArrowArray *array,
                        size_t rows, const char *name)
{
    const struct ArrowArray *d = array->dictionary;
    v->array = array;
    v->type = *type;
    v->name = name;
    v->out = (yk_parquet_values){.form = type->index ? YK_PARQUET_NUMBER : type->form, .page = UINT64_MAX};
    free(v->digits);
    v->digits = NULL;
    if (!has_buffers(type->index ? type->index : type->letter, array) ||
        (type->index && (!d || !has_buffers(type->letter, d) || d->length > UINT32_MAX / 2)))
        return yk_fail(YK_EDATA, "frame: column '%s': its Arrow array does not have the buffers of its type",
                       name);
    if (!type->is_text)
        return YK_OK;
    const size_t size = (type->index ? (size_t)d->length : 0) + YK_PARQUET_BATCH;
    yk_status st = YK_RESERVE(v->text, v->text_cap, size, "texts");
    v->out.text = v->text;
    v->out.code = v->code;
    v->direct = type->index && (size_t)d->length > rows;
    return st || !type->index ? st : open_dictionary(v);
}

/* Indices into the dictionary, which must be in range except for nulls. */
static yk_status decode_indices(yk_arrow_values *v, size_t first, size_t n)
{
    const yk_arrow_type index = {.divisor = 1};
    const uint64_t *at = numbers(&index, v->type.index, v->array, first, n, v->value);
    for (size_t i = 0; i < n; i++) {
        const bool valid = !v->out.valid || v->valid[i];
        if (valid && at[i] >= v->entries)
            return yk_fail(
                YK_EDATA,
                "frame: column '%s': an index into its dictionary is %lld, but the dictionary has %zu values",
                v->name, (long long)at[i], v->entries);
        v->code[i] = v->direct ? (uint32_t)i : valid ? (uint32_t)at[i] : 0;
        if (v->direct)
            v->text[v->entries + i] = valid ? v->text[at[i]] : (yk_parquet_text){"", 0};
    }
    v->out.texts = v->direct ? n : v->entries;
    return YK_OK;
}

yk_status yk_arrow_decode(yk_arrow_values *v, size_t first, size_t n)
{
    const struct ArrowArray *a = v->array;
    const char letter = v->type.letter;
    first += (size_t)a->offset;
    v->out.valid = letter == 'n' || has_nulls(a) ? v->valid : NULL;
    for (size_t i = 0; v->out.valid && i < n; i++)
        v->valid[i] = letter != 'n' && bit_at(a->buffers[0], first + i);
    if (v->type.index)
        return decode_indices(v, first, n);
    if (v->type.kind == YK_PARQUET_TEXT) {
        texts(letter, a, first, n, v->text);
        for (size_t i = 0; i < n; i++) {
            v->code[i] = (uint32_t)i;
            v->text[i].n = v->out.valid && !v->valid[i] ? 0 : v->text[i].n;
        }
        v->out.texts = n;
        return YK_OK;
    }
    set_numbers(&v->type, numbers(&v->type, letter, a, first, n, v->value), &v->out);
    return YK_OK;
}

void yk_arrow_fini(yk_arrow_values *v)
{
    free(v->text);
    free(v->digits);
}
