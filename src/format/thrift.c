#include "format/thrift.h"

#include "format/wire.h"

enum { MAX_DEPTH = 16, MAX_ID = 254 };
enum { STOP, TRUE, FALSE, BYTE, I16, I32, I64, DOUBLE, BINARY, LIST, SET, MAP, STRUCT };
static const uint64_t unknown = UINT64_MAX; /* a path that is too long */

static void fail(yk__thrift *t, const char *reason, bool truncated)
{
    t->status = t->status ? t->status : yk_fail(YK_EDATA, "%s", reason);
    t->truncated = truncated;
}

static void pass_on(yk__thrift *t, yk__thrift_value v)
{
    if (!t->status && v.path != unknown)
        t->status = t->take(t->context, &v);
}

static uint64_t varint(yk__thrift *t)
{
    uint64_t v = 0;
    const uint8_t *next = yk__wire_varint(t->p, t->end, &v);
    if (!next)
        fail(t, "a number is malformed", t->end - t->p < 10);
    t->p = next ? next : t->p;
    return next ? v : 0;
}

static int64_t integer(yk__thrift *t)
{
    const uint64_t v = varint(t);
    return (int64_t)(v >> 1 ^ (0 - (v & 1)));
}

/* Raw bytes. */
static const char *bytes(yk__thrift *t, uint64_t n)
{
    const char *at = (const char *)t->p;
    if (n > (size_t)(t->end - t->p)) {
        fail(t, "a value extends beyond the end of the data", true);
        return NULL;
    }
    t->p += n;
    return at;
}

static void read_value(yk__thrift *t, int type, uint64_t path, int depth);

static void read_list(yk__thrift *t, uint64_t path, int depth)
{
    const char *head = bytes(t, 1);
    const int type = head ? *head & 15 : 0;
    const uint64_t n = !head ? 0 : (uint8_t)*head >> 4 == 15 ? varint(t) : (uint8_t)*head >> 4;
    if (n > (size_t)(t->end - t->p))
        fail(t, "a list extends beyond the end of the data", true);
    for (uint64_t i = 0; i < n && !t->status; i++)
        read_value(t, type == TRUE || type == FALSE ? BYTE : type, path, depth + 1);
}

static void read_struct(yk__thrift *t, uint64_t path, int depth)
{
    int64_t id = 0;
    pass_on(t, (yk__thrift_value){.kind = YK__THRIFT_BEGIN, .path = path});
    while (!t->status) {
        const char *head = bytes(t, 1);
        if (!head)
            return;
        if (*head == STOP)
            break;
        const int delta = (uint8_t)*head >> 4;
        id = delta ? id + delta : integer(t);
        if (id < 0 || id > INT16_MAX)
            fail(t, "a field has an invalid number", false);
        const bool known = id >= 1 && id <= MAX_ID && path >> 48 == 0;
        read_value(t, *head & 15, known ? path << 8 | (uint64_t)id : unknown, depth + 1);
    }
    pass_on(t, (yk__thrift_value){.kind = YK__THRIFT_END, .path = path});
}

static void read_value(yk__thrift *t, int type, uint64_t path, int depth)
{
    yk__thrift_value v = {.kind = YK__THRIFT_NUMBER, .path = path};
    if (depth == MAX_DEPTH)
        fail(t, "structures are nested too deeply", false);
    if (t->status)
        return;
    if (type == STRUCT) {
        read_struct(t, path, depth);
    } else if (type == LIST || type == SET) {
        read_list(t, path, depth);
    } else if (type == DOUBLE) {
        bytes(t, 8);
    } else if (type == BINARY) {
        v.kind = YK__THRIFT_TEXT;
        v.n = (size_t)varint(t);
        v.text = bytes(t, v.n);
        pass_on(t, v);
    } else if (type >= TRUE && type <= I64) {
        const char *byte = type == BYTE ? bytes(t, 1) : NULL;
        v.number = type == BYTE ? (byte ? (int8_t)*byte : 0) : type <= FALSE ? type == TRUE : integer(t);
        pass_on(t, v);
    } else { /* Parquet has no maps */
        fail(t, "a field is of an unknown type", false);
    }
}

yk_status yk__thrift_read(yk__thrift *t)
{
    read_struct(t, 0, 0);
    return t->status;
}
