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

static void put(yk_events *e, const void *data, size_t size)
{
    yk_text_put(&e->message, data, size);
}

static void put_varint(yk_events *e, uint64_t value)
{
    uint8_t code[10];
    put(e, code, (size_t)(yk__wire_put_varint(code, value) - code));
}

static void put_field(yk_events *e, unsigned number, unsigned type)
{
    put_varint(e, YK__TAG(number, type));
}

static void put_int(yk_events *e, unsigned number, int64_t value)
{
    put_field(e, number, YK__VARINT);
    put_varint(e, (uint64_t)value); /* negative numbers take ten bytes, as in protobuf */
}

static void put_double(yk_events *e, unsigned number, double value)
{
    put_field(e, number, YK__FIXED64);
    put(e, &value, sizeof value);
}

static void put_bytes(yk_events *e, unsigned number, const void *data, size_t size)
{
    put_field(e, number, YK__LEN);
    put_varint(e, size);
    put(e, data, size);
}

static void put_string(yk_events *e, unsigned number, const char *text)
{
    put_bytes(e, number, text, strlen(text));
}

/* A nested message: its length is stored before it, but is known only after it. */
static void open_message(yk_events *e, unsigned number)
{
    put_field(e, number, YK__LEN);
    e->begin[e->depth++] = e->message.n;
}

static void close_messages(yk_events *e, int levels)
{
    while (levels-- > 0) {
        uint8_t code[10];
        const size_t begin = e->begin[--e->depth], length = e->message.n - begin;
        const size_t n = (size_t)(yk__wire_put_varint(code, length) - code);
        put(e, code, n); /* grows the buffer */
        if (e->message.status)
            continue;
        char *at = e->message.s + begin;
        memmove(at + n, at, length);
        memcpy(at, code, n);
    }
}

/* ---- events */

static void event_begin(yk_events *e, double wall_time)
{
    e->message.n = 0;
    e->message.status = YK_OK;
    put_double(e, 1, wall_time == 0 ? yk_wall() : wall_time);
}

static yk_status event_send(yk_events *e)
{
    close_messages(e, e->depth);
    return e->message.status ? e->message.status : yk_tfr_write(e->file, e->message.s, e->message.n);
}

yk_status yk_events_scalars(yk_events *e, double wall_time, int64_t step, const yk_scalar *scalar, size_t n)
{
    event_begin(e, wall_time);
    put_int(e, 2, step);
    open_message(e, 5);
    for (size_t i = 0; i < n; i++) {
        open_message(e, 1);
        put_string(e, 1, scalar[i].tag);
        put_field(e, 2, YK__FIXED32);
        put(e, &scalar[i].value, sizeof scalar[i].value);
        close_messages(e, 1);
    }
    return event_send(e);
}

yk_status yk_events_histogram(yk_events *e, double wall_time, int64_t step, const char *tag,
                              const yk_histogram *h)
{
    event_begin(e, wall_time);
    put_int(e, 2, step);
    open_message(e, 5);
    open_message(e, 1);
    put_string(e, 1, tag);
    open_message(e, 5);
    put_double(e, 1, h->min);
    put_double(e, 2, h->max);
    put_double(e, 3, h->num);
    put_double(e, 4, h->sum);
    put_double(e, 5, h->sum_squares);
    if (h->n) {
        put_bytes(e, 6, h->limit, h->n * sizeof *h->limit);
        put_bytes(e, 7, h->count, h->n * sizeof *h->count);
    }
    return event_send(e);
}

/* ---- a graph */

/* Two levels of messages: the attribute, and its value. */
static void open_attribute(yk_events *e, const char *key)
{
    open_message(e, 5);
    put_string(e, 1, key);
    open_message(e, 2);
}

static void put_dimension(yk_events *e, int64_t size)
{
    open_message(e, 2);
    put_int(e, 1, size);
    close_messages(e, 1);
}

static void put_node(yk_events *e, const yk_graph_node *node)
{
    open_message(e, 1);
    put_string(e, 1, node->name);
    put_string(e, 2, node->op);
    if (node->input)
        put_string(e, 3, node->input);
    open_attribute(e, "_output_shapes"); /* TensorBoard labels edges with these */
    open_message(e, 1);
    open_message(e, 7);
    put_dimension(e, -1); /* the number of examples */
    for (int i = 0; i < node->rank; i++)
        put_dimension(e, (int64_t)node->shape[i]);
    close_messages(e, 4);
    if (node->text) {
        open_attribute(e, "layer");
        put_string(e, 2, node->text);
        close_messages(e, 2);
    }
    open_attribute(e, "parameters");
    put_int(e, 3, (int64_t)node->params);
    close_messages(e, 3);
}

