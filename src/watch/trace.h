/* A timeline of a run that chrome://tracing and ui.perfetto.dev open: phases, layers, messages and counters of all ranks.
 *
 *     yk_trace *t;
 *     st = yk_trace_create(rank, "worker", &t);
 *     yk_trace_track *w = yk_trace_add(t, "worker 0", 1 << 15);       // one per thread that writes; NULL: no memory
 *     yk_trace_slice(w, "compute", begin_ns, took_ns);                // base/clock.h's nanoseconds
 *     yk_trace_counter(w, "loss", now_ns, 0.31);
 *     char *text;
 *     st = yk_trace_text(t, &text);                                   // its events as JSON, to be sent or saved
 *     st = yk_trace_save("run", "trace.json", &text, 1);                 // those of all ranks
 *
 * Bounded however long a run is: a track keeps its first events, half of its room, and the most recent ones, the other half, in
 * a ring; what lay between is dropped and counted. Counters are thinned instead: when their room is full, every other point
 * goes, so that they span the whole run. A slice "N events dropped" fills the place, and metadata says how many.
 *
 *     slice     {"name":"compute","cat":"step","ph":"X","ts":12.3,"dur":4.5,"pid":RANK,"tid":TRACK}      microseconds
 *     message   the same with "args":{"peer":3,"bytes":4096}
 *     counter   {"name":"loss","ph":"C","ts":12.3,"pid":RANK,"args":{"loss":0.31}}
 *     names     {"name":"process_name" or "thread_name","ph":"M","pid":RANK,"tid":TRACK,"args":{"name":"..."}}
 *
 * Clocks differ between machines: yk_trace_clock() says what to add to this one's to get the chief's, and when the run
 * began there. One thread writes to a track; add, clock and text are for the thread that owns the trace, text and free when the
 * others are done. Names are borrowed until the text is made. A NULL track takes everything and keeps nothing.
 */
#ifndef YK_WATCH_TRACE_H
#define YK_WATCH_TRACE_H

#include "base/status.h"
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

typedef struct yk_trace yk_trace;
typedef struct yk_trace_track yk_trace_track;

yk_status yk_trace_create(int rank, const char *role, yk_trace **out);
void yk_trace_free(yk_trace *t); /* NULL is fine */

/* A row of the timeline with room for so many events. The name is copied. */
yk_trace_track *yk_trace_add(yk_trace *t, const char *name, size_t room);

void yk_trace_slice(yk_trace_track *w, const char *name, uint64_t begin, uint64_t took);
void yk_trace_message(yk_trace_track *w, const char *name, int peer, uint64_t bytes, uint64_t begin,
                      uint64_t took);
void yk_trace_counter(yk_trace_track *w, const char *name, uint64_t at, double value);

/* True while the first half of its room lasts: then nothing need be left out. */
bool yk_trace_wants_all(const yk_trace_track *w);
uint64_t yk_trace_dropped(const yk_trace *t);

/* Local nanoseconds + offset are the chief's; those at `zero` there are the timeline's 0. */
void yk_trace_clock(yk_trace *t, int64_t offset, uint64_t zero);

/* All events, separated by commas and newlines: a piece of the file. The caller frees it with free(). */
yk_status yk_trace_text(const yk_trace *t, char **out);

/* The file, from the pieces of all ranks; NULL pieces are left out. */
yk_status yk_trace_save(const char *dir, const char *name, char *const *piece, size_t n);

#endif
