/* Who trains on which examples, where workers go at their own pace: runs of positions of an epoch's order, dealt out by one
 * process to whoever asks, every position once per epoch. A worker's run is known to be used as far as its
 * gradients have arrived; when it is lost, or goes, the rest is dealt to others.
 *
 *     yk_assignment_init(&d, examples, epochs, steps, batch, workers);
 *     got = yk_assignment_lease(&d, worker, &run);        // false: nothing is left
 *     yk_assignment_used(&d, worker, 100);               // a gradient of 100 examples arrived
 *     back = yk_assignment_return(&d, worker);           // it is gone: so many examples go back
 *
 * Plain data and arithmetic; one thread.
 */
#ifndef YK_STORE_ASSIGNMENT_H
#define YK_STORE_ASSIGNMENT_H

#include "base/status.h"
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

typedef struct {
    uint64_t epoch, begin, end;
} yk_lease;

typedef struct {
    uint64_t examples, epochs, batch, run; /* of an epoch; in all; of a step; of a run at most */
    uint64_t unit;                         /* of the order of an epoch; 0: the usual one */
    uint64_t steps_left;                   /* that may be dealt yet; UINT64_MAX: no limit */
    uint64_t next_epoch, next_at;
    yk_lease *back; /* leases that were returned */
    size_t nback, back_cap;
    struct yk_leased {
        int worker;
        yk_lease run;
    } * out; /* with workers, in the order in which they were dealt */
    size_t nout, out_cap;
} yk_assignment;

/* unit: examples that are always leased together (data/feed.h); 0: what is best for so many workers */
void yk_assignment_init(yk_assignment *d, uint64_t examples, uint64_t epochs, uint64_t steps, uint64_t batch,
                        int workers, uint64_t unit);
void yk_assignment_fini(yk_assignment *d);

yk_status yk_assignment_lease(yk_assignment *d, int worker,
                              yk_lease *out); /* an empty lease: no examples are left */
void yk_assignment_used(yk_assignment *d, int worker, uint64_t examples);
yk_status yk_assignment_return(yk_assignment *d, int worker, uint64_t *examples_out);
bool yk_assignment_done(const yk_assignment *d); /* all is dealt, and all that was dealt is used */

/* As data/feed.h writes a cursor of workers that go freely: kind 2 | next epoch | next position | epoch, at, end ... */
size_t yk_assignment_cursor_size(const yk_assignment *d);
void yk_assignment_cursor_save(const yk_assignment *d, uint64_t *out);
yk_status yk_assignment_cursor_restore(yk_assignment *d, const uint64_t *cursor, size_t n);

#endif
