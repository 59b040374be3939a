/* A worker's way to the servers: the store's verbs by messages (messages.h).
 *
 *     st = yk_remote_create(&config, &r);
 *     st = yk_remote_ask(r, &batch);               // a sparse model's keys; the answer will be that of this batch
 *     st = yk_remote_pull(r, &view, &batch);       // waits for the oldest answer that was asked for
 *     model->grad(..., &view, &batch, &grad);
 *     st = yk_remote_push(r, &grad, &next);        // together with the asking for `next` (NULL: no more)
 *
 * Sparse batches are renamed: yk_remote_pull() gives back the batch with its keys replaced by their places among the
 * batch's different keys (a bias has place 0), and a view of just these parameters: it all fits into a cache, and the
 * gradient is a vector that short. Depth, the number of batches that are asked for ahead, is 1 in step and 2 otherwise.
 *
 * With local steps (changes.h) a worker asks for the parameters of several batches at once, with their optimizer state, and
 * pushes how these have changed:
 *
 *     st = yk_remote_gather(r, &batch);            // for each batch of the round; sparse ones are copied
 *     st = yk_remote_ask_gathered(r);
 *     st = yk_remote_pull_values(r, &values, &n, &batches, &news);
 *     ...                                          // steps on a copy of `values`, with yk_remote_batch(r, 0), 1, 2, ...
 *     st = yk_remote_gather(r, &batch);            // those of the next round; none: there are no more
 *     st = yk_remote_push_changes(r, steps, examples, loss);       // `values` hold the changes now
 *
 * One thread. Every wait has a deadline and names the server.
 */
#ifndef YK_STORE_REMOTE_H
#define YK_STORE_REMOTE_H

#include "base/grad.h"
#include "base/view.h"
#include "comm/comm.h"
#include "store/dealer.h"
#include "watch/phase.h"
#include <signal.h>

typedef struct yk_remote yk_remote;

typedef struct {
    yk_comm *comm;
    int servers;
    const int *peer; /* [servers] where they are; NULL: ranks 0 .. servers - 1. Borrowed */
    bool sparse, in_step;
    int arrays; /* local steps: weights and the arrays of the optimizer's state (changes.h); else 0 */
    size_t nparams;
    uint32_t bias_key; /* sparse: the key of the bias; UINT32_MAX: none */
    double silence;    /* seconds without a word from a server after which it is given up */
    double alive;      /* seconds after which servers should hear from us that we are alive */
    yk_phases *phases; /* borrowed; NULL: nobody measures */
    const volatile sig_atomic_t
        *leave; /* of a worker that joined: non-zero when it shall leave; NULL: never */
} yk_remote_config;

/* What the servers said with the last answer. */
typedef struct {
    uint64_t round, steps; /* rounds that are over, or updates; steps so far, of all */
    uint64_t examples;     /* in step: of the last round; 0: the epoch is over */
    double loss;
    bool stop;
} yk_remote_news;

yk_status yk_remote_create(const yk_remote_config *config, yk_remote **out);
void yk_remote_free(yk_remote *r); /* NULL is fine */

/* Of one that joins a running job: what it is, before all else. */
yk_status yk_remote_hello(yk_remote *r, uint64_t identity);

/* Asks alone, without a push: at the beginning, and in step after an epoch. */
yk_status yk_remote_ask(yk_remote *r, const yk_batch *batch);
yk_status yk_remote_pull(yk_remote *r, yk_view *view_out, yk_batch *batch_out, yk_remote_news *news_out);
/* For the next push (messages.h): the life that its examples were dealt in; of a stream, where reading stands after them. */
void yk_remote_place(yk_remote *r, uint64_t life, const uint64_t place[5]);
uint64_t yk_remote_life(
    const yk_remote
        *r); /* goes up when the servers have given us up: what they dealt us is not ours any more */
yk_status yk_remote_push(yk_remote *r, const yk_grad *g, const yk_batch *next);

/* In step, after a push without `next`: waits for the end of the round. */
yk_status yk_remote_round(yk_remote *r, yk_remote_news *news_out);

/* Local steps, as above. One batch of a dense model is enough to ask for all parameters. */
yk_status yk_remote_gather(yk_remote *r, const yk_batch *batch);
void yk_remote_drop(yk_remote *r); /* what was gathered and not asked for yet */
yk_status yk_remote_ask_gathered(yk_remote *r);
/* [arrays][n], ours to change until the push */
yk_status yk_remote_pull_values(yk_remote *r, float **values_out, size_t *n_out, size_t *batches_out,
                                yk_remote_news *news_out);
yk_batch yk_remote_batch(const yk_remote *r, size_t i); /* of what was pulled last */
/* Together with the asking for what was gathered, if anything was. No steps: there was nothing left to train on. */
yk_status yk_remote_push_changes(yk_remote *r, uint64_t steps, uint64_t examples, double loss);
/* To be called now and then while one computes for long: servers hear that it goes on. */
yk_status yk_remote_alive(yk_remote *r);

/* Not in step: the next run of examples from server 0; asked for ahead. Empty: there are no more; or, without `wait`, none
 * now, but a worker may be lost and leave some. `wait` only when nothing is under way, or one waits for oneself. */
yk_status yk_remote_deal(yk_remote *r, bool wait, yk_lease *out);

/* Takes what has arrived; for long computations, now and then. */
yk_status yk_remote_poll(yk_remote *r);

/* Whether this worker was told to leave the job that it joined. It finishes its step and sends a leave message with
 * yk_remote_bye(). */
bool yk_remote_leaves(const yk_remote *r);

/* Sends the leave message: this worker sends nothing more, and its unused examples go to other workers. */
yk_status yk_remote_bye(yk_remote *r);

#endif
