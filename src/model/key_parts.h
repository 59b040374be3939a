/* Divides the entries of a batch of sparse rows among the threads of a worker: by rows, then by keys. Each key has an owner, which
 * adds the gradients of all entries with this key, in the order of the rows. So the sums have the same bits for any number
 * of threads, and no two threads write to the same sum.
 *
 *     rows of thread 0, 1, ...    sort: the entries of each thread's rows, ordered by owner
 *     keys of owner 0, 1, ...     find: the keys of each owner, in the order in which they first occur
 *     keys of the batch           those of owner 0, then those of owner 1, ...
 *
 * Kernels add the entries of an owner as lists, or the rows of a thread that is alone as a batch (kern/factors.h).
 *
 * Example:
 *     yk__key_parts_begin(&parts, &batch, threads);
 *     // each thread `me`
 *     yk__key_parts_sort(&parts, me);
 *     yk_team_barrier(team, me);
 *     yk__key_parts_find(&parts, me);
 *     // one thread, when all have found theirs
 *     yk_status st = yk__key_parts_number(&parts); // now there are parts.n keys
 *     // each thread
 *     size_t first;
 *     const yk_merger *own = yk__key_parts_own(&parts, me, &first);
 *     memcpy(key + first, own->key, own->n * sizeof *key);
 *     yk__key_parts_each(&parts, me, 0, batch.n, add, context);
 *
 * A thread that is alone copies no entries. Memory grows with the largest batch so far.
 */
#ifndef YK_MODEL_KEY_PARTS_H
#define YK_MODEL_KEY_PARTS_H

#include "base/arena.h"
#include "core/keys.h"
#include "core/rows.h"
#include "core/view.h"

typedef struct yk__key_part yk__key_part;

typedef struct {
    int threads, used; /* used: of these, for the current batch */
    bool
        uneven; /* keys are divided individually: in an earlier batch, one thread had twice its share of the entries */
    yk__key_part *part; /* [threads] */
    uint32_t *count;    /* [max_batch] 0, 1, 2 ... */
    const yk_batch *batch;
    size_t n;     /* keys of the batch */
    yk_rows rows; /* renumber() */
    yk_batch renumbered;
} yk__key_parts;

/* The entries of one owner in some rows of the batch: a list; with one thread, whole rows. */
typedef struct {
    yk_batch batch;
    const uint32_t *at;   /* [batch.n] the row of each entry, in the batch of all threads; NULL: whole rows */
    const uint32_t *slot; /* [entries] the number of its key among those of the owner */
} yk__key_share;

/* The arena has what does not grow. */
yk_status yk__key_parts_init(yk__key_parts *p, yk_arena *memory, int threads, size_t max_batch);
void yk__key_parts_fini(yk__key_parts *p); /* also after a failed init */

void yk__key_parts_begin(yk__key_parts *p, const yk_batch *batch, int used);
void yk__key_parts_rows(const yk__key_parts *p, int me, size_t *begin_out, size_t *end_out); /* of a thread */
void yk__key_parts_sort(yk__key_parts *p, int me);
void yk__key_parts_find(yk__key_parts *p, int me);
yk_status yk__key_parts_number(yk__key_parts *p); /* reports errors of all threads */

/* The keys of `me`, with one zero each as value; space for one more. first_out: the number of keys of the owners before it. */
const yk_merger *yk__key_parts_own(const yk__key_parts *p, int me, size_t *first_out);

/* If one thread is used, after number(): replaces the keys of the batch by their numbers. Then the batch can be computed with a
 * copy of the parameters of its keys. */
yk_status yk__key_parts_renumber(yk__key_parts *p);

/* Copies the parameters of the keys of `me` to their place in out, [keys][width]. Others may change them at any time. */
void yk__key_parts_copy(const yk__key_parts *p, int me, const yk_view *v, uint32_t width, float *out);

/* Calls add() for rows begin .. end - 1 of the batch, in order, with the entries that `me` owns. */
void yk__key_parts_each(const yk__key_parts *p, int me, size_t begin, size_t end,
                        void (*add)(void *context, const yk__key_share *s), void *context);

#endif
