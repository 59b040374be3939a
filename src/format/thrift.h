/* Internal to format/: reads structures of Thrift's compact protocol, which Parquet uses.
 *
 *     field    | id delta : 4, type : 4 |           or | 0 : 4, type : 4 | id: zigzag varint |, then the value
 *     struct   fields, then a byte 0
 *     list     | n : 4, type : 4 | elements         or | 15 : 4, type : 4 | n: varint | elements
 *     string   | length: varint | bytes |           integers are zigzag varints; booleans are in the type of their field
 *
 * Each value is passed on with its path: the ids of the fields that lead to it, one byte each. An element of a list has the path of
 * the list.
 *
 * The function of `take`, for field 3 of the structures in field 4:
 *
 *     static yk_status take(void *sum, const yk__thrift_value *v)
 *     {
 *         if (v->kind == YK__THRIFT_NUMBER && v->path == 0x0403)
 *             *(int64_t *)sum += v->number;
 *         return YK_OK; // otherwise yk_error() says why the value is bad
 *     }
 *
 * Example:
 *     int64_t sum = 0;
 *     yk__thrift t = {.p = bytes, .end = bytes + n, .take = take, .context = &sum};
 *     yk_status st = yk__thrift_read(&t); // YK_EDATA: yk_error() says what is wrong at t.p
 *
 * One thread at a time.
 */
#ifndef YK_FORMAT_THRIFT_H
#define YK_FORMAT_THRIFT_H

#include "base/status.h"

typedef struct {
    enum {
        YK__THRIFT_BEGIN,
        YK__THRIFT_END,
        YK__THRIFT_NUMBER,
        YK__THRIFT_TEXT
    } kind; /* BEGIN, END: of a structure */
    uint64_t path;
    int64_t number;   /* NUMBER: also a boolean */
    const char *text; /* TEXT: [n], borrowed */
    size_t n;
} yk__thrift_value;

typedef struct {
    const uint8_t *p, *end;
    yk_status (*take)(void *context, const yk__thrift_value *v);
    void *context;
    yk_status status;
    bool truncated; /* the error is that the bytes end */
} yk__thrift;

yk_status yk__thrift_read(yk__thrift *t);

#endif
