#include "train/tell.h"

#include "base/clock.h"
#include "base/wait.h"
#include "train/observe.h"
#include <stdlib.h>
#include <string.h>

enum { TAG_TELL = 15, MAGIC = 0x74656c6c, MOST_WORKERS = 1024 };
static const double patience = 10.0; /* seconds for a last word */

/* ---- telling ---- */

static yk_status send_word(yk__trainer *t)
{
    const yk__cluster *k = &t->cluster;
    yk__observer *o = t->observer;
    return yk_comm_send(k->comm, k->server_peer ? k->server_peer[0] : 0, TAG_TELL, YK_FOR_CONTROL,
                        &o->telling, sizeof o->telling, &o->tell_op);
}

static void compose(yk__trainer *t, const yk_process *self)
{
    yk__telling *w = &t->observer->telling;
    w->magic = MAGIC;
    w->number = t->shared_dir ? t->number : -1;
    yk__report_of(t, self, &w->report);
    yk__observe_sample(t, &w->sample);
}

void yk__tell(yk__trainer *t)
{
    yk__observer *o = t->observer;
    yk_process self;
    bool done;
    if (o->mute)
        return;
    yk_status st = yk_comm_test(t->cluster.comm, &o->tell_op, &done);
    if (!st && done) {
        yk__observe_self(t, &self);
        compose(t, &self);
        st = send_word(t);
    }
    o->mute = st != YK_OK; /* that the chief is gone others find out */
}

void yk__tell_last(yk__trainer *t)
{
    yk__observer *o = t->observer;
    yk_comm *c = t->cluster.comm;
    if (!o || o->mute || yk_comm_wait(c, &o->tell_op, 1, patience, "a word to be taken"))
        return;
    compose(t, &t->self);
    o->telling.last = true;
    yk_traffic *control = &o->telling.report.traffic[YK_FOR_CONTROL];
    control->sent += sizeof o->telling;
    control->messages_sent++;
    if (!send_word(t))
        yk_comm_wait(c, &o->tell_op, 1, patience, "the last word to be taken");
}

/* ---- hearing ---- */

static yk_status add_teller(yk__observer *o, int peer, yk__teller **out)
{
    yk__teller **grown =
        yk_grow(o->teller, &o->teller_cap, (size_t)o->ntellers + 1, sizeof *grown, "the others");
    if (grown)
        o->teller = grown;
    *out = grown ? calloc(1, sizeof **out) : NULL;
    if (!*out)
        return yk_fail_memory(sizeof **out, "the others");
    (*out)->peer = peer;
    o->teller[o->ntellers++] = *out;
    return YK_OK;
}

yk_status yk__tell_start(yk__trainer *t)
{
    yk__teller *teller;
    yk_status st = YK_OK;
    for (int i = 1; !st && t->cluster.rank == 0 && i < t->cluster.ranks; i++)
        st = add_teller(t->observer, i, &teller);
    return st;
}

void yk__tell_free(yk__observer *o)
{
    for (int i = 0; i < o->ntellers; i++)
        free(o->teller[i]);
    free(o->teller);
}

static yk__teller *find(const yk__observer *o, int peer)
{
    for (int i = 0; i < o->ntellers; i++)
        if (o->teller[i]->peer == peer)
            return o->teller[i];
    return NULL;
}

/* What the server knows of the workers, who may be new or gone. Under the lock. */
static void ask_server(yk__trainer *t)
{
    yk__observer *o = t->observer;
    yk_server_worker *w = t->cluster.server ? malloc(MOST_WORKERS * sizeof *w) : NULL;
    const int n = w ? yk_server_workers(t->cluster.server, w, MOST_WORKERS) : 0;
    for (int i = 0; i < n; i++) {
        yk__teller *teller = find(o, w[i].peer);
        if (!teller && add_teller(o, w[i].peer, &teller))
            break; /* no memory: it goes unheard */
        teller->lost_now = w[i].lost;
        teller->came_last = w[i].last;
        teller->steps = w[i].steps;
    }
    free(w);
}

