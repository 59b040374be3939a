/* Example assignment: which worker trains on which examples in asynchronous mode. A lease is a range of positions in the order
 * of an epoch. One process leases every position once per epoch, to the workers that request them. The examples of a lease
 * count as used when their gradients arrive. When a worker is lost or leaves, the rest of its leases goes to others.
 *
 * Example:
 *     yk_assignment a;
 *     yk_lease lease;
 *     uint64_t returned;
 *     yk_assignment_init(&a, examples, epochs, UINT64_MAX, batch, workers, 0);
 *     yk_status st = yk_assignment_lease(&a, worker, &lease); // lease.begin == lease.end: no examples are left
 *     yk_assignment_used(&a, worker, 100); // a gradient of 100 examples arrived
 *     st = yk_assignment_return(&a, worker, &returned); // the worker is lost: its unused examples go to others
 *     yk_assignment_fini(&a);
 *
 * Plain data and arithmetic, for one thread.
 */
#ifndef YK_DATA_ASSIGNMENT_H
#define YK_DATA_ASSIGNMENT_H

#include "base/status.h"
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

typedef struct {
    uint64_t epoch, begin, end;
} yk_lease;

typedef struct {
    uint64_t examples, epochs; /* examples per epoch */
    uint64_t batch, longest;   /* examples of a step; of the longest lease */
    uint64_t chunk_rows;       /* leases are multiples of this; 0: of any length */
    uint64_t steps_left;       /* number of steps that may still be leased; UINT64_MAX: no limit */
    uint64_t next_epoch, next_at;
    yk_lease *returned;
    size_t nreturned, returned_cap;
    struct yk_leased {
        int worker;
        yk_lease lease;
    } * held; /* leases that workers hold, oldest first */
    size_t nheld, held_cap;
} yk_assignment;

/* chunk_rows: leases are multiples of this number of examples, which shuffling keeps together (data/feed.h); 0: of any length. steps:
 * limit for all leases together; UINT64_MAX: none. The longest lease depends on the number of workers. */
void yk_assignment_init(yk_assignment *a, uint64_t examples, uint64_t epochs, uint64_t steps, uint64_t batch,
                        int workers, uint64_t chunk_rows);
void yk_assignment_fini(yk_assignment *a);

/* An empty lease: no examples are left. */
yk_status yk_assignment_lease(yk_assignment *a, int worker, yk_lease *out);
void yk_assignment_used(yk_assignment *a, int worker, uint64_t examples);
yk_status yk_assignment_return(yk_assignment *a, int worker, uint64_t *examples_out);
bool yk_assignment_done(const yk_assignment *a); /* all examples are leased and used */

/* The cursor of asynchronous workers, as data/feed.h writes it:
 * 2 + 256 chunk_rows | next epoch | next position | epoch, begin, end of each lease that is not used up ...
 * The caller frees it: yk_free(). */
yk_status yk_assignment_cursor(const yk_assignment *a, uint64_t **out, size_t *n_out);
yk_status yk_assignment_cursor_restore(yk_assignment *a, const uint64_t *cursor, size_t n);

#endif
