#include "store/remote_inside.h"

#include "base/clock.h"
#include "base/wait.h"
#include "watch/trace.h"
#include <math.h>
#include <stdlib.h>
#include <string.h>

/* Dense parameters: for the batch at hand, and the next where that is asked for ahead. */
static int buffers(const yk_remote *r)
{
    return r->config.arrays ? 1 : 2;
}

yk_status yk_remote_create(const yk_remote_config *config, yk_remote **out)
{
    yk_remote *r = yk_alloc(1, sizeof *r, "the way to the servers");
    const size_t k = (size_t)config->servers;
    if (!r)
        return YK_ESYSTEM;
    r->config = *config;
    r->arrays = config->arrays ? (size_t)config->arrays : 1;
    r->kern = yk_linear();
    r->line = yk_alloc(k, sizeof *r->line, "the way to the servers");
    bool ok = r->line && !yk_merger_init(&r->keys, 1024);
    for (size_t i = 0; ok && i < k; i++)
        r->line[i].peer = config->peer ? config->peer[i] : (int)i;
    for (int i = 0; ok && i < YK__OUTSTANDING; i++) {
        ok = (r->slot[i].count = yk_alloc(k, sizeof(size_t), "the way to the servers")) != NULL;
        if (ok && !config->sparse)
            ok = (r->slot[i].w = yk_alloc(i < buffers(r) ? config->nparams * r->arrays : 0, sizeof(float),
                                          "the parameters")) != NULL;
    }
    if (!ok) {
        yk_remote_free(r);
        return YK_ESYSTEM;
    }
    *out = r;
    return YK_OK;
}

void yk_remote_free(yk_remote *r)
{
    if (!r)
        return;
    for (int i = 0; i < YK__OUTSTANDING; i++) {
        yk__asked_fini(r, &r->slot[i]);
        for (int k = 0; r->line && k < r->config.servers; k++)
            free(r->line[k].out[i]);
    }
    for (int k = 0; r->line && k < r->config.servers; k++)
        free(r->line[k].in);
    yk_merger_fini(&r->keys);
    free(r->grad);
    yk_free(r->line);
    yk_free(r);
}

/* ---- what servers say ---- */

/* The timeline of this worker; NULL: there is none. */
static yk_trace_track *track_of(const yk_remote *r)
{
    return r->config.phases ? r->config.phases->track : NULL;
}

static float *values_at(yk_remote *r, uint32_t number)
{
    return r->slot[number % (uint32_t)(r->config.sparse ? YK__OUTSTANDING : buffers(r))].w;
}

/* What server k has sent of [arrays][n] values, to where it belongs. */
static void place(yk_remote *r, int k, const yk__asked *a, const float *v)
{
    const size_t n = r->config.sparse ? a->nkeys : r->config.nparams;
    const size_t piece = yk__piece_size(r->config.nparams, false, k, r->config.servers);
    for (size_t array = 0; array < r->arrays; array++) {
        float *to = values_at(r, a->number) + array * n;
        if (r->config.sparse) {
            for (size_t i = 0; i < n; i++) /* this server's keys, in the order in which they were sent */
                if (a->server_of[i] == (uint32_t)k)
                    to[i] = *v++;
        } else {
            memcpy(to + yk__piece_begin(r->config.nparams, k, r->config.servers), v, piece * sizeof *v);
            v += piece;
        }
    }
}

static yk_status take_values(yk_remote *r, int k, const yk__down *down, size_t bytes)
{
    yk__asked *a = &r->slot[down->pull % YK__OUTSTANDING];
    const size_t n = r->config.sparse ? a->count[k]
                     : a->nkeys       ? yk__piece_size(r->config.nparams, false, k, r->config.servers)
                                      : 0;
    if (bytes != sizeof *down + down->n * sizeof(float) || a->number != down->pull || a->missing == 0 ||
        down->n != n * r->arrays)
        return yk_fail(YK_ELOST, "server %d sent an answer that was not asked for", k);
    if (n)
        place(r, k, a, (const float *)(const void *)(down + 1));
    a->missing--;
    r->line[k].answers++;
    if (track_of(r))
        yk_trace_message(track_of(r), "pull", r->line[k].peer, bytes, a->asked_at, yk_now_ns() - a->asked_at);
    if (k == 0) {
        r->kept = down->begin;
        r->news = (yk_remote_news){down->round, down->end, down->examples, down->loss,
                                   (down->flags & YK__STOP) || r->news.stop};
    }
    return YK_OK;
}

