#include "format/events.h"

#include "base/file.h"
#include "base/text.h"
#include "format/tfrecord.h"
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

struct yk_events {
    yk_file *file;
    char *path;
    yk_text message; /* that is being built */
};

/* ---- protobuf: a field is a varint (number << 3 | type), then its value */

enum { VARINT = 0, FIXED64 = 1, BYTES = 2, FIXED32 = 5 };

#define VARINT_MAX 10

static void put(yk_events *e, const void *data, size_t size)
{
    yk_text_put(&e->message, data, size);
}

static size_t encode(uint64_t value, uint8_t *to)
{
    size_t n = 0;
    for (; value >= 0x80; value >>= 7)
        to[n++] = (uint8_t)(value | 0x80);
    to[n++] = (uint8_t)value;
    return n;
}

static void put_varint(yk_events *e, uint64_t value)
{
    uint8_t code[VARINT_MAX];
    put(e, code, encode(value, code));
}

static void put_field(yk_events *e, unsigned number, unsigned type)
{
    put_varint(e, number << 3 | type);
}

static void put_int(yk_events *e, unsigned number, int64_t value)
{
    put_field(e, number, VARINT);
    put_varint(e, (uint64_t)value); /* a negative one takes ten bytes: so does int64 in protobuf */
}

static void put_double(yk_events *e, unsigned number, double value)
{
    put_field(e, number, FIXED64);
    put(e, &value, sizeof value);
}

static void put_string(yk_events *e, unsigned number, const char *text)
{
    put_field(e, number, BYTES);
    put_varint(e, strlen(text));
    put(e, text, strlen(text));
}

static void put_doubles(yk_events *e, unsigned number, const double *value, size_t n)
{
    if (!n)
        return;
    put_field(e, number, BYTES);
    put_varint(e, n * sizeof *value);
    put(e, value, n * sizeof *value);
}

/* A message in a message: its length goes before it and is known after it. */
static size_t open_message(yk_events *e, unsigned number)
{
    put_field(e, number, BYTES);
    return e->message.n;
}

static void close_message(yk_events *e, size_t begin)
{
    uint8_t code[VARINT_MAX];
    size_t length = e->message.n - begin, n = encode(length, code);
    put(e, code, n); /* makes the room */
    if (e->message.status)
        return;
    char *at = e->message.s + begin;
    memmove(at + n, at, length);
    memcpy(at, code, n);
}

/* ---- events */

static void event_begin(yk_events *e, double wall_time)
{
    if (wall_time == 0) {
        struct timespec now;
        clock_gettime(CLOCK_REALTIME, &now);
        wall_time = (double)now.tv_sec + (double)now.tv_nsec * 1e-9;
    }
    e->message.n = 0;
    e->message.status = YK_OK;
    put_double(e, 1, wall_time);
}

static yk_status event_send(yk_events *e)
{
    return e->message.status ? e->message.status : yk_tfr_write(e->file, e->message.s, e->message.n);
}

yk_status yk_events_scalars(yk_events *e, double wall_time, int64_t step, const yk_scalar *scalar, size_t n)
{
    event_begin(e, wall_time);
    put_int(e, 2, step);
    size_t summary = open_message(e, 5);
    for (size_t i = 0; i < n; i++) {
        size_t value = open_message(e, 1);
        put_string(e, 1, scalar[i].tag);
        put_field(e, 2, FIXED32);
        put(e, &scalar[i].value, sizeof scalar[i].value);
        close_message(e, value);
    }
    close_message(e, summary);
    return event_send(e);
}

yk_status yk_events_histogram(yk_events *e, double wall_time, int64_t step, const char *tag,
                              const yk_histogram *h)
{
    event_begin(e, wall_time);
    put_int(e, 2, step);
    size_t summary = open_message(e, 5);
    size_t value = open_message(e, 1);
    put_string(e, 1, tag);
    size_t histo = open_message(e, 5);
    put_double(e, 1, h->min);
    put_double(e, 2, h->max);
    put_double(e, 3, h->num);
    put_double(e, 4, h->sum);
    put_double(e, 5, h->sum_squares);
    put_doubles(e, 6, h->limit, h->n);
    put_doubles(e, 7, h->count, h->n);
    close_message(e, histo);
    close_message(e, value);
    close_message(e, summary);
    return event_send(e);
}

/* ---- a graph */

static size_t open_attribute(yk_events *e, const char *key, size_t *value_out)
{
    size_t attribute = open_message(e, 5);
    put_string(e, 1, key);
    *value_out = open_message(e, 2);
    return attribute;
}

static void close_attribute(yk_events *e, size_t attribute, size_t value)
{
    close_message(e, value);
    close_message(e, attribute);
}

static void put_dimension(yk_events *e, int64_t size)
{
    size_t dimension = open_message(e, 2);
    put_int(e, 1, size);
    close_message(e, dimension);
}

/* Edges are labelled with these; -1 stands for as many as there are examples. */
static void put_output_shape(yk_events *e, const yk_graph_node *node)
{
    size_t value, attribute = open_attribute(e, "_output_shapes", &value);
    size_t list = open_message(e, 1), shape = open_message(e, 7);
    put_dimension(e, -1);
    for (int i = 0; i < node->rank; i++)
        put_dimension(e, (int64_t)node->shape[i]);
    close_message(e, shape);
    close_message(e, list);
    close_attribute(e, attribute, value);
}

static void put_node(yk_events *e, const yk_graph_node *node)
{
    size_t value, attribute, message = open_message(e, 1);
    put_string(e, 1, node->name);
    put_string(e, 2, node->op);
    if (node->input)
        put_string(e, 3, node->input);
    put_output_shape(e, node);
    if (node->text) {
        attribute = open_attribute(e, "layer", &value);
        put_string(e, 2, node->text);
        close_attribute(e, attribute, value);
    }
    attribute = open_attribute(e, "parameters", &value);
    put_int(e, 3, (int64_t)node->params);
    close_attribute(e, attribute, value);
    close_message(e, message);
}

yk_status yk_events_graph(yk_events *e, double wall_time, const yk_graph_node *node, size_t n)
{
    enum { PRODUCER = 21 }; /* the first version whose shapes are written as above */
    event_begin(e, wall_time);
    size_t graph = open_message(e, 4);
    for (size_t i = 0; i < n; i++)
        put_node(e, &node[i]);
    size_t versions = open_message(e, 4);
    put_int(e, 1, PRODUCER);
    close_message(e, versions);
    close_message(e, graph);
    return event_send(e);
}

/* ---- the file */

/* TensorBoard takes a host's files in the order of their names: the time first, then what tells writers apart. */
static char *make_name(const char *folder)
{
    static atomic_uint files;
    char host[256] = "localhost";
    if (gethostname(host, sizeof host - 1) || !host[0])
        strcpy(host, "localhost");
    char *path = NULL;
    if (asprintf(&path, "%s/events.out.tfevents.%010lld.%s.%ld.%u", folder, (long long)time(NULL), host,
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
    /* At once: a file without its first event is an error to those who watch the folder. */
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
