#include "data/streams.h"

#include "base/mem.h"
#include <string.h>

enum { HEAD = 2 };
enum { USED = 4 }; /* the numbers of a cursor that show how much was used */

typedef struct yk_stream_state stream;

yk_status yk_streams_init(yk_streams *s, int workers, uint64_t epochs)
{
    *s = (yk_streams){.n = workers, .epochs = epochs};
    s->stream = yk_alloc((size_t)workers, sizeof *s->stream, "the streams");
    for (int i = 0; s->stream && i < workers; i++)
        s->stream[i].holder = i;
    return s->stream ? YK_OK : YK_ESYSTEM;
}

void yk_streams_fini(yk_streams *s)
{
    yk_free(s->stream);
    *s = (yk_streams){0};
}

static bool is_free(const yk_streams *s, const stream *t)
{
    return t->holder < 0 && t->cursor[0] < s->epochs;
}

bool yk_streams_orphans(const yk_streams *s)
{
    bool any = false;
    for (int i = 0; i < s->n; i++)
        any |= is_free(s, &s->stream[i]);
    return any;
}

static bool is_behind(const uint64_t *a, const uint64_t *b)
{
    for (int i = 0; i < USED; i++)
        if (a[i] != b[i])
            return a[i] < b[i];
    return false;
}

/* Completes the return of a stream when all of its gradients have arrived. `last` is of the epoch before if the worker returns a
 * stream, leases it again, and finds no examples in it. */
static void release_returned(stream *t)
{
    if (!t->returned || is_behind(t->cursor, t->last))
        return;
    memcpy(t->cursor, (uint64_t[YK_CURSOR_SIZE]){t->next_epoch}, sizeof t->cursor);
    t->returned = false;
    t->holder = -1;
}

void yk_streams_used(yk_streams *s, const uint64_t cursor[YK_CURSOR_SIZE])
{
    stream *t = &s->stream[cursor[USED] >> YK_STREAM_SHIFT];
    memcpy(t->cursor, cursor, sizeof t->cursor);
    t->cursor[USED] &= (1u << YK_STREAM_SHIFT) - 1;
    release_returned(t);
}

void yk_streams_release(yk_streams *s, int worker)
{
    for (int i = 0; i < s->n; i++)
        if (s->stream[i].holder == worker) {
            s->stream[i].holder = -1;
            s->stream[i].returned = false;
        }
}

void yk_streams_return(yk_streams *s, int worker, int number, const uint64_t last[YK_CURSOR_SIZE],
                       uint64_t next_epoch)
{
    if (number < 0 || number >= s->n || s->stream[number].holder != worker)
        return;
    stream *t = &s->stream[number];
    t->returned = true;
    t->next_epoch = next_epoch;
    memcpy(t->last, last, sizeof t->last);
    release_returned(t);
}

int yk_streams_lease(yk_streams *s, int worker, uint64_t cursor_out[YK_CURSOR_SIZE])
{
    stream *best = NULL;
    for (int i = 0; i < s->n; i++)
        if (is_free(s, &s->stream[i]) && (!best || is_behind(s->stream[i].cursor, best->cursor)))
            best = &s->stream[i];
    if (!best)
        return -1;
    best->holder = worker;
    memcpy(cursor_out, best->cursor, sizeof best->cursor);
    return (int)(best - s->stream);
}

bool yk_streams_done(const yk_streams *s)
{
    return yk_streams_epoch(s) >= s->epochs;
}

void yk_streams_save(const yk_streams *s, uint64_t *out, size_t window_bytes, uint64_t epoch)
{
    *out++ = YK_CURSOR_STREAM;
    *out++ = window_bytes / (2 * (size_t)s->n);
    for (int i = 0; i < s->n; i++, out += YK_CURSOR_SIZE) {
        const uint64_t *cursor = s->stream[i].cursor;
        memcpy(out, cursor[0] < epoch ? (const uint64_t[YK_CURSOR_SIZE]){epoch} : cursor,
               YK_CURSOR_SIZE * sizeof *cursor);
    }
}

uint64_t yk_streams_first_epoch(const uint64_t *saved, size_t n)
{
    uint64_t epoch = UINT64_MAX;
    for (const uint64_t *each = saved; each < saved + n * YK_CURSOR_SIZE; each += YK_CURSOR_SIZE) {
        const uint64_t at = each[0] - (each[USED] && each[0] > 0); /* at the end of the previous epoch */
        epoch = at < epoch ? at : epoch;
    }
    return epoch;
}

void yk_streams_restore(yk_streams *s, const uint64_t *saved, size_t n, size_t window_bytes)
{
    const bool same =
        n == HEAD + YK_CURSOR_SIZE * (size_t)s->n && saved[1] == window_bytes / (2 * (size_t)s->n);
    const uint64_t epoch = yk_streams_first_epoch(saved + HEAD, n < HEAD ? 0 : (n - HEAD) / YK_CURSOR_SIZE);
    for (int i = 0; i < s->n; i++)
        memcpy(s->stream[i].cursor,
               same ? saved + HEAD + YK_CURSOR_SIZE * i : (const uint64_t[YK_CURSOR_SIZE]){epoch},
               sizeof s->stream[i].cursor);
}

uint64_t yk_streams_epoch(const yk_streams *s)
{
    uint64_t min = UINT64_MAX;
    for (int i = 0; i < s->n; i++)
        min = s->stream[i].cursor[0] < min ? s->stream[i].cursor[0] : min;
    return min;
}