static yk_status take(yk_remote *r, int k)
{
    yk__line *l = &r->line[k];
    const yk__down *down = (const yk__down *)(const void *)l->in;
    const size_t bytes = l->in_op.bytes;
    l->heard = yk_now();
    if (bytes >= sizeof *down && k == 0 && down->life > r->life)
        r->life = down->life;
    if (bytes < sizeof *down || down->magic != YK__MAGIC)
        return yk_fail(YK_ELOST, "server %d sent a message of %zu bytes that makes no sense", k, bytes);
    if (down->kind == YK__DOWN_VALUES)
        return take_values(r, k, down, bytes);
    yk_comm_recount(r->config.comm, true, YK_FOR_PULL, YK_FOR_CONTROL, bytes, 1);
    if (down->kind == YK__DOWN_REFUSED)
        return yk_fail(YK_EUSAGE,
                       "the job refused this worker: its program, options, data or model are others");
    r->greeted += down->kind == YK__DOWN_ALIVE;
    if (down->kind == YK__DOWN_DEAL) {
        r->deal_pending = false;
        r->deal_here = true;
        r->deal_later = (down->flags & YK__LATER) != 0;
        r->dealt = (yk_lease){down->examples, down->begin, down->end};
        r->dealt_life = down->life;
    }
    return YK_OK;
}

/* Whatever has arrived. Values of dense models must not overwrite what the worker computes with: there are two buffers, and
 * no more than one answer is asked for ahead. */
static yk_status pump(yk_remote *r, bool *busy)
{
    for (int k = 0; k < r->config.servers; k++) {
        yk__line *l = &r->line[k];
        bool found = false, done = false;
        int peer;
        size_t bytes;
        yk_status st = YK_OK;
        if (!l->receiving) {
            if ((st = yk_comm_probe(r->config.comm, l->peer, YK__TAG_DOWN, &found, &peer, &bytes)) ||
                !found) {
                if (st)
                    return st;
                continue;
            }
            char *grown = yk_grow(l->in, &l->in_cap, bytes + 1, 1, "an answer");
            if (!grown)
                return YK_ESYSTEM;
            l->in = grown;
            l->receiving = true;
            if ((st = yk_comm_recv(r->config.comm, l->peer, YK__TAG_DOWN, YK_FOR_PULL, l->in, bytes,
                                   &l->in_op)))
                return st;
        }
        if ((st = yk_comm_test(r->config.comm, &l->in_op, &done)))
            return st;
        if (!done)
            continue;
        l->receiving = false;
        *busy = true;
        if ((st = take(r, k)))
            return st;
    }
    return YK_OK;
}

yk_status yk_remote_poll(yk_remote *r)
{
    bool busy = false;
    return pump(r, &busy);
}

static yk_status say_alive(yk_remote *r, double now)
{
    r->told = now;
    r->alive = (yk__up){.magic = YK__MAGIC, .kind = YK__UP_ALIVE};
    for (int k = 0; k < r->config.servers; k++) {
        bool done;
        yk_status st = yk_comm_test(r->config.comm, &r->line[k].alive_op, &done);
        if (!st && done)
            st = yk_comm_send(r->config.comm, r->line[k].peer, YK__TAG_UP, YK_FOR_CONTROL, &r->alive,
                              sizeof r->alive, &r->line[k].alive_op);
        if (st)
            return st;
    }
    return YK_OK;
}

yk_status yk_remote_alive(yk_remote *r)
{
    const double now = yk_now();
    return now - r->told > r->config.alive ? say_alive(r, now) : YK_OK;
}

/* One that owes us an answer says now and then that it is alive; the others have no reason to. */
static bool owes(const yk_remote *r, int k, const yk__asked *asked)
{
    return asked ? r->line[k].answers <= asked->number : k == 0;
}

yk_status yk__remote_wait(yk_remote *r, const yk__asked *asked, const char *what)
{
    yk_wait w = yk_wait_begin(YK_WAIT_RANKS, HUGE_VAL); /* each server has its own deadline */
    bool began = false;
    while (asked ? asked->missing > 0 : r->deal_pending) {
        bool busy = false;
        yk_status st = pump(r, &busy);
        if (st)
            return st;
        if (busy) {
            yk_wait_again(&w);
            continue;
        }
        if (!began) {
            began = true;
            for (int k = 0; k < r->config.servers; k++)
                r->line[k].heard = yk_now();
        }
        yk_wait_turn(&w);
        if (!yk_wait_polls(&w))
            continue;
        const double now = yk_now();
        if (r->config.servers > 1 && (st = yk_remote_alive(r))) /* it is another one that we wait for */
            return st;
        for (int k = 0; k < r->config.servers; k++) {
            if (now - r->line[k].heard > 1.0 && yk_comm_dead(r->config.comm, r->line[k].peer))
                return yk_fail(YK_ELOST, "server %d (rank %d) has died", k, r->line[k].peer);
            if (owes(r, k, asked) && now - r->line[k].heard > r->config.silence)
                return yk_fail(
                    YK_ELOST,
                    "server %d (rank %d) was silent for %.1f s while rank %d waited for %s: it has died, "
                    "hangs, or cannot be reached",
                    k, r->line[k].peer, now - r->line[k].heard, yk_comm_rank(r->config.comm), what);
        }
    }
    return YK_OK;
}

