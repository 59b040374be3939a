#include "format/events.h"

#include "base/clock.h"
#include "base/file.h"
#include "base/text.h"
#include "format/tfrecord.h"
#include "format/wire.h"
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

struct yk_events {
    yk_file *file;
    char *path;
    yk_text message;  /* under construction */
    size_t begin[10]; /* [depth] where the open nested messages begin */
    int depth;
};

/* ---- protobuf: a field is a varint (number << 3 | type), then its value */

static void put_varint(yk_events *e, uint64_t value)
{
    uint8_t code[10];
    yk_text_put(&e->message, code, (size_t)(yk__wire_put_varint(code, value) - code));
}

static void put_bytes(yk_events *e, const void *data, size_t size)
{
    put_varint(e, size);
    yk_text_put(&e->message, data, size);
}

/* The length of a nested message is stored before it, but is known only after it. */
static void close_message(yk_events *e)
{
    uint8_t code[10];
    const size_t begin = e->begin[--e->depth], length = e->message.n - begin;
    const size_t n = (size_t)(yk__wire_put_varint(code, length) - code);
    yk_text_put(&e->message, code, n); /* grows the buffer */
    if (e->message.status)
        return;
    char *at = e->message.s + begin;
    memmove(at + n, at, length);
    memcpy(at, code, n);
}

/* Puts fields: each is a number followed by the type of its value.
 *
 *     "2i 5{1{1s 2f}}"      field 2 is an int64_t; 5 a message with the message 1, whose fields are a string and a float
 *
 * i: int64_t   d: double   f: double, stored as a float   s: const char *   b: const void *, size_t   { }: a message, which a
 * later call may continue and close. */
static void put_fields(yk_events *e, const char *pattern, ...)
{
    static const char types[] = "idfsb{";
    static const uint8_t wire[] = {YK__VARINT, YK__FIXED64, YK__FIXED32, YK__LEN, YK__LEN, YK__LEN};
    va_list args;
    va_start(args, pattern);
    for (const char *p = pattern; *p; p++) {
        unsigned number = 0;
        for (; *p >= '0' && *p <= '9'; p++)
            number = 10 * number + (unsigned)(*p - '0');
        if (number)
            put_varint(e, YK__TAG(number, wire[strchr(types, *p) - types]));
        if (*p == 'i') {
            put_varint(e, (uint64_t)va_arg(args, int64_t)); /* negative ones take ten bytes, as in protobuf */
        } else if (*p == 'd' || *p == 'f') {
            const double value = va_arg(args, double);
            const float small = (float)value;
            yk_text_put(&e->message, *p == 'd' ? (const void *)&value : &small,
                        *p == 'd' ? sizeof value : sizeof small);
        } else if (*p == 's') {
            const char *text = va_arg(args, const char *);
            put_bytes(e, text, strlen(text));
        } else if (*p == 'b') {
            const void *data = va_arg(args, const void *);
            put_bytes(e, data, va_arg(args, size_t));
        } else if (*p == '{') {
            e->begin[e->depth++] = e->message.n;
        } else if (*p == '}') {
            close_message(e);
        }
    }
    va_end(args);
}

/* ---- events */

static void event_begin(yk_events *e, double wall_time)
{
    e->message.n = 0;
    e->message.status = YK_OK;
    put_fields(e, "1d", wall_time == 0 ? yk_wall() : wall_time);
}

static yk_status event_send(yk_events *e)
{
    while (e->depth)
        close_message(e);
    return e->message.status ? e->message.status : yk_tfr_write(e->file, e->message.s, e->message.n);
}

yk_status yk_events_scalars(yk_events *e, double wall_time, int64_t step, const yk_scalar *scalar, size_t n)
{
    event_begin(e, wall_time);
    put_fields(e, "2i 5{", step);
    for (size_t i = 0; i < n; i++)
        put_fields(e, "1{1s 2f}", scalar[i].tag, (double)scalar[i].value);
    return event_send(e);
}

yk_status yk_events_histogram(yk_events *e, double wall_time, int64_t step, const char *tag,
                              const yk_histogram *h)
{
    event_begin(e, wall_time);
    put_fields(e, "2i 5{1{1s 5{1d 2d 3d 4d 5d", step, tag, h->min, h->max, h->num, h->sum, h->sum_squares);
    if (h->n)
        put_fields(e, "6b 7b", h->limit, h->n * sizeof *h->limit, h->count, h->n * sizeof *h->count);
    return event_send(e);
}

