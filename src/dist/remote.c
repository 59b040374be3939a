#include "dist/remote.h"

#include "base/clock.h"
#include "base/mem.h"
#include "dist/messages.h"
#include "kern/linear.h"
#include "watch/trace.h"
#include <stdlib.h>
#include <string.h>
#include <time.h>

/* A batch that was asked for. */
typedef struct {
    bool answered_all;
    int missing; /* servers that have not answered yet */
    uint32_t number;
    uint64_t asked_at; /* ns; for the timeline */
    yk_rows rows;      /* sparse: the batch with places instead of keys; arrays of ours */
    uint32_t *pick;    /* 0, 1, 2, ... */
    size_t row_cap, label_cap, entry_cap, value_cap, pick_cap;
    yk_batch dense;      /* as it came */
    size_t nkeys;        /* different keys */
    uint32_t *server_of; /* [nkeys] */
    size_t server_cap;
    size_t *count; /* [servers] keys of each */
    float *w;      /* [nkeys] or [nparams] */
    size_t w_cap;
} asked;

/* What one server sends. */
typedef struct {
    int peer;
    char *in;
    size_t in_cap;
    yk_op in_op;
    bool receiving;
    double heard;
    char *out[YK__OUTSTANDING];
    size_t out_cap[YK__OUTSTANDING];
    yk_op out_op[YK__OUTSTANDING], alive_op;
} line;

struct yk_remote {
    yk_remote_config config;
    const yk_linear_ops *kern;
    line *line;
    asked slot[YK__OUTSTANDING];
    uint32_t next_ask, next_pull, messages;
    asked *current; /* that the worker computes with */
    yk_merger keys;
    float *grad; /* sparse: [nkeys] */
    size_t grad_cap;
    size_t *cursor; /* [servers] */
    yk_remote_news news;
    uint64_t place[YK__PLACE];
    uint64_t kept; /* ns that our last gradient waited at server 0 for those of others */
    yk__up ask_deal;
    yk_op deal_op;
    uint64_t life, dealt_life, push_life; /* ours; of the run that is here; of the next push */
    yk__up alive;
    double told;
    int greeted;
    bool deal_pending, deal_here, deal_later;
    yk_run dealt;
};

yk_status yk_remote_create(const yk_remote_config *config, yk_remote **out)
{
    yk_remote *r = yk_alloc(1, sizeof *r, "the way to the servers");
    const size_t k = (size_t)config->servers;
    if (!r)
        return YK_ESYSTEM;
    r->config = *config;
    r->kern = yk_linear();
    r->line = yk_alloc(k, sizeof *r->line, "the way to the servers");
    r->cursor = yk_alloc(k, sizeof *r->cursor, "the way to the servers");
    bool ok = r->line && r->cursor && !yk_merger_init(&r->keys, 1024);
    for (size_t i = 0; ok && i < k; i++)
        r->line[i].peer = config->peer ? config->peer[i] : (int)i;
    for (int i = 0; ok && i < YK__OUTSTANDING; i++) {
        ok = (r->slot[i].count = yk_alloc(k, sizeof(size_t), "the way to the servers")) != NULL;
        if (ok && !config->sparse)
            ok = (r->slot[i].w = yk_alloc(i < 2 ? config->nparams : 0, sizeof(float), "the parameters")) !=
                 NULL;
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
        asked *a = &r->slot[i];
        free(a->rows.start);
        free(a->rows.index);
        free(a->rows.value);
        free(a->rows.label);
        free(a->pick);
        free(a->server_of);
        yk_free(a->count);
        if (r->config.sparse)
            free(a->w);
        else
            yk_free(a->w);
        for (int k = 0; r->line && k < r->config.servers; k++)
            free(r->line[k].out[i]);
    }
    for (int k = 0; r->line && k < r->config.servers; k++)
        free(r->line[k].in);
    yk_merger_fini(&r->keys);
    free(r->grad);
    yk_free(r->line);
    yk_free(r->cursor);
    yk_free(r);
}

