/* Internal to format/: reads structures of Thrift's compact protocol, which Parquet uses.
 *
 *     field    | id delta : 4, type : 4 |           or | 0 : 4, type : 4 | id: zigzag varint |, then the value
 *     struct   fields, then a byte 0
 *     list     | n : 4, type : 4 | elements         or | 15 : 4, type : 4 | n: varint | elements
 *     string   | length: varint | bytes |           integers are zigzag varints; booleans are in the type of their field
 *
 * Example:
 *     yk__thrift t = {.p = bytes, .end = bytes + n};
 *     int64_t id = 0, rows = -1;
 *     yk__thrift_enter(&t, YK__T_STRUCT);
 *     for (int type; yk__thrift_next(&t, &id, &type);)
 *         if (id == 3)
 *             rows = yk__thrift_integer(&t, type);
 *         else
 *             yk__thrift_skip(&t, type);
 *     const char *why = t.fault;                           // NULL: nothing; otherwise what is wrong at t.p
 *
 * After an error, calls return zeros and no more fields. One thread at a time.
 */
#ifndef YK_FORMAT_THRIFT_H
#define YK_FORMAT_THRIFT_H

#include "base/status.h"

enum {
    YK__T_STOP,
    YK__T_TRUE,
    YK__T_FALSE,
    YK__T_BYTE,
    YK__T_I16,
    YK__T_I32,
    YK__T_I64,
    YK__T_DOUBLE,
    YK__T_BINARY,
    YK__T_LIST,
    YK__T_SET,
    YK__T_MAP,
    YK__T_STRUCT
};

typedef struct {
    const uint8_t *p, *end;
    const char *fault; /* NULL: no error */
    bool truncated;    /* the error is that the bytes end */
    int depth;
} yk__thrift;

void yk__thrift_fault(yk__thrift *t, const char *reason, bool truncated);

/* Begins a structure, or something else that is nested, which ends with t->depth--; false: there is an error. */
bool yk__thrift_enter(yk__thrift *t, int type);

/* The next field of a structure; false: it ends. *id starts as 0. */
bool yk__thrift_next(yk__thrift *t, int64_t *id, int *type_out);

/* Values. A text is borrowed. The elements of a list take at least a byte each. */
int64_t yk__thrift_integer(yk__thrift *t, int type);
size_t yk__thrift_bytes(yk__thrift *t, int type, const char **out);
uint64_t yk__thrift_list(yk__thrift *t, int type, int *element_out);
void yk__thrift_skip(yk__thrift *t, int type);

/* A structure of which only integers and booleans are of interest: field id[i] is stored in *out[i]. */
void yk__thrift_integers(yk__thrift *t, int type, const int *id, int64_t *const *out, size_t n);

/* The same for one of its fields, number `have`; false: it is not of interest, and was not read. */
bool yk__thrift_field(yk__thrift *t, int64_t have, int type, const int *id, int64_t *const *out, size_t n);

#endif
