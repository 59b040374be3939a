/* Inside of a client: remote.c receives and waits, remote_send.c sends, remote_batch.c renames sparse batches, remote_lease.c asks for
 * examples, joins and leaves. */
#ifndef YK_STORE_REMOTE_INTERNAL_H
#define YK_STORE_REMOTE_INTERNAL_H

#include "base/keys.h"
#include "base/mem.h"
#include "base/sync.h"
#include "store/messages.h"
#include "store/remote.h"
#include <stdatomic.h>

enum { YK__RING = 8 }; /* messages of a lane to a server that may be under way */

/* What was asked for, or will be: the parameters of a batch, or of several. */
typedef struct {
    atomic_int missing; /* servers that have not answered yet */
    uint32_t number;
    uint64_t asked_at, bytes; /* ns; of the answers; for the timeline */
    yk_rows rows;             /* sparse: the batches with places instead of keys; arrays of ours */
    uint32_t *pick;           /* 0, 1, 2, ... */
    size_t *end;              /* [batches] where each ends in `pick` */
    size_t row_cap, label_cap, entry_cap, value_cap, field_cap, pick_cap, end_cap;
    yk_batch dense;        /* as it came */
    const yk_chunk *chunk; /* that its keys are; NULL: they were found in its batches */
    const yk_rows *chunk_rows;
    size_t batches; /* of it */
    size_t nkeys;   /* different keys */
    uint32_t *
        order; /* [nkeys] places by server: those of server k are order[begin[k]] .. order[begin[k + 1] - 1] */
    uint32_t *row;  /* [nkeys] their numbers there, in that order */
    float *squares; /* [nkeys] */
    double squares_sum;
    uint64_t entries;
    size_t order_cap, key_cap, squares_cap;
    size_t *begin;                   /* [servers + 1] */
    float *w;                        /* the groups, one after the other: [arrays][keys or floats] */
    size_t w_cap, at[YK_MAX_GROUPS]; /* where each group begins */
    yk__share *share;                /* [threads of the lane] incarnation and cursor of what is in it */
    yk_remote_news news;
} yk__asked;

/* A lane's messages to one server, in order: a ring. The lane counts `queued` up, the thread that pumps the others. */
typedef struct {
    struct yk__letter {
        char *data;
        size_t bytes, cap;
        yk_purpose purpose;
        size_t pull_bytes; /* of these: keys, which are booked under another purpose */
        yk_op op;
    } letter[YK__RING];
    atomic_uint queued, done;
    unsigned sent;
} yk__ring;

typedef struct {
    _Alignas(YK_ALIGN) yk__asked slot[YK__OUTSTANDING];
    uint32_t asked, pulled; /* answers so far */
    yk__asked *current;     /* that the lane computes with */
    yk__asked *open;        /* that batches are added to; NULL: none yet */
    yk_merger keys;         /* of `open` */
    yk_mutex lock;          /* of `open`: the threads of a lane add to it */
    yk__ring *ring;         /* [servers] */
} yk__remote_lane;

/* A thread's leases. */
typedef struct {
    atomic_bool pending;
    bool here, later, idle;
    yk_lease lease;
    uint64_t unit;      /* of the order that it is in (data/feed.h); 0: the usual one */
    uint64_t leased_by; /* our incarnation when it was leased */
    uint64_t used_by;   /* the same of the lease that the feed has */
} yk__leases;

/* What one server sends. */
typedef struct {
    int peer;
    char *in;
    size_t in_cap;
    yk_op in_op, alive_op;
    bool receiving;
    double heard;
    atomic_int owes; /* answers */
} yk__line;

struct yk_remote {
    yk_remote_config config;
    bool keyed;
    yk__line *line;
    yk__remote_lane *lane;
    yk__leases *leases;  /* [threads] */
    atomic_uint waiting; /* messages that are queued or under way */
    atomic_uint activity, activity_told;
    _Atomic uint64_t incarnation; /* ours */
    atomic_bool stopped, failed;
    yk__up alive;
    double told;
    int greeted;
};

/* remote.c: the groups as this server has them; waits until all have answered, or `pending` is false */
yk__layout yk__remote_layout(const yk_remote *r, int server);
yk_status yk__remote_wait(yk_remote *r, const yk__asked *asked, const atomic_bool *pending, const char *what);

/* remote_send.c */
yk_status yk__remote_letter(yk_remote *r, int lane, int server, size_t bytes, yk_purpose purpose,
                            yk__up **out);                      /* room for a message */
yk_status yk__remote_post(yk_remote *r, int lane, int server);  /* it is complete */
yk_status yk__remote_drain(yk_remote *r, int lane, int server); /* until all have been received */
yk_status yk__remote_send_queued(yk_remote *r);                 /* the thread that pumps */

/* remote_batch.c */
yk_status yk__asked_add_chunk(yk_remote *r, yk__remote_lane *l, const yk_chunk *chunk, const yk_batch *b);
yk_status yk__asked_add(yk_remote *r, yk__remote_lane *l, const yk_batch *b, size_t *index_out);
yk_status yk__asked_close(yk_remote *r, int lane, yk__asked **out); /* it has a number now */
void yk__asked_fini(yk__asked *a);

#endif