/* ---- steps ---- */

/* What is pushed: values [arrays][n] of the keys of an answer, or of all parameters. */
typedef struct {
    uint64_t steps, examples;
    double loss;
    const float *values;
} pushed;

/* Those of server k, into v. */
static void fill(const yk_remote *r, int k, const yk__asked *of, const float *values, float *v)
{
    const size_t n = r->config.sparse ? of->nkeys : r->config.nparams;
    const size_t piece = yk__piece_size(r->config.nparams, false, k, r->config.servers);
    for (size_t array = 0; array < r->arrays; array++) {
        const float *from = values + array * n;
        if (r->config.sparse) {
            for (size_t i = 0; i < n; i++)
                if (of->server_of[i] == (uint32_t)k)
                    *v++ = from[i];
        } else {
            memcpy(v, from + yk__piece_begin(r->config.nparams, k, r->config.servers), piece * sizeof *v);
            v += piece;
        }
    }
}

/* A message to each server: what is pushed, if anything, and the keys of `ask`, if any. */
static yk_status send(yk_remote *r, const pushed *p, yk__asked *ask)
{
    const uint64_t began = track_of(r) ? yk_now_ns() : 0;
    if (ask)
        ask->asked_at = began;
    const uint32_t turn = r->messages++ % YK__OUTSTANDING;
    const int servers = r->config.servers;
    for (int k = 0; k < servers; k++) {
        yk__line *l = &r->line[k];
        const size_t piece = yk__piece_size(r->config.nparams, r->config.sparse, k, servers);
        const size_t npush =
            !p || !p->examples ? 0 : r->arrays * (r->config.sparse ? r->current->count[k] : piece);
        const size_t npull = !ask ? 0 : r->config.sparse ? ask->count[k] : ask->nkeys;
        const size_t keys = r->config.sparse ? npull : 0, bytes = sizeof(yk__up) + 4 * (npush + keys);
        yk_status st =
            yk_comm_wait(r->config.comm, &l->out_op[turn], 1, r->config.silence, "a message to be taken");
        char *grown = st ? NULL : yk_grow(l->out[turn], &l->out_cap[turn], bytes + 16, 1, "a message");
        if (!grown)
            return st ? st : YK_ESYSTEM;
        l->out[turn] = grown;
        yk__up *up = (yk__up *)(void *)grown;
        *up = (yk__up){.magic = YK__MAGIC,
                       .kind = YK__UP_STEP,
                       .flags = (uint16_t)((p ? YK__HAS_PUSH : 0) | (ask ? YK__HAS_PULL : 0)),
                       .pull = ask ? ask->number : 0,
                       .push_of = p && r->current ? r->current->number : 0,
                       .npush = (uint32_t)npush,
                       .npull = (uint32_t)npull,
                       .round = r->news.round,
                       .steps = p ? p->steps : 0,
                       .examples = p ? p->examples : 0,
                       .loss = p ? p->loss : 0.0,
                       .life = r->push_life};
        memcpy(up->place, r->place, sizeof up->place);
        float *v = (float *)(void *)(up + 1);
        if (npush)
            fill(r, k, r->current, p->values, v);
        uint32_t *key = (uint32_t *)(void *)(v + npush);
        for (size_t i = 0, at = 0; keys && i < ask->nkeys; i++)
            if (ask->server_of[i] == (uint32_t)k)
                key[at++] = r->keys.key[i];
        st = yk_comm_send(r->config.comm, l->peer, YK__TAG_UP, p ? YK_FOR_PUSH : YK_FOR_PULL, up, bytes,
                          &l->out_op[turn]);
        if (st)
            return st;
        if (p && began)
            yk_trace_message(track_of(r), "push", l->peer, bytes, began, yk_now_ns() - began);
        if (p)
            yk_comm_recount(r->config.comm, false, YK_FOR_PUSH, YK_FOR_PULL, keys * 4, 0);
    }
    return YK_OK;
}

