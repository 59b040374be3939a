/* What the processes of a job tell its chief about themselves while it runs, so that there is one verdict on all of them, live.
 *
 *     rank 2   step step [tell] step step step ... step [tell] step ...       bye | last word | report
 *                            \                              \                           \
 *     rank 0   serving ....... [hear] ...................... [hear] ............. hears the last word of all
 *                                 \ verdict, progress line, live page, metrics
 *
 * A message is a yk__telling: phases, steps, examples, bytes by purpose, resources, the newest sample; some three KB on a tag
 * of its own, once a second, for YK_FOR_CONTROL. When it is time the sampling thread says; in between it costs a step one look
 * at an atomic. Nobody waits: who has not got rid of the last message skips one, and the chief takes what has come. So all
 * ranks tell, the other servers and replicas too, and so does a worker that joined, from whom no report comes: its last word
 * is what the run knows of it. Of one that is lost the last message stays, marked.
 *
 * The thread that sends and receives calls these, yk__heard() excepted.
 */
#ifndef YK_TRAIN_TELL_H
#define YK_TRAIN_TELL_H

#include "train/cluster.h"
#include "train/train.h"
#include "watch/resources.h"

typedef struct {
    uint32_t magic;
    int number; /* worker-N is its folder in the run directory; -1: it has none there */
    bool last;
    yk_rank_report report; /* bytes of the last word are counted in it */
    yk_sample sample;      /* the newest; seconds are 0: there is none yet */
} yk__telling;

/* One that tells the chief. */
typedef struct {
    int peer;
    bool over; /* it has said its last word, or can not be heard any more */
    bool receiving, fresh;
    bool lost_now;      /* as the server knows it */
    uint64_t came_last; /* in step, with servers: how often the others waited for it */
    uint64_t steps;     /* that servers have of it */
    yk_op op;
    yk__telling in;
    /* under the observer's lock */
    bool known;
    yk__telling word;
} yk__teller;

struct yk__observer;
typedef struct yk__trainer yk__trainer;

yk_status yk__tell_start(yk__trainer *t); /* on the chief: who there is */
void yk__tell_free(struct yk__observer *o);

void yk__tell(yk__trainer *t);
void yk__hear(yk__trainer *t);

/* At the end. Whoever is not heard of in time is left out: no reason to fail. */
void yk__tell_last(yk__trainer *t);
void yk__hear_last(yk__trainer *t);

/* What was last heard of everybody else, from any thread: a copy, to be freed; NULL with *n_out 0: nothing. */
yk__telling *yk__heard(struct yk__observer *o, int *n_out);

/* In step, with servers: how often this one was the last, which only they know. */
void yk__tell_blame(const yk__trainer *t, int peer, yk_phases_look *look);

#endif
