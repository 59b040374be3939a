/* Inside of local SGD: local_sgd.c makes steps on a copy, local_sgd_replicas.c and local_sgd_shards.c begin and end rounds. */
#ifndef YK_STORE_LOCAL_SGD_INTERNAL_H
#define YK_STORE_LOCAL_SGD_INTERNAL_H

#include "base/mem.h"
#include "store/delta.h"
#include "store/local_sgd.h"
#include "store/replicas.h"

/* Batches of a thread that were announced for a round, by their numbers in what will be asked for. */
typedef struct {
    size_t *index, n, cap;
} yk__announced;

typedef struct {
    _Alignas(YK_ALIGN) yk_batch batch; /* dense groups, or replicas: the next one */
    uint64_t cursor[YK_CURSOR];
    bool announced, has;     /* dense groups, or replicas: a batch, or that there is none; there is one */
    bool exhausted;          /* there are no more batches, until the epoch is over or others give some back */
    yk__announced now, next; /* keyed groups on shards: of this round, and the next one */
    yk_grad grad;
    uint64_t calls;    /* of clock(), in this round */
    uint64_t examples; /* in this round */
} yk__sgd_worker;

/* What a process did in a round. */
typedef struct {
    uint64_t steps, examples;
    double loss;
    yk_word word;
} yk__made;

/* The keys of keyed groups that changed since the last merge, and what they were then (replicas). */
typedef struct {
    yk_merger keys;
    size_t n;
    float *before[YK_MAX_GROUPS][1 + YK_MAX_SLOTS];
    size_t before_cap[YK_MAX_GROUPS][1 + YK_MAX_SLOTS];
    uint32_t *since; /* when each was up to date with its decay */
    size_t since_cap;
} yk__touched;

typedef struct yk__sgd yk__sgd;

struct yk__sgd {
    yk_store base;
    yk_local_sgd_config config;
    bool keyed;
    yk_local *copy; /* that steps are made on */
    yk__sgd_worker *worker;
    yk__made made;
    uint64_t most; /* calls of clock() in this round */
    bool open;     /* a round is */
    yk_step_result result;
    uint64_t *share; /* [workers] examples of each in the round */

    /* replicas */
    uint64_t step; /* of all, at the beginning of the round */
    yk_round_timer timer;
    yk__touched touched;
    yk_delta_sums sums;
    char *out;
    size_t out_cap;
    const char **data; /* [ranks] what the others sent */
    size_t *bytes;

    /* shards */
    size_t room;             /* keys that fit into the copy */
    yk_remote_answer answer; /* without batches: that for the next round is not here yet */
};

/* The most steps of a round that begins with this step. With a quorum, the first step of a round can only be guessed before
 * it begins. */
static inline uint64_t yk__sgd_most(const yk__sgd *s, uint64_t step)
{
    const uint64_t h = s->config.steps;
    if (!s->config.synchronous)
        return h;
    const uint64_t due = s->config.until_due(s->config.context, step), most = due < h ? due : h;
    return most || s->config.lockstep ? most : 1;
}

/* All by the first thread, while the others wait. */
yk_status yk__sgd_replicas_create(yk__sgd *s);
void yk__sgd_replicas_free(yk__sgd *s);
yk_status yk__sgd_replicas_step(yk__sgd *s); /* before a step changes the copy */
yk_status yk__sgd_replicas_end(yk__sgd *s);  /* of a round: fills in s->result */

yk_status yk__sgd_shards_create(yk__sgd *s);
void yk__sgd_shards_free(yk__sgd *s);
size_t yk__sgd_shards_wants(const yk__sgd *s, int me);
yk_status yk__sgd_shards_announce(yk__sgd *s, int me, const yk_batch *batch);
yk_status yk__sgd_shards_begin(yk__sgd *s); /* a round: the copy is made */
yk_batch yk__sgd_shards_batch(yk__sgd *s, int me);
bool yk__sgd_shards_over(const yk__sgd *s); /* the round: nobody of this process has another batch for it */
yk_status yk__sgd_shards_end(yk__sgd *s);
yk_status yk__sgd_shards_leave(yk__sgd *s);

#endif
