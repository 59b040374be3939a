/* The tf.train.Example message. Sparse rows have `label` int64[1], `index` int64 list, `value` float list, and possibly
 * `field`, an int64 list of field numbers; yk_example_names sets other names for them. Other features can be found by name.
 *
 * Example:
 *     uint8_t *buffer = NULL;                                  // freed by the caller, reused from call to call
 *     size_t cap = 0, size;
 *     st = yk_example_encode(-1, indices, values, NULL, n, &buffer, &cap, &size);
 *     st = yk_example_decode(buffer, size, keys, NULL, &rows);       // appends a row; YK_EDATA: yk_error() is the reason
 *     free(buffer);
 *     yk_feature f[2] = {{.name = "image/encoded"}, {.name = "image/class/label"}};
 *     st = yk_example_find(record, n, f, 2);                   // YK_EDATA: malformed
 *     if (f[0].kind == YK_FEATURE_BYTES && f[0].count == 1)
 *         use(f[0].bytes, f[0].size);                          // borrowed from the record
 *
 * The encoding (protobuf: each message is a tag, a length and bytes):
 *
 *     Example   { 1: Features { 1: entry, 1: entry, ... } }
 *     entry     { 1: key "label" | "index" | "value" | "field" | other,  2: Feature }
 *     Feature   { one of  1: bytes_list,  2: float_list,  3: int64_list;  each { 1: value, packed or one by one } }
 *
 * Entries may be in any order; if a key is repeated, the last one counts. Other features and unknown fields are skipped, but
 * must be well formed. Labels -1 and 0 are class 0; other labels are class numbers below 65536. Without `value` all values
 * are 1. Errors: no label or index; an index that is negative, 2^31 or more, or not below `features` (unless it is hashed);
 * different numbers of indices, values and fields; a field of 65536 or more; NaN and infinity. Any thread may call these
 * functions, on its own rows.
 */
#ifndef YK_FORMAT_EXAMPLE_H
#define YK_FORMAT_EXAMPLE_H

#include "base/status.h"
#include "core/rows.h"

#define YK_EXAMPLE_INDICES ((uint64_t)1 << 31)

/* Names of the features of sparse rows; NULL: "label", "index", "value". An example without the default "value" has the value 1
 * for all indices. If `value` names a feature, an example without it is an error. */
typedef struct {
    const char *label, *index, *value;
    const char *field; /* NULL: rows have no field numbers */
    bool field_needed; /* an example without it is an error */
    bool unlabeled;    /* an example without a label is not an error: class 0 */
    uint32_t nfields;  /* field numbers are below it; 0: 65536 */
} yk_example_names;

/* p[0 .. n + 8) must be readable. An index must be below keys.features (0: below 2^31) unless it is hashed. names NULL: default
 * names, without fields. On failure `rows` has no new row. */
yk_status yk_example_decode(const uint8_t *p, size_t n, yk_key_space keys, const yk_example_names *names,
                            yk_rows *rows);

typedef enum { YK_FEATURE_NONE, YK_FEATURE_BYTES, YK_FEATURE_FLOATS, YK_FEATURE_INTS } yk_feature_kind;

typedef struct {
    const char *name;
    yk_feature_kind kind; /* NONE: the example has no such feature, or an empty one */
    size_t count;         /* values in its list */
    const uint8_t *bytes; /* the last value of a bytes list */
    size_t size;
    int64_t number; /* the last value of an int64 list */
    float real;     /* the first value of a float list */
} yk_feature;

/* Sets everything except the names. */
yk_status yk_example_find(const uint8_t *p, size_t n, yk_feature *features, size_t nfeatures);

/* value NULL: writes ones. field NULL: writes no fields. *buffer is allocated with malloc() and has *cap bytes (NULL and 0 at
 * first), at least 8 more than the example. */
yk_status yk_example_encode(int64_t label, const uint32_t *index, const float *value, const uint16_t *field,
                            size_t n, uint8_t **buffer, size_t *cap, size_t *size_out);

#endif
