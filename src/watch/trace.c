#include "watch/trace.h"

#include "base/file.h"
#include "base/json.h"
#include "base/mem.h"
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { MAX_TRACKS = 4096, NO_PEER = -1, COUNTER = -2 };

typedef struct {
    const char *name;
    uint64_t begin, took; /* ns */
    int32_t peer;         /* of a message; NO_PEER, COUNTER */
    union {
        uint64_t bytes;
        double value;
    };
} event;

/* The first `half` events, then a ring of as many. */
struct yk_trace_track {
    char name[64];
    size_t half;
    event *first, *recent; /* in one block */
    uint64_t seen;
};

struct yk_trace {
    int rank;
    char role[32];
    int64_t offset;
    uint64_t zero;
    size_t n, cap;
    yk_trace_track **track;
};

yk_status yk_trace_create(int rank, const char *role, yk_trace **out)
{
    yk_trace *t = calloc(1, sizeof *t);
    if (!t)
        return yk_fail_memory(sizeof *t, "the timeline");
    t->rank = rank;
    snprintf(t->role, sizeof t->role, "%s", role);
    *out = t;
    return YK_OK;
}

void yk_trace_free(yk_trace *t)
{
    if (!t)
        return;
    for (size_t i = 0; i < t->n; i++) {
        yk_free(t->track[i]->first);
        free(t->track[i]);
    }
    free(t->track);
    free(t);
}

yk_trace_track *yk_trace_add(yk_trace *t, const char *name, size_t capacity)
{
    if (!t || t->n >= MAX_TRACKS)
        return NULL;
    if (YK_RESERVE(t->track, t->cap, t->n + 1, "the timeline"))
        return NULL;
    yk_trace_track *w = calloc(1, sizeof *w);
    if (!w)
        return NULL;
    snprintf(w->name, sizeof w->name, "%s", name);
    w->half = capacity / 2 > 1 ? capacity / 2 : 1;
    w->first = yk_alloc(2 * w->half, sizeof *w->first, "the timeline");
    if (!w->first) {
        free(w);
        return NULL;
    }
    w->recent = w->first + w->half;
    t->track[t->n++] = w;
    return w;
}

/* ---- writing */

static void keep(yk_trace_track *w, event e)
{
    if (!w)
        return;
    if (w->seen < w->half)
        w->first[w->seen] = e;
    else
        w->recent[(w->seen - w->half) % w->half] = e;
    w->seen++;
}

void yk_trace_slice(yk_trace_track *w, const char *name, uint64_t begin, uint64_t took)
{
    keep(w, (event){.name = name, .begin = begin, .took = took, .peer = NO_PEER});
}

void yk_trace_message(yk_trace_track *w, const char *name, int peer, uint64_t bytes, uint64_t begin,
                      uint64_t took)
{
    keep(w, (event){name, begin, took, peer < 0 ? NO_PEER : peer, {bytes}});
}

void yk_trace_counter(yk_trace_track *w, const char *name, uint64_t at, double value)
{
    if (isfinite(value))
        keep(w, (event){.name = name, .begin = at, .peer = COUNTER, .value = value});
}

bool yk_trace_wants_all(const yk_trace_track *w)
{
    return w && w->seen < w->half;
}

static uint64_t dropped(const yk_trace_track *w)
{
    return w->seen > 2 * w->half ? w->seen - 2 * w->half : 0;
}

void yk_trace_clock(yk_trace *t, int64_t offset, uint64_t zero)
{
    t->offset = offset;
    t->zero = zero;
}

/* ---- as JSON */

static void put_name(yk_json *j, const char *what, int rank, size_t tid, const char *name)
{
    YK_JSON(j, YK_OBJECT(NULL), YK_TEXT("name", what), YK_TEXT("ph", "M"), YK_INT("pid", rank),
            YK_INT("tid", tid), YK_OBJECT("args"), YK_TEXT("name", name), YK_END, YK_END);
}

static void put_event(yk_json *j, const yk_trace *t, size_t tid, const event *e)
{
    const bool counter = e->peer == COUNTER;
    YK_JSON(j, YK_OBJECT(NULL), YK_TEXT("name", e->name),
            YK_IF(!counter, YK_TEXT("cat", e->peer == NO_PEER ? "step" : "message")),
            YK_TEXT("ph", counter ? "C" : "X"),
            YK_FIXED("ts", ((double)(int64_t)(e->begin - t->zero) + (double)t->offset) * 1e-3, 3),
            YK_IF(!counter, YK_FIXED("dur", (double)e->took * 1e-3, 3)), YK_INT("pid", t->rank),
            YK_IF(!counter, YK_INT("tid", tid)));
    if (counter)
        YK_JSON(j, YK_OBJECT("args"), YK_REAL(e->name, e->value), YK_END);
    else if (e->peer != NO_PEER)
        YK_JSON(j, YK_OBJECT("args"), YK_INT("peer", e->peer), YK_INT("bytes", e->bytes), YK_END);
    yk_json_end(j);
}

static void put_track(yk_json *x, const yk_trace *t, size_t tid, const yk_trace_track *w)
{
    put_name(x, "thread_name", t->rank, tid, w->name);
    const uint64_t first = w->seen < w->half ? w->seen : w->half;
    for (uint64_t i = 0; i < first; i++)
        put_event(x, t, tid, &w->first[i]);
    const uint64_t later = w->seen - first, kept = later < w->half ? later : w->half;
    if (dropped(w)) {
        const event *from = &w->first[first - 1], *to = &w->recent[later % w->half];
        char name[96];
        snprintf(name, sizeof name, "%llu events dropped", (unsigned long long)dropped(w));
        const uint64_t begin = from->begin + from->took;
        put_event(x, t, tid,
                  &(event){.name = name,
                           .begin = begin,
                           .took = to->begin > begin ? to->begin - begin : 0,
                           .peer = NO_PEER});
    }
    for (uint64_t i = 0; i < kept; i++)
        put_event(x, t, tid, &w->recent[(later - kept + i) % w->half]);
}

yk_status yk_trace_text(const yk_trace *t, char **out)
{
    yk_json j = {.between = ",\n"};
    char name[64];
    uint64_t all_dropped = 0;
    for (size_t i = 0; i < t->n; i++)
        all_dropped += dropped(t->track[i]);
    snprintf(name, sizeof name, "rank %d (%s)", t->rank, t->role);
    put_name(&j, "process_name", t->rank, 0, name);
    YK_JSON(&j, YK_OBJECT(NULL), YK_TEXT("name", "yoke"), YK_TEXT("ph", "M"), YK_INT("pid", t->rank),
            YK_OBJECT("args"), YK_INT("dropped", all_dropped), YK_END, YK_END);
    for (size_t i = 0; i < t->n; i++)
        put_track(&j, t, i + 1, t->track[i]);
    *out = yk_json_take(&j);
    return *out ? YK_OK : YK_ESYSTEM;
}

yk_status yk_trace_save(const char *dir, const char *name, char *const *part, size_t n)
{
    yk_file *f;
    yk_status st = yk_file_create_in(dir, name, &f);
    if (st)
        return st;
    st = yk_file_print(f, "{\"displayTimeUnit\":\"ms\",\"traceEvents\":[\n");
    bool any = false;
    for (size_t i = 0; !st && i < n; i++) {
        if (!part[i])
            continue;
        if (any)
            st = yk_file_write(f, ",\n", 2);
        if (!st)
            st = yk_file_write(f, part[i], strlen(part[i]));
        any = true;
    }
    if (!st)
        st = yk_file_print(f, "\n]}\n");
    return yk_file_close(f, st);
}