yk_status yk_events_graph(yk_events *e, double wall_time, const yk_graph_node *node, size_t n)
{
    const int64_t producer = 21; /* the first version with shapes in this form */
    event_begin(e, wall_time);
    put_fields(e, "4{");
    for (; n; n--, node++) {
        put_fields(e, "1{1s 2s", node->name, node->op);
        if (node->input)
            put_fields(e, "3s", node->input);
        /* TensorBoard labels edges with these; the first is the number of examples. */
        put_fields(e, "5{1s 2{1{7{2{1i}", "_output_shapes", (int64_t)-1);
        for (int i = 0; i < node->rank; i++)
            put_fields(e, "2{1i}", (int64_t)node->shape[i]);
        put_fields(e, "}}}}");
        if (node->text)
            put_fields(e, "5{1s 2{2s}}", "layer", node->text);
        put_fields(e, "5{1s 2{3i}}}", "parameters", (int64_t)node->params);
    }
    put_fields(e, "4{1i", producer);
    return event_send(e);
}

/* ---- hyperparameters: messages of TensorBoard's plug-in, in the metadata of a value whose tensor is empty */

/* Begins HParamsPluginData. */
static void begin_session(yk_events *e, const char *tag)
{
    const int64_t floats = 1, tensor = 2;
    event_begin(e, 0);
    put_fields(e, "5{1{1s 8{1i 2{2{1i}}} 9{4i 1{1s 2{", tag, floats, (int64_t)0, tensor, "hparams");
}

yk_status yk_events_session_begin(yk_events *e, const yk_hyperparameter *h, size_t n,
                                  const char *const *metrics)
{
    const int64_t string = 1, float64 = 3;
    begin_session(e, "_hparams_/experiment");
    put_fields(e, "2{3d", yk_wall());
    for (size_t i = 0; i < n; i++)
        put_fields(e, "4{1s 4i}", h[i].name, h[i].text ? string : float64);
    for (; *metrics; metrics++)
        put_fields(e, "5{1{2s}}", *metrics);
    const yk_status st = event_send(e);
    if (st)
        return st;
    begin_session(e, "_hparams_/session_start_info");
    put_fields(e, "3{5d", yk_wall());
    for (size_t i = 0; i < n; i++)
        if (h[i].text)
            put_fields(e, "1{1s 2{3s}}", h[i].name, h[i].text);
        else
            put_fields(e, "1{1s 2{2d}}", h[i].name, h[i].number);
    return event_send(e);
}

yk_status yk_events_session_end(yk_events *e, bool success)
{
    const int64_t succeeded = 1, failed = 2;
    begin_session(e, "_hparams_/session_end_info");
    put_fields(e, "4{1i 2d", success ? succeeded : failed, yk_wall());
    return event_send(e);
}

/* ---- the file */

yk_status yk_events_create(const char *dir, const char *name, yk_events **out)
{
    *out = NULL;
    yk_status st = yk_dir_make_in(dir, name);
    if (st)
        return st;
    static atomic_uint files;
    char host[256] = "localhost";
    if (gethostname(host, sizeof host - 1) || !host[0])
        strcpy(host, "localhost");
    yk_events *e = calloc(1, sizeof *e);
    /* TensorBoard reads the files of a host in the order of their names: the time comes first. */
    if (!e || asprintf(&e->path, "%s/%s/events.out.tfevents.%010lld.%s.%ld.%u", dir, name,
                       (long long)yk_wall(), host, (long)getpid(), atomic_fetch_add(&files, 1)) < 0) {
        free(e);
        return yk_fail_memory(sizeof *e + strlen(name), "a TensorBoard log");
    }
    st = yk_file_append_in(dir, e->path + strlen(dir) + 1, &e->file);
    if (!st) {
        event_begin(e, 0);
        put_fields(e, "3s", "brain.Event:2");
        st = event_send(e);
    }
    /* At once: TensorBoard reports an error for a file without its first event. */
    if (!st)
        st = yk_file_flush(e->file);
    if (st)
        return yk_events_close(e, st);
    *out = e;
    return YK_OK;
}

yk_status yk_events_flush(yk_events *e)
{
    return yk_file_flush(e->file);
}

yk_status yk_events_close(yk_events *e, yk_status so_far)
{
    if (!e)
        return so_far;
    yk_status st = yk_file_close(e->file, so_far);
    yk_text_fini(&e->message);
    free(e->path);
    free(e);
    return st;
}

const char *yk_events_path(const yk_events *e)
{
    return e->path;
}
