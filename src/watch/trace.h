/* A timeline of a run for chrome://tracing and ui.perfetto.dev: phases, layers, messages and counters of all ranks.
 *
 * Example:
 *     yk_trace *t;
 *     yk_status st = yk_trace_create(rank, "worker", &t);
 *     if (st)
 *         return st;
 *     yk_trace_track *w = yk_trace_add(t, "worker 0", 1 << 15); // one per thread that writes; NULL: out of memory
 *     yk_trace_slice(w, "compute", begin_ns, took_ns);          // nanoseconds of base/clock.h
 *     yk_trace_counter(w, "loss", now_ns, 0.31);
 *     char *text;
 *     st = yk_trace_text(t, &text); // its events as JSON, to be sent or saved
 *     if (!st)
 *         st = yk_trace_save("run", "trace.json", &text, 1); // those of all ranks
 *
 * The memory is bounded: half of the capacity of a track is for its first events, the other half is a ring of its latest
 * events. A slice "N events dropped" fills the gap between them, and the metadata has the total.
 *
 *     slice     {"name":"compute","cat":"step","ph":"X","ts":12.3,"dur":4.5,"pid":RANK,"tid":TRACK}      microseconds
 *     message   the same with "args":{"peer":3,"bytes":4096}
 *     counter   {"name":"loss","ph":"C","ts":12.3,"pid":RANK,"args":{"loss":0.31}}
 *     names     {"name":"process_name" or "thread_name","ph":"M","pid":RANK,"tid":TRACK,"args":{"name":"..."}}
 *
 * Clocks differ between hosts: yk_trace_clock() sets the offset of this clock to the chief's, and when the run began there.
 * One thread writes to a track. The thread that owns the trace calls add, clock, text and free; text and free only when no
 * other thread writes any more. Names of events are borrowed until the text is made. A NULL track ignores all events.
 */
#ifndef YK_WATCH_TRACE_H
#define YK_WATCH_TRACE_H

#include "base/status.h"

typedef struct yk_trace yk_trace;
typedef struct yk_trace_track yk_trace_track;

yk_status yk_trace_create(int rank, const char *role, yk_trace **out);
void yk_trace_free(yk_trace *t); /* NULL is fine */

/* Adds a row to the timeline, for at most `capacity` events. The name is copied. */
yk_trace_track *yk_trace_add(yk_trace *t, const char *name, size_t capacity);

void yk_trace_slice(yk_trace_track *w, const char *name, uint64_t begin, uint64_t took);
void yk_trace_message(yk_trace_track *w, const char *name, int peer, uint64_t bytes, uint64_t begin,
                      uint64_t took);
void yk_trace_counter(yk_trace_track *w, const char *name, uint64_t at, double value);

/* True while the first half of the capacity is not full: then no event needs to be left out. */
bool yk_trace_wants_all(const yk_trace_track *w);

/* Local nanoseconds + offset are those of the chief; its time `zero` is the 0 of the timeline. */
void yk_trace_clock(yk_trace *t, int64_t offset, uint64_t zero);

/* All events, separated by commas and newlines: a part of the file. The caller frees it with free(). */
yk_status yk_trace_text(const yk_trace *t, char **out);

/* Writes the file, from the parts of all ranks; NULL parts are left out. */
yk_status yk_trace_save(const char *dir, const char *name, char *const *part, size_t n);

#endif