/* ---- what servers say ---- */

/* The timeline of this worker; NULL: there is none. */
static yk_trace_track *track_of(const yk_remote *r)
{
    return r->config.phases ? r->config.phases->track : NULL;
}

/* Dense parameters have two buffers, for the batch at hand and the next. */
static float *values_at(yk_remote *r, uint32_t number)
{
    return r->slot[r->config.sparse ? number % YK__OUTSTANDING : number % 2].w;
}

static yk_status take_values(yk_remote *r, int k, const yk__down *down, size_t bytes)
{
    asked *a = &r->slot[down->pull % YK__OUTSTANDING];
    const float *v = (const float *)(const void *)(down + 1);
    const size_t expected = r->config.sparse ? a->count[k]
                            : a->nkeys       ? yk__piece_size(r->config.nparams, false, k, r->config.servers)
                                             : 0;
    if (bytes != sizeof *down + down->n * sizeof *v || a->number != down->pull || a->missing == 0 ||
        down->n != expected)
        return yk_fail(YK_ELOST, "server %d sent an answer that was not asked for", k);
    if (r->config.sparse) {
        size_t at = 0;
        for (size_t i = 0; i < a->nkeys;
             i++) /* places of this server's keys, in the order in which they were sent */
            if (a->server_of[i] == (uint32_t)k)
                a->w[i] = v[at++];
    } else {
        memcpy(values_at(r, down->pull) + yk__piece_begin(r->config.nparams, k, r->config.servers), v,
               down->n * sizeof *v);
    }
    a->missing--;
    if (track_of(r))
        yk_trace_message(track_of(r), "pull", r->line[k].peer, bytes, a->asked_at, yk_now_ns() - a->asked_at);
    if (k == 0)
        r->kept = down->begin;
    if (k == 0)
        r->news = (yk_remote_news){down->round, down->examples, down->loss,
                                   (down->flags & YK__STOP) || r->news.stop};
    return YK_OK;
}

static yk_status take(yk_remote *r, int k)
{
    line *l = &r->line[k];
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
        r->dealt = (yk_run){down->examples, down->begin, down->end};
        r->dealt_life = down->life;
    }
    return YK_OK;
}

/* Whatever has arrived. Values of dense models must not overwrite what the worker computes with: there are two buffers, and
 * no more than one answer is asked for ahead. */
