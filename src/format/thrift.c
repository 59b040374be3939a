#include "format/thrift.h"

#include "format/wire.h"

enum { MAX_DEPTH = 16 };

void yk__thrift_fault(yk__thrift *t, const char *reason, bool truncated)
{
    if (!t->fault) {
        t->fault = reason;
        t->truncated = truncated;
    }
    t->end = t->p;
}

bool yk__thrift_enter(yk__thrift *t, int type)
{
    if (type != YK__T_STRUCT)
        yk__thrift_fault(t, "a field has the wrong type", false);
    else if (t->depth++ == MAX_DEPTH)
        yk__thrift_fault(t, "structures are nested too deeply", false);
    return !t->fault;
}

bool yk__thrift_next(yk__thrift *t, int64_t *id, int *type_out)
{
    if (t->p == t->end) {
        yk__thrift_fault(t, "the data ends within a structure", true);
        return false;
    }
    const uint8_t b = *t->p++;
    *type_out = b & 15;
    if (b == YK__T_STOP) {
        t->depth--;
        return false;
    }
    *id = b >> 4 ? *id + (b >> 4) : yk__thrift_integer(t, YK__T_I16);
    if (*type_out > YK__T_STRUCT || *type_out == YK__T_STOP || *id < 0 || *id > INT16_MAX)
        yk__thrift_fault(t, "a field is of an unknown type", false);
    return !t->fault;
}

static uint64_t varint(yk__thrift *t)
{
    uint64_t v = 0;
    const uint8_t *next = yk__wire_varint(t->p, t->end, &v);
    if (!next)
        yk__thrift_fault(t, "a number is malformed", t->end - t->p < 10);
    t->p = next ? next : t->p;
    return next ? v : 0;
}

int64_t yk__thrift_integer(yk__thrift *t, int type)
{
    if (type == YK__T_BYTE && t->p < t->end)
        return (int8_t)*t->p++;
    if (type < YK__T_BYTE || type > YK__T_I64) {
        yk__thrift_fault(t, "a field has the wrong type", false);
        return 0;
    }
    const uint64_t v = varint(t);
    return (int64_t)(v >> 1 ^ (0 - (v & 1)));
}

size_t yk__thrift_bytes(yk__thrift *t, int type, const char **out)
{
    const uint64_t n = type == YK__T_BINARY ? varint(t) : 0;
    *out = (const char *)t->p;
    if (type != YK__T_BINARY || n > (size_t)(t->end - t->p)) {
        yk__thrift_fault(t, "a text is longer than what contains it", type == YK__T_BINARY);
        return 0;
    }
    t->p += n;
    return (size_t)n;
}

uint64_t yk__thrift_list(yk__thrift *t, int type, int *element_out)
{
    *element_out = YK__T_STOP;
    if ((type != YK__T_LIST && type != YK__T_SET) || t->p == t->end) {
        yk__thrift_fault(t, "a field has the wrong type", t->p == t->end);
        return 0;
    }
    const uint8_t b = *t->p++;
    *element_out = (b & 15) == YK__T_TRUE || (b & 15) == YK__T_FALSE ? YK__T_BYTE : b & 15;
    const uint64_t n = b >> 4 == 15 ? varint(t) : (uint64_t)(b >> 4);
    if (n > (size_t)(t->end - t->p))
        yk__thrift_fault(t, "a list is longer than what contains it", true);
    return t->fault ? 0 : n;
}

void yk__thrift_skip(yk__thrift *t, int type)
{
    const char *text;
    int inner;
    int64_t id = 0;
    if (type == YK__T_TRUE || type == YK__T_FALSE)
        return;
    if (type == YK__T_DOUBLE) {
        if (t->end - t->p < 8)
            yk__thrift_fault(t, "the data ends within a number", true);
        else
            t->p += 8;
    } else if (type == YK__T_BINARY) {
        yk__thrift_bytes(t, type, &text);
    } else if (type == YK__T_LIST || type == YK__T_SET) {
        uint64_t n = yk__thrift_enter(t, YK__T_STRUCT) ? yk__thrift_list(t, type, &inner) : 0;
        for (; n && !t->fault; n--)
            yk__thrift_skip(t, inner);
        t->depth--;
    } else if (type == YK__T_STRUCT) {
        yk__thrift_enter(t, type);
        while (!t->fault && yk__thrift_next(t, &id, &inner))
            yk__thrift_skip(t, inner);
    } else { /* Parquet has no maps */
        yk__thrift_integer(t, type);
    }
}

bool yk__thrift_field(yk__thrift *t, int64_t have, int type, const int *id, int64_t *const *out, size_t n)
{
    size_t i = 0;
    while (i < n && id[i] != have)
        i++;
    if (i < n && (type == YK__T_TRUE || type == YK__T_FALSE))
        *out[i] = type == YK__T_TRUE;
    else if (i < n)
        *out[i] = yk__thrift_integer(t, type);
    return i < n;
}

void yk__thrift_integers(yk__thrift *t, int type, const int *id, int64_t *const *out, size_t n)
{
    int64_t have = 0;
    yk__thrift_enter(t, type);
    for (int inner; !t->fault && yk__thrift_next(t, &have, &inner);)
        if (!yk__thrift_field(t, have, inner, id, out, n))
            yk__thrift_skip(t, inner);
}
