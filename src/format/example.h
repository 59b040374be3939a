/* The tf.train.Example message: features by name. Those of sparse rows are `label` int64[1], `index` int64 list, `value` float list,
 * and possibly `field`, an int64 list of field numbers; they may have other names.
 *
 * Example:
 *     uint8_t *buffer = NULL;                                  // freed by the caller, reused from call to call
 *     size_t cap = 0, size;
 *     st = yk_example_encode(-1, indices, values, NULL, n, &buffer, &cap, &size);
 *     yk_feature f[YK_EXAMPLE_FEATURES] = {{.name = "label"}, {.name = "ids"}, {.name = "value"}};
 *     const yk_example_rules rules = {.unlabeled = false};
 *     st = yk_example_find(buffer, size, f, YK_EXAMPLE_FEATURES);    // YK_EDATA: yk_error() is the reason
 *     if (!st) {
 *         st = yk_example_row(f, keys, &rules, &rows);               // appends a row
 *         yk_features_fini(f, YK_EXAMPLE_FEATURES);
 *     }
 *     free(buffer);
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

typedef enum { YK_FEATURE_NONE, YK_FEATURE_BYTES, YK_FEATURE_FLOATS, YK_FEATURE_INTS } yk_feature_kind;

/* All common writers produce one packed list, which stays where it is. Other encodings that protobuf allows are copied: lists in
 * several pieces, and values one by one. */
typedef struct {
    const char *name;     /* NULL: none */
    const char *option;   /* for messages: the option that sets another name */
    yk_feature_kind kind; /* NONE: the example has no such feature, or an empty one */
    /* ints: varints; floats: 4 bytes each; bytes: the last value. In the example or the copy */
    const uint8_t *bytes;
    size_t size, strings; /* strings: values of a bytes list */
    uint8_t *copy;        /* owned; NULL: not copied */
    size_t cap;
} yk_feature;

/* Finds the features with these names. Everything else must be zero, and yk_features_fini() frees it, except after a failure.
 * YK_EDATA: the example is malformed. */
yk_status yk_example_find(const uint8_t *p, size_t n, yk_feature *features, size_t nfeatures);
void yk_features_fini(yk_feature *features, size_t n);

size_t yk_feature_count(const yk_feature *f); /* of values */
/* YK_EDATA: the feature is missing, of another kind, or not one value, which is *number_out if it is an int64. */
yk_status yk_feature_one(const yk_feature *f, yk_feature_kind kind, int64_t *number_out);

/* The features of a sparse row. A row without fields does not need the last one. */
enum { YK_EXAMPLE_LABEL, YK_EXAMPLE_INDEX, YK_EXAMPLE_VALUE, YK_EXAMPLE_FIELD, YK_EXAMPLE_FEATURES };

typedef struct {
    bool value_needed, field_needed; /* an example without them is an error; otherwise all values are 1 */
    bool unlabeled;                  /* an example without a label is not an error: class 0 */
    uint32_t nfields;                /* field numbers are below it; 0: 65536 */
} yk_example_rules;

/* The 8 bytes after the example must be readable. An index must be below keys.features (0: below 2^31) unless it is hashed. On
 * failure `rows` has no new row. */
yk_status yk_example_row(const yk_feature f[YK_EXAMPLE_FEATURES], yk_key_space keys,
                         const yk_example_rules *rules, yk_rows *rows);

/* value NULL: writes ones. field NULL: writes no fields. *buffer is allocated with malloc() and has *cap bytes (NULL and 0 at
 * first), at least 8 more than the example. */
yk_status yk_example_encode(int64_t label, const uint32_t *index, const float *value, const uint16_t *field,
                            size_t n, uint8_t **buffer, size_t *cap, size_t *size_out);

#endif