static yk_status pump(yk_remote *r, bool *busy)
{
    for (int k = 0; k < r->config.servers; k++) {
        line *l = &r->line[k];
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

/* To the servers that do answer: it is another one that we wait for. */
static yk_status say_alive(yk_remote *r, double now)
{
    r->told = now;
    r->alive = (yk__up){.magic = YK__MAGIC, .kind = YK__UP_ALIVE};
    for (int k = 0; r->config.servers > 1 && k < r->config.servers; k++) {
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

/* Until nothing is missing or pending any more. */
static yk_status wait_until(yk_remote *r, const int *missing, const bool *pending, const char *what)
{
    unsigned idle = 0;
    uint64_t began = 0;
    while ((missing && *missing > 0) || (pending && *pending)) {
        bool busy = false;
        yk_status st = pump(r, &busy);
        if (st)
            return st;
        if (busy) {
            idle = 0;
            continue;
        }
        if (!began) {
            began = yk_now_ns();
            for (int k = 0; k < r->config.servers; k++)
                r->line[k].heard = (double)began * 1e-9;
        }
        yk_comm_pause(&idle);
        if (idle % 256)
            continue;
        const double now = yk_now();
        yk_status told = now - r->told > 1.0 ? say_alive(r, now) : YK_OK;
        if (told)
            return told;
        for (int k = 0; k < r->config.servers; k++) {
            if (now - r->line[k].heard > 1.0 && yk_comm_dead(r->config.comm, r->line[k].peer))
                return yk_fail(YK_ELOST, "server %d (rank %d) has died", k, r->line[k].peer);
            /* the one that is silent, not one that only waits for it: those who are alive say so */
            if (now - r->line[k].heard > r->config.silence)
                return yk_fail(
                    YK_ELOST,
                    "server %d (rank %d) was silent for %.1f s while rank %d waited for %s: it has died, "
                    "hangs, or cannot be reached",
                    k, r->line[k].peer, now - r->line[k].heard, yk_comm_rank(r->config.comm), what);
        }
    }
    return YK_OK;
}

/* ---- asking ---- */

static yk_status reserve_batch(asked *a, const yk_batch *b, size_t entries)
{
    yk_rows *w = &a->rows;
    void *start = yk_grow(w->start, &a->row_cap, b->n + 1, sizeof *w->start, "a batch");
    w->start = start ? start : w->start;
    void *index = yk_grow(w->index, &a->entry_cap, entries + 16, sizeof *w->index, "a batch");
    w->index = index ? index : w->index;
    void *label = yk_grow(w->label, &a->label_cap, b->n + 1, sizeof *w->label, "a batch");
    w->label = label ? label : w->label;
    void *pick = yk_grow(a->pick, &a->pick_cap, b->n + 1, sizeof *a->pick, "a batch");
    a->pick = pick ? pick : a->pick;
    void *value = b->rows->value ? yk_grow(w->value, &a->value_cap, entries + 16, sizeof *w->value, "a batch")
                                 : w->value;
    w->value = value ? value : w->value;
    void *server = yk_grow(a->server_of, &a->server_cap, entries + 1, sizeof *a->server_of, "a batch");
    a->server_of = server ? server : a->server_of;
    void *values = yk_grow(a->w, &a->w_cap, entries + 17, sizeof *a->w, "a batch");
    a->w = values ? values : a->w;
    return start && index && label && pick && (value || !b->rows->value) && server && values ? YK_OK
                                                                                             : YK_ESYSTEM;
}

/* A sparse batch with places instead of keys. */
static yk_status rename_batch(yk_remote *r, asked *a, const yk_batch *b)
{
    const bool bias = r->config.bias_key != UINT32_MAX;
    size_t entries = bias, e = 0;
    for (size_t i = 0; i < b->n; i++)
        entries += yk_rows_entries(b->rows, b->pick[i]);
    yk_status st = reserve_batch(a, b, entries);
    if (st || (st = yk_merger_reserve(&r->keys, entries + 1)))
        return st;
    if (bias)
        yk_merger_place(&r->keys, r->config.bias_key);
    yk_rows *w = &a->rows;
    for (size_t i = 0; i < b->n; i++) {
        const size_t row = b->pick[i];
        w->start[i] = e;
        w->label[i] = b->rows->label[row];
        a->pick[i] = (uint32_t)i;
        for (uint64_t at = b->rows->start[row]; at < b->rows->start[row + 1]; at++, e++) {
            w->index[e] = yk_merger_place(&r->keys, b->rows->index[at]);
            if (b->rows->value)
                w->value[e] = b->rows->value[at];
        }
    }
    w->start[b->n] = e;
    w->kind = YK_ROWS_SPARSE;
    w->n = b->n;
    w->dim = r->keys.n;
    if (!b->rows->value) {
        free(w->value);
        w->value = NULL;
        a->value_cap = 0;
    }
    a->nkeys = r->keys.n;
    for (size_t i = 0; i < a->nkeys; i++) {
        uint32_t row;
        a->server_of[i] = yk__server_of(r->keys.key[i], (uint32_t)r->config.servers, &row);
        r->keys.key[i] = row;
        a->count[a->server_of[i]]++;
    }
    return YK_OK;
}

/* A message to each server: the gradient of `push`, if any, and the keys of `ask`, if any. */
static yk_status send(yk_remote *r, asked *push, const yk_grad *g, const float *values, asked *ask)
{
    const uint64_t began = track_of(r) ? yk_now_ns() : 0;
    if (ask)
        ask->asked_at = began;
    const uint32_t turn = r->messages++ % YK__OUTSTANDING;
    const int servers = r->config.servers;
    for (int k = 0; k < servers; k++) {
        line *l = &r->line[k];
        const size_t piece = yk__piece_size(r->config.nparams, r->config.sparse, k, servers);
        const size_t npush = !g || !g->examples ? 0 : r->config.sparse ? push->count[k] : piece;
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
                       .flags = (uint16_t)((g ? YK__HAS_PUSH : 0) | (ask ? YK__HAS_PULL : 0)),
                       .pull = ask ? ask->number : 0,
                       .push_of = push ? push->number : 0,
                       .npush = (uint32_t)npush,
                       .npull = (uint32_t)npull,
                       .round = r->news.round,
                       .examples = g ? g->examples : 0,
                       .loss = g ? g->loss : 0.0};
        up->life = r->push_life;
        memcpy(up->place, r->place, sizeof up->place);
        float *v = (float *)(void *)(up + 1);
        if (npush && r->config.sparse) {
            for (size_t i = 0, at = 0; i < push->nkeys; i++)
                if (push->server_of[i] == (uint32_t)k)
                    v[at++] = values[i];
        } else if (npush) {
            memcpy(v, g->dense + yk__piece_begin(r->config.nparams, k, servers), npush * sizeof *v);
        }
        uint32_t *key = (uint32_t *)(void *)(v + npush);
        for (size_t i = 0, at = 0; keys && i < ask->nkeys; i++)
            if (ask->server_of[i] == (uint32_t)k)
                key[at++] = r->keys.key[i];
        st = yk_comm_send(r->config.comm, l->peer, YK__TAG_UP, g ? YK_FOR_PUSH : YK_FOR_PULL, up, bytes,
                          &l->out_op[turn]);
        if (st)
            return st;
        if (g && began)
            yk_trace_message(track_of(r), "push", l->peer, bytes, began, yk_now_ns() - began);
        if (g)
            yk_comm_recount(r->config.comm, false, YK_FOR_PUSH, YK_FOR_PULL, keys * 4, 0);
    }
    return YK_OK;
}

/* A new place for what is asked; `b` NULL: only for the end of the round. */
static yk_status prepare(yk_remote *r, const yk_batch *b, asked **out)
{
    const uint32_t number = r->next_ask++;
    asked *a = &r->slot[number % YK__OUTSTANDING];
    *out = a;
    a->number = number;
    a->missing = r->config.servers;
    a->nkeys = 0;
    memset(a->count, 0, (size_t)r->config.servers * sizeof *a->count);
    if (!b)
        return YK_OK;
    if (r->config.sparse)
        return rename_batch(r, a, b);
    a->dense = *b;
    a->nkeys = 1; /* all of them */
    return YK_OK;
}

yk_status yk_remote_ask(yk_remote *r, const yk_batch *batch)
{
    asked *a;
    yk_status st = prepare(r, batch, &a);
    return st ? st : send(r, NULL, NULL, NULL, a);
}

yk_status yk_remote_pull(yk_remote *r, yk_view *view_out, yk_batch *batch_out, yk_remote_news *news_out)
{
    asked *a = &r->slot[r->next_pull++ % YK__OUTSTANDING];
    const uint64_t began = r->config.in_step && a->missing ? yk_now_ns() : 0;
    yk_status st = wait_until(r, &a->missing, NULL, "parameters");
    if (st)
        return st;
    if (began) { /* the part of it that was the others' fault */
        const uint64_t took = yk_now_ns() - began;
        yk_phase_waited(r->config.phases, YK_PHASE_WORKERS, r->kept < took ? r->kept : took);
    }
    r->current = a;
    *view_out = (yk_view){.w = values_at(r, a->number)};
    *batch_out = r->config.sparse ? (yk_batch){&a->rows, a->pick, a->rows.n, 0, 0} : a->dense;
    *news_out = r->news;
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

yk_status yk_remote_push(yk_remote *r, const yk_grad *g, const yk_batch *next)
{
    asked *a = NULL;
    yk_status st = r->config.sparse && g->examples ? compact(r, g) : YK_OK;
    if (!st && (next || r->config.in_step))
        st = prepare(r, next, &a);
    return st ? st : send(r, r->current, g, r->grad, a);
}

yk_status yk_remote_round(yk_remote *r, yk_remote_news *news_out)
{
    asked *a = &r->slot[r->next_pull++ % YK__OUTSTANDING];
    yk_status st = wait_until(r, &a->missing, NULL, "the end of the round");
    *news_out = r->news;
    return st;
}

/* ---- joining ---- */

yk_status yk_remote_hello(yk_remote *r, uint64_t identity)
{
    const yk__up up = {.magic = YK__MAGIC, .kind = YK__UP_HELLO, .hello = identity};
    yk_status st = YK_OK;
    for (int k = 0; !st && k < r->config.servers; k++) {
        yk_op op;
        const double until = yk_now() + r->config.silence;
        if ((st = yk_comm_send(r->config.comm, r->line[k].peer, YK__TAG_UP, YK_FOR_CONTROL, &up, sizeof up,
                               &op)) ||
            (st = yk_comm_wait(r->config.comm, &op, 1, r->config.silence, "a greeting to be taken")))
            break;
        for (r->greeted = 0; !st && !r->greeted;) {
            st = yk_remote_poll(r);
            nanosleep(&(struct timespec){.tv_nsec = 1000000}, NULL);
            if (!st && yk_now() > until)
                st = yk_fail(YK_ELOST, "server %d did not answer within %.0f s", k, r->config.silence);
        }
    }
    return st;
}

/* ---- examples ---- */

static yk_status ask_deal(yk_remote *r, bool idle)
{
    yk_status st = yk_comm_wait(r->config.comm, &r->deal_op, 1, r->config.silence, "a message to be taken");
    if (st)
        return st;
    r->deal_pending = true;
    r->deal_here = false;
    r->ask_deal = (yk__up){.magic = YK__MAGIC, .kind = YK__UP_DEAL, .flags = idle ? YK__IDLE : 0};
    return yk_comm_send(r->config.comm, r->line[0].peer, YK__TAG_UP, YK_FOR_CONTROL, &r->ask_deal,
                        sizeof r->ask_deal, &r->deal_op);
}

yk_status yk_remote_deal(yk_remote *r, bool wait, yk_run *out)
{
    yk_status st = YK_OK;
    *out = (yk_run){0};
    for (;;) {
        if (!r->deal_pending && !r->deal_here)
            st = ask_deal(r, wait);
        if (!st)
            st = wait_until(r, NULL, &r->deal_pending, "examples");
        if (st)
            return st;
        if (r->dealt.begin < r->dealt.end && r->dealt_life < r->life) { /* it was taken back meanwhile */
            r->deal_here = false;
            continue;
        }
        if (r->dealt.begin < r->dealt.end) {
            *out = r->dealt;
            return ask_deal(r, false); /* one ahead */
        }
        if (!r->deal_later || !wait)
            break;
        r->deal_here = false;
        nanosleep(&(struct timespec){.tv_nsec = 20000000}, NULL);
    }
    r->deal_here = !r->deal_later; /* the end stays the end */
    return YK_OK;
}

yk_status yk_remote_bye(yk_remote *r)
{
    yk_status st = YK_OK;
    yk__up up = {.magic = YK__MAGIC, .kind = YK__UP_BYE};
    for (int k = 0; !st && k < r->config.servers; k++) {
        yk_op op;
        st = yk_comm_send(r->config.comm, r->line[k].peer, YK__TAG_UP, YK_FOR_CONTROL, &up, sizeof up, &op);
        if (!st)
            st = yk_comm_wait(r->config.comm, &op, 1, r->config.silence, "a goodbye to be taken");
        for (int i = 0; !st && i < YK__OUTSTANDING; i++)
            st = yk_comm_wait(r->config.comm, &r->line[k].out_op[i], 1, r->config.silence,
                              "a message to be taken");
    }
    return st;
}