yk_status yk_events_graph(yk_events *e, double wall_time, const yk_graph_node *node, size_t n)
{
    enum { PRODUCER = 21 }; /* the first version with shapes in this form */
    event_begin(e, wall_time);
    open_message(e, 4);
    for (size_t i = 0; i < n; i++)
        put_node(e, &node[i]);
    open_message(e, 4);
    put_int(e, 1, PRODUCER);
    return event_send(e);
}

/* ---- hyperparameters: messages of TensorBoard's plug-in, in the metadata of a value whose tensor is empty */

/* Opens message `number` of HParamsPluginData. */
static void open_session(yk_events *e, const char *tag, unsigned number)
{
    enum { FLOATS = 1, TENSOR = 2 };
    event_begin(e, 0);
    open_message(e, 5);
    open_message(e, 1);
    put_string(e, 1, tag);
    open_message(e, 8);
    put_int(e, 1, FLOATS);
    open_message(e, 2);
    put_dimension(e, 0);
    close_messages(e, 2);
    open_message(e, 9);
    put_int(e, 4, TENSOR);
    open_message(e, 1);
    put_string(e, 1, "hparams");
    open_message(e, 2);
    open_message(e, number);
}

static yk_status put_experiment(yk_events *e, const yk_hyperparameter *h, size_t n,
                                const char *const *metrics)
{
    enum { STRING = 1, FLOAT64 = 3 };
    open_session(e, "_hparams_/experiment", 2);
    put_double(e, 3, yk_wall());
    for (size_t i = 0; i < n; i++) {
        open_message(e, 4);
        put_string(e, 1, h[i].name);
        put_int(e, 4, h[i].text ? STRING : FLOAT64);
        close_messages(e, 1);
    }
    for (; *metrics; metrics++) {
        open_message(e, 5);
        open_message(e, 1);
        put_string(e, 2, *metrics);
        close_messages(e, 2);
    }
    return event_send(e);
}

yk_status yk_events_session_begin(yk_events *e, const yk_hyperparameter *h, size_t n,
                                  const char *const *metrics)
{
    const yk_status st = put_experiment(e, h, n, metrics);
    if (st)
        return st;
    open_session(e, "_hparams_/session_start_info", 3);
    put_double(e, 5, yk_wall());
    for (size_t i = 0; i < n; i++) {
        open_message(e, 1);
        put_string(e, 1, h[i].name);
        open_message(e, 2);
        if (h[i].text)
            put_string(e, 3, h[i].text);
        else
            put_double(e, 2, h[i].number);
        close_messages(e, 2);
    }
    return event_send(e);
}

yk_status yk_events_session_end(yk_events *e, bool success)
{
    enum { SUCCESS = 1, FAILURE = 2 };
    open_session(e, "_hparams_/session_end_info", 4);
    put_int(e, 1, success ? SUCCESS : FAILURE);
    put_double(e, 2, yk_wall());
    return event_send(e);
}

/* ---- the file */

/* TensorBoard reads the files of a host in the order of their names: the time comes first. */
static char *make_name(const char *directory)
{
    static atomic_uint files;
    char host[256] = "localhost";
    if (gethostname(host, sizeof host - 1) || !host[0])
        strcpy(host, "localhost");
    char *path = NULL;
    if (asprintf(&path, "%s/events.out.tfevents.%010lld.%s.%ld.%u", directory, (long long)yk_wall(), host,
                 (long)getpid(), atomic_fetch_add(&files, 1)) < 0)
        return NULL;
    return path;
}

yk_status yk_events_create(const char *dir, const char *name, yk_events **out)
{
    *out = NULL;
    yk_status st = yk_dir_make_in(dir, name);
    if (st)
        return st;
    yk_events *e = calloc(1, sizeof *e);
    char *file = make_name(name);
    if (!e || !file || asprintf(&e->path, "%s/%s", dir, file) < 0) {
        free(file);
        free(e);
        return yk_fail_memory(sizeof *e + strlen(name), "a TensorBoard log");
    }
    st = yk_file_append_in(dir, file, &e->file);
    free(file);
    if (!st) {
        event_begin(e, 0);
        put_string(e, 3, "brain.Event:2");
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