yk_status yk_remote_ask(yk_remote *r, const yk_batch *batch)
{
    yk__asked *a;
    yk_status st = batch ? yk__asked_add(r, batch) : YK_OK;
    if (!st)
        st = yk__asked_close(r, &a);
    return st ? st : send(r, NULL, a);
}

static yk_status await_values(yk_remote *r, yk_remote_news *news_out)
{
    yk__asked *a = &r->slot[r->next_pull++ % YK__OUTSTANDING];
    const uint64_t began = r->config.in_step && a->missing ? yk_now_ns() : 0;
    yk_status st = yk__remote_wait(r, a, "parameters");
    if (st)
        return st;
    if (began) { /* the part of it that was the others' fault */
        const uint64_t took = yk_now_ns() - began;
        yk_phase_waited(r->config.phases, YK_PHASE_WORKERS, r->kept < took ? r->kept : took);
    }
    r->current = a;
    *news_out = r->news;
    return YK_OK;
}

yk_batch yk_remote_batch(const yk_remote *r, size_t i)
{
    const yk__asked *a = r->current;
    const size_t begin = r->config.sparse && i ? a->end[i - 1] : 0;
    return r->config.sparse ? (yk_batch){&a->rows, a->pick + begin, a->end[i] - begin, 0, 0} : a->dense;
}

yk_status yk_remote_pull(yk_remote *r, yk_view *view_out, yk_batch *batch_out, yk_remote_news *news_out)
{
    yk_status st = await_values(r, news_out);
    if (st)
        return st;
    *view_out = (yk_view){.w = values_at(r, r->current->number)};
    *batch_out = r->current->batches ? yk_remote_batch(r, 0) : (yk_batch){0};
    return YK_OK;
}

/* The gradient of a renamed batch, place by place. */
static yk_status compact(yk_remote *r, const yk_grad *g)
{
    const size_t n = r->current->nkeys;
    float *grown = yk_grow(r->grad, &r->grad_cap, n + 16, sizeof *r->grad, "a gradient");
    if (!grown)
        return YK_ESYSTEM;
    r->grad = grown;
    memset(r->grad, 0, n * sizeof *r->grad);
    r->kern->add_rows(&(yk_view){.w = r->grad}, &g->rows, g->err);
    for (size_t i = 0; r->config.bias_key != UINT32_MAX && i < g->rows.n; i++)
        r->grad[0] += g->err[i];
    return YK_OK;
}

uint64_t yk_remote_life(const yk_remote *r)
{
    return r->life;
}

void yk_remote_place(yk_remote *r, uint64_t life, const uint64_t place[5])
{
    r->push_life = life;
    memcpy(r->place, place, sizeof r->place);
}

/* In step every push is answered. */
static yk_status push(yk_remote *r, const pushed *p)
{
    yk__asked *a = NULL;
    yk_status st = r->open || r->config.in_step ? yk__asked_close(r, &a) : YK_OK;
    return st ? st : send(r, p, a);
}

yk_status yk_remote_push(yk_remote *r, const yk_grad *g, const yk_batch *next)
{
    yk_status st = r->config.sparse && g->examples ? compact(r, g) : YK_OK;
    if (!st && next)
        st = yk__asked_add(r, next);
    const pushed p = {g->examples > 0, g->examples, g->loss, r->config.sparse ? r->grad : g->dense};
    return st ? st : push(r, &p);
}

yk_status yk_remote_round(yk_remote *r, yk_remote_news *news_out)
{
    yk__asked *a = &r->slot[r->next_pull++ % YK__OUTSTANDING];
    yk_status st = yk__remote_wait(r, a, "the end of the round");
    *news_out = r->news;
    return st;
}

/* ---- local steps ---- */

yk_status yk_remote_gather(yk_remote *r, const yk_batch *batch)
{
    return yk__asked_add(r, batch);
}

void yk_remote_drop(yk_remote *r)
{
    r->open = NULL;
}

yk_status yk_remote_ask_gathered(yk_remote *r)
{
    return yk_remote_ask(r, NULL);
}

yk_status yk_remote_pull_values(yk_remote *r, float **values_out, size_t *n_out, size_t *batches_out,
                                yk_remote_news *news_out)
{
    yk_status st = await_values(r, news_out);
    if (st)
        return st;
    *values_out = values_at(r, r->current->number);
    *n_out = r->config.sparse ? r->current->nkeys : r->config.nparams;
    *batches_out = r->current->batches;
    return YK_OK;
}

yk_status yk_remote_push_changes(yk_remote *r, uint64_t steps, uint64_t examples, double loss)
{
    const float *values = r->current ? values_at(r, r->current->number) : NULL;
    const pushed p = {steps, examples, loss, values};
    return push(r, &p);
}