/* Everything that has come from this one. */
static void listen_to(yk_comm *c, yk__teller *teller)
{
    while (!teller->over && !teller->fresh) {
        bool found, done = false;
        int peer;
        size_t bytes;
        yk_status st = YK_OK;
        if (!teller->receiving) {
            if ((st = yk_comm_probe(c, teller->peer, TAG_TELL, &found, &peer, &bytes)) || !found) {
                teller->over = st != YK_OK;
                return;
            }
            st = yk_comm_recv(c, teller->peer, TAG_TELL, YK_FOR_CONTROL, &teller->in, sizeof teller->in,
                              &teller->op);
            teller->receiving = !st;
        }
        if (st || (st = yk_comm_test(c, &teller->op, &done))) {
            teller->over = true;
            return;
        }
        if (!done)
            return;
        teller->receiving = false;
        teller->fresh = teller->in.magic == MAGIC;
        teller->over = teller->in.last || !teller->fresh;
    }
}

/* The number that it is known by: a rank; of one that joined that of its folder, if it has one to itself. */
static int number_of(const yk__trainer *t, const yk__teller *teller)
{
    const yk__observer *o = t->observer;
    if (teller->peer < t->cluster.ranks)
        return teller->peer;
    if (teller->known)
        return teller->word.report.process.rank;
    int number = teller->in.number >= t->cluster.ranks ? teller->in.number : teller->peer;
    for (int i = 0; i < o->ntellers; i++)
        if (o->teller[i]->known && o->teller[i]->word.report.process.rank == number) {
            number++;
            i = -1;
        }
    return number;
}

/* Under the lock. */
static void publish(const yk__trainer *t, yk__teller *teller)
{
    yk_process *p = &teller->word.report.process;
    if (teller->fresh) {
        const int number = number_of(t, teller);
        teller->word = teller->in;
        teller->known = true;
        teller->fresh = false;
        p->rank = number;
        p->joined = teller->peer >= t->cluster.ranks;
    }
    p->lost = teller->lost_now;
    yk__tell_blame(t, teller->peer, &p->look);
}

void yk__tell_blame(const yk__trainer *t, int peer, yk_phases_look *look)
{
    const yk__teller *teller = find(t->observer, peer);
    if (!teller || !t->cluster.server || t->plan->staleness)
        return;
    look->meetings = look->steps;
    look->last = teller->came_last < look->steps ? teller->came_last : look->steps;
}

static void take_all(yk__trainer *t)
{
    yk__observer *o = t->observer;
    ask_server(t);
    for (int i = 0; i < o->ntellers; i++) {
        listen_to(t->cluster.comm, o->teller[i]);
        publish(t, o->teller[i]);
    }
}

void yk__hear(yk__trainer *t)
{
    yk__observer *o = t->observer;
    if (pthread_mutex_trylock(&o->lock)) /* next time */
        return;
    take_all(t);
    pthread_mutex_unlock(&o->lock);
}

/* Is there more to come from this one? Of those who joined some were refused, and never say a word. */
static bool awaited(const yk__trainer *t, const yk__teller *teller)
{
    return !teller->over && !teller->lost_now &&
           (teller->peer < t->cluster.ranks || teller->known || teller->steps > 0);
}

void yk__hear_last(yk__trainer *t)
{
    yk__observer *o = t->observer;
    yk_wait w = yk_wait_begin(YK_WAIT_RANKS, patience);
    for (bool more = true; o && more;) {
        more = false;
        pthread_mutex_lock(&o->lock);
        take_all(t);
        for (int i = 0; i < o->ntellers; i++)
            more |= awaited(t, o->teller[i]);
        pthread_mutex_unlock(&o->lock);
        more = more && yk_wait_turn(&w);
    }
}

yk__telling *yk__heard(yk__observer *o, int *n_out)
{
    *n_out = 0;
    pthread_mutex_lock(&o->lock);
    yk__telling *all = o->ntellers ? malloc((size_t)o->ntellers * sizeof *all) : NULL;
    for (int i = 0; all && i < o->ntellers; i++)
        if (o->teller[i]->known)
            all[(*n_out)++] = o->teller[i]->word;
    pthread_mutex_unlock(&o->lock);
    return all;
}
