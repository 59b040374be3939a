/* Frames, how messages are matched with receives, and the functions of the transport (native.h). */
#include "comm/native_internal.h"

#include "base/clock.h"
#include "base/crc.h"
#include "base/wait.h"
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/socket.h>
#include <sys/uio.h>
#include <unistd.h>

enum {
    EAGER_MAX = 1 << 16,   /* longer messages wait until the receiver asks for them */
    CREDIT_MAX = 1 << 20,  /* bytes of messages that a receiver stores for each sender */
    MESSAGE_OVERHEAD = 64, /* counted for each of them */
    INPUT_BUFFER = 1 << 15,
    CRC = 4,
    PIECE = 1 << 17,     /* bytes that are sent or received at once: the CRC reads them from the L2 cache */
    PUMP_MAX = 1 << 22,  /* bytes read from one peer before others get a turn */
    MAX_STORED = 1 << 16 /* messages of a peer without a receive */
};

static const double end_timeout = 5.0; /* seconds for what was sent to leave this process */

static const double events_every =
    2e-3; /* seconds: a job of many processes asks for each peer whether it is lost */

static bool is_lost(const yk__native *t, const yk__native_peer *p)
{
    const int index = (int)(p - t->peer);
    return p->broken || (p->exited && (!p->shares_memory || yk_ring_is_empty(&t->segment, index)));
}

static size_t overhead(const yk__native_peer *p)
{
    return p->shares_memory ? 0 : CRC;
}

/* ---- streams: a ring or a socket ---- */

static size_t socket_write(yk__native_peer *p, const struct iovec *part, int n)
{
    const struct msghdr m = {.msg_iov = (struct iovec *)part, .msg_iovlen = (size_t)n};
    const ssize_t sent = sendmsg(p->fd, &m, MSG_NOSIGNAL | MSG_DONTWAIT);
    if (sent < 0 && errno != EAGAIN && errno != EINTR && errno != ENOBUFS)
        p->broken = true;
    return sent > 0 ? (size_t)sent : 0;
}

static size_t ring_write(const yk__native *t, yk__native_peer *p, const struct iovec *part, int n)
{
    size_t sent = 0;
    for (int i = 0; p->out.at && i < n; i++) {
        const size_t k = yk_ring_write(&p->out, t->job.rank, part[i].iov_base, part[i].iov_len);
        sent += k;
        if (k < part[i].iov_len)
            break;
    }
    if (sent)
        yk_ring_notify(&p->out, t->job.rank);
    return sent;
}

/* Reads from a socket: small pieces through the buffer, so that a frame needs one system call, long ones directly. */
static size_t socket_read(yk__native_peer *p, char *out, size_t n)
{
    const bool direct = p->taken == p->buffered && n >= INPUT_BUFFER;
    if (p->taken == p->buffered) {
        if (!p->buffer && !(p->buffer = malloc(INPUT_BUFFER)))
            return 0;
        const ssize_t got = recv(p->fd, direct ? out : p->buffer, direct ? n : INPUT_BUFFER, MSG_DONTWAIT);
        if (got == 0 || (got < 0 && errno != EAGAIN && errno != EINTR))
            p->broken = true;
        if (got <= 0 || direct)
            return got > 0 ? (size_t)got : 0;
        p->taken = 0;
        p->buffered = (size_t)got;
    }
    n = n < p->buffered - p->taken ? n : p->buffered - p->taken;
    memcpy(out, p->buffer + p->taken, n);
    p->taken += n;
    return n;
}

static size_t stream_read(const yk__native *t, yk__native_peer *p, void *out, size_t n)
{
    return p->shares_memory ? yk_ring_read(&t->segment, (int)(p - t->peer), out, n) : socket_read(p, out, n);
}

/* ---- output ---- */

/* May be called again, if nothing could be sent. */
static void begin_output(yk__native_peer *p, yk__message *o)
{
    o->header.credit += (uint32_t)p->to_credit;
    p->owed -= p->to_credit;
    p->to_credit = 0;
    o->header.crc = 0;
    if (!p->shares_memory)
        o->header.crc = yk_crc32c(&o->header, sizeof o->header);
    o->crc = ~0u;
    o->left[0] = (struct iovec){&o->header, sizeof o->header};
    if (!o->is_frame) {
        o->left[1] = (struct iovec){o->buf, o->bytes};
        o->left[2] = (struct iovec){&o->crc, overhead(p)};
    }
}

/* Sends header and bytes, or the CRC, to which bytes are added when they were sent, while they are in the cache. */
static size_t send_some(const yk__native *t, yk__native_peer *p, yk__message *o)
{
    const int first = o->left[0].iov_len || o->left[1].iov_len ? 0 : 2;
    struct iovec now[2] = {o->left[first], o->left[1]};
    const int n = now[1].iov_len ? 2 : 1;
    now[1].iov_len = now[1].iov_len < PIECE ? now[1].iov_len : PIECE;
    const size_t sent = p->shares_memory ? ring_write(t, p, now, n) : socket_write(p, now, n);
    for (size_t i = (size_t)first, k, rest = sent; rest; i++, rest -= k) {
        struct iovec *left = &o->left[i];
        k = rest < left->iov_len ? rest : left->iov_len;
        if (i == 1 && !p->shares_memory)
            o->crc = yk_crc32c_add(o->crc, left->iov_base, k);
        *left = (struct iovec){(char *)left->iov_base + k, left->iov_len - k};
    }
    return sent;
}

/* Sends as much as possible. */
static void pump_out(yk__native *t, yk__native_peer *p)
{
    yk__message *o;
    while (!p->broken && (o = TAILQ_FIRST(&p->outputs))) {
        if (!o->begun)
            begin_output(p, o);
        const size_t sent = send_some(t, p, o);
        o->begun |= sent > 0;
        if (!o->left[0].iov_len && !o->left[1].iov_len && !o->left[2].iov_len) {
            TAILQ_REMOVE(&p->outputs, o, entry);
            o->done = true;
            if (o->is_frame)
                free(o);
        } else if (!sent) {
            break;
        }
    }
    const bool blocked = !TAILQ_EMPTY(&p->outputs) && !p->broken;
    if (blocked && !p->blocked)
        TAILQ_INSERT_TAIL(&t->blocked, p, entry_of_blocked);
    else if (!blocked && p->blocked)
        TAILQ_REMOVE(&t->blocked, p, entry_of_blocked);
    p->blocked = blocked;
}

static void pump_blocked(yk__native *t)
{
    for (yk__native_peer *p = TAILQ_FIRST(&t->blocked), *next; p; p = next) {
        next = TAILQ_NEXT(p, entry_of_blocked);
        pump_out(t, p);
    }
}

/* Queues a frame, and the message whose bytes follow; NULL: none. False: no memory. */
static bool queue(yk__native *t, yk__native_peer *p, yk__frame header, yk__message *m)
{
    yk__message *o = m ? m : calloc(1, sizeof *o);
    if (!o)
        return false;
    o->header = header;
    o->is_frame = !m;
    TAILQ_INSERT_TAIL(&p->outputs, o, entry);
    pump_out(t, p);
    return true;
}

/* ---- matching ---- */

/* A stored message is no longer stored: its sender may send more. */
static void give_credit(yk__native *t, yk__native_peer *p, size_t bytes)
{
    p->to_credit += bytes + MESSAGE_OVERHEAD;
    if (p->to_credit > CREDIT_MAX / 2)
        queue(t, p, (yk__frame){.kind = YK__FRAME_CREDIT}, NULL);
}

static void complete_receive(yk__message *r, size_t bytes)
{
    if (bytes > r->bytes)
        r->error = YK__CODE_TOO_LONG;
    r->bytes = bytes;
    r->done = true;
}

/* Reads a message from the memory of its sender, if the kernel allows it: one copy instead of two. */
static bool fetch(yk__native *t, yk__native_peer *p, yk__message *r, uint64_t address, size_t bytes)
{
    for (size_t got = 0; p->shares_memory && !t->no_fetch && got < bytes;) {
        const struct iovec to = {r->buf + got, bytes - got},
                           from = {(void *)(uintptr_t)(address + got), bytes - got};
        const ssize_t n = process_vm_readv(p->pid, &to, 1, &from, 1, 0);
        if (n <= 0) {
            t->no_fetch = n < 0 && (errno == EPERM || errno == ENOSYS);
            return false;
        }
        if ((got += (size_t)n) == bytes)
            return true;
    }
    return false;
}

/* Gets a message that its sender has announced. */
static int get_announced(yk__native *t, yk__native_peer *p, yk__message *r, uint64_t id, uint64_t address,
                         size_t bytes)
{
    if (bytes > r->bytes) {
        complete_receive(r, bytes);
        return 0;
    }
    const bool fetched = fetch(t, p, r, address, bytes);
    const yk__frame h = {.kind = fetched ? YK__FRAME_FETCHED : YK__FRAME_GRANT, .id = id};
    r->id = id;
    if (fetched)
        complete_receive(r, bytes);
    else
        TAILQ_INSERT_TAIL(&p->granted, r, entry);
    return queue(t, p, h, NULL) ? 0 : YK__CODE_MEMORY;
}

static void free_stored(yk__message *s)
{
    free(s->buf);
    free(s);
}

static void deliver(yk__native *t, yk__native_peer *p, yk__message *s, yk__message *r)
{
    if (s->bytes <= r->bytes && s->bytes)
        memcpy(r->buf, s->buf, s->bytes);
    complete_receive(r, s->bytes);
    if (s->peer != t->job.rank)
        give_credit(t, p, s->bytes);
    free_stored(s);
}

/* The first one; peer < 0: of any rank. */
static yk__message *find(const yk__native *t, int peer, int tag)
{
    yk__message *s;
    TAILQ_FOREACH(s, &t->stored, entry)
    if (s->tag == tag && (peer < 0 || s->peer == peer))
        break;
    return s;
}

static int receive(yk__native *t, yk__message *r)
{
    yk__native_peer *p = &t->peer[r->peer];
    yk__message *s = find(t, r->peer, r->tag);
    if (!s) {
        TAILQ_INSERT_TAIL(&p->posted, r, entry);
        return 0;
    }
    p->nstored--;
    TAILQ_REMOVE(&t->stored, s, entry);
    if (!s->buf) {
        const int code = get_announced(t, p, r, s->id, s->address, s->bytes);
        free_stored(s);
        return code;
    }
    if (s->done)
        deliver(t, p, s, r);
    else
        s->wanted = r;
    return 0;
}

/* Removes the first one with this tag, or (by_id) id. NULL: none. */
static yk__message *take(struct yk__messages *list, bool by_id, uint64_t which)
{
    yk__message *r;
    TAILQ_FOREACH(r, list, entry)
    if (by_id ? r->id == which : (uint64_t)r->tag == which) {
        TAILQ_REMOVE(list, r, entry);
        return r;
    }
    return NULL;
}

static yk__message *take_posted(yk__native_peer *p, int tag)
{
    return take(&p->posted, false, (uint64_t)tag);
}

/* NULL: no memory, or too many of them. */
static yk__message *store(yk__native *t, yk__native_peer *p, bool with_data)
{
    const yk__frame *h = &p->header;
    yk__message *s = p->nstored < MAX_STORED ? malloc(sizeof *s) : NULL;
    char *buf = s && with_data ? malloc(h->bytes + 1) : NULL;
    if (!s || (with_data && !buf)) {
        free(s);
        return NULL;
    }
    *s = (yk__message){.peer = (int)(p - t->peer),
                       .tag = h->tag,
                       .buf = buf,
                       .bytes = h->bytes,
                       .id = h->id,
                       .address = h->address,
                       .stored = true};
    p->nstored++;
    TAILQ_INSERT_TAIL(&t->stored, s, entry);
    return s;
}

/* A process has no connection to itself: the message is copied. */
static int send_to_self(yk__native *t, yk__native_peer *p, yk__message *r)
{
    p->header = (yk__frame){.tag = r->tag, .bytes = r->bytes};
    yk__message *to = take_posted(p, r->tag);
    if (!to && !(to = store(t, p, true)))
        return YK__CODE_MEMORY;
    if (r->bytes && r->bytes <= to->bytes)
        memcpy(to->buf, r->buf, r->bytes);
    complete_receive(to, r->bytes);
    r->done = true;
    return 0;
}

static int send_message(yk__native *t, yk__message *r)
{
    yk__native_peer *p = &t->peer[r->peer];
    if (r->peer == t->job.rank)
        return send_to_self(t, p, r);
    const size_t cost = r->bytes + MESSAGE_OVERHEAD;
    const bool eager = r->bytes <= EAGER_MAX && p->credit_used + cost <= CREDIT_MAX;
    yk__frame h = {.kind = eager ? YK__FRAME_EAGER : YK__FRAME_ANNOUNCE,
                   .tag = r->tag,
                   .bytes = r->bytes,
                   .id = r->id = p->next_id++,
                   .address = eager ? 0 : (uintptr_t)r->buf};
    if (eager)
        p->credit_used += cost;
    else
        TAILQ_INSERT_TAIL(&p->announced, r, entry);
    return queue(t, p, h, eager ? r : NULL) ? 0 : YK__CODE_MEMORY;
}

/* ---- input: what the header of a frame means. False: the stream is corrupt, or there is no memory. ---- */

static bool on_eager(yk__native *t, yk__native_peer *p)
{
    p->owed += p->header.bytes + MESSAGE_OVERHEAD;
    if (p->header.bytes > EAGER_MAX || p->owed > CREDIT_MAX)
        return false;
    if (!(p->message = take_posted(p, p->header.tag)))
        p->message = store(t, p, true);
    if (p->message && p->header.bytes <= p->message->bytes)
        p->to = p->message->buf;
    return p->message;
}

static bool on_announce(yk__native *t, yk__native_peer *p)
{
    yk__message *r = take_posted(p, p->header.tag);
    if (p->header.bytes > INT32_MAX)
        return false;
    return r ? get_announced(t, p, r, p->header.id, p->header.address, p->header.bytes) == 0
             : store(t, p, false) != NULL;
}

/* GRANT and FETCHED. */
static bool on_grant(yk__native *t, yk__native_peer *p)
{
    yk__message *r = take(&p->announced, true, p->header.id);
    const yk__frame h = {.kind = YK__FRAME_DATA, .id = p->header.id, .bytes = r ? r->bytes : 0};
    if (r && p->header.kind == YK__FRAME_FETCHED)
        return r->done = true;
    return r && queue(t, p, h, r);
}

static bool on_data(yk__native *t, yk__native_peer *p)
{
    (void)t;
    p->message = take(&p->granted, true, p->header.id);
    if (!p->message || p->header.bytes > p->message->bytes)
        return false;
    p->to = p->message->buf;
    return true;
}

static bool on_abort(yk__native *t, yk__native_peer *p)
{
    if (t->aborted_by < 0) {
        t->aborted_by = (int)(p - t->peer);
        t->aborted_status = p->header.tag;
    }
    return true;
}

/* By kind of frame. begin NULL: the header is all; payload: bytes follow. */
static const struct {
    bool (*begin)(yk__native *t, yk__native_peer *p);
    bool payload;
} frame[] = {
    [YK__FRAME_EAGER] = {on_eager, true},    [YK__FRAME_ANNOUNCE] = {on_announce, false},
    [YK__FRAME_GRANT] = {on_grant, false},   [YK__FRAME_DATA] = {on_data, true},
    [YK__FRAME_FETCHED] = {on_grant, false}, [YK__FRAME_CREDIT] = {NULL, false},
    [YK__FRAME_ABORT] = {on_abort, false},
};

static bool begin_frame(yk__native *t, yk__native_peer *p)
{
    yk__frame *h = &p->header;
    const uint32_t crc = h->crc;
    h->crc = 0;
    if (!p->shares_memory && crc != yk_crc32c(h, sizeof *h))
        return false;
    if (h->kind < YK__FRAME_EAGER || h->kind > YK__FRAME_ABORT || h->credit > p->credit_used)
        return false;
    p->credit_used -= h->credit;
    p->message = NULL;
    p->to = NULL;
    p->crc = ~0u;
    return !frame[h->kind].begin || frame[h->kind].begin(t, p);
}

/* All bytes of a message have arrived. */
static bool end_payload(yk__native *t, yk__native_peer *p)
{
    if (!p->shares_memory && p->to && p->crc != p->expected_crc)
        return false;
    yk__message *m = p->message;
    p->message = NULL;
    complete_receive(m, p->header.bytes);
    if (m->wanted)
        deliver(t, p, m, m->wanted);
    else if (!m->stored && p->header.kind == YK__FRAME_EAGER)
        give_credit(t, p, p->header.bytes);
    return true;
}

/* Reads the bytes of a message; those of one that is too long for its receiver go nowhere. */
static size_t read_payload(yk__native *t, yk__native_peer *p, size_t at, size_t n)
{
    char nowhere[4096];
    if (p->to) {
        const size_t got = stream_read(t, p, p->to + at, n - at < PIECE ? n - at : PIECE);
        if (!p->shares_memory)
            p->crc = yk_crc32c_add(p->crc, p->to + at, got);
        return got;
    }
    return stream_read(t, p, nowhere, n - at < sizeof nowhere ? n - at : sizeof nowhere);
}

/* Reads the next part of the frame: header, bytes, CRC. 0: there is nothing to read. */
static size_t read_part(yk__native *t, yk__native_peer *p, bool *ok)
{
    const size_t begin = sizeof p->header;
    size_t n;
    if (p->got < begin) {
        n = stream_read(t, p, (char *)&p->header + p->got, begin - p->got);
        if ((p->got += n) < begin)
            return n;
        *ok = begin_frame(t, p);
        if (!*ok || !frame[p->header.kind].payload)
            p->got = 0;
    } else {
        const size_t bytes = p->header.bytes, at = p->got - begin;
        n = at < bytes ? read_payload(t, p, at, bytes)
                       : stream_read(t, p, (char *)&p->expected_crc + (at - bytes), bytes + overhead(p) - at);
        p->got += n;
    }
    if (*ok && p->got && p->got == begin + p->header.bytes + overhead(p)) {
        p->got = 0;
        *ok = end_payload(t, p);
    }
    return n;
}

static void pump_in(yk__native *t, yk__native_peer *p)
{
    size_t total = 0, n = 1;
    bool ok = true;
    while (ok && n && (total < PUMP_MAX || p->taken < p->buffered))
        total += n = read_part(t, p, &ok);
    if (!ok)
        p->broken = true;
    if (p->broken && p->fd >= 0) { /* the other end waits for this (native_stop) */
        t->watched--;
        close(p->fd); /* epoll forgets it */
        p->fd = -1;
    }
    if (n && p->shares_memory && ok)
        yk_ring_notify(&t->segment, (int)(p - t->peer)); /* the rest, in the next call */
}

/* ---- progress ---- */

static void read_rings(yk__native *t)
{
    for (int word = 0; word * 64 < t->segment.senders; word++)
        for (uint64_t ready = yk_segment_ready(&t->segment, word); ready; ready &= ready - 1) {
            yk__native_peer *p = &t->peer[64 * word + __builtin_ctzll(ready)];
            if (p->shares_memory && !p->broken)
                pump_in(t, p);
        }
}

static void accept_peers(yk__native *t)
{
    yk_hello hello;
    int fd;
    while (t->npeers < YK_MAX_JOINED && (fd = yk_listener_accept(t->listener, &hello)) >= 0)
        yk__native_add_peer(t, fd, 0);
}

/* Sockets, processes that ended, workers that join. */
static void read_events(yk__native *t)
{
    struct epoll_event event[64];
    const int n = epoll_wait(t->epoll, event, 64, 0);
    for (int i = 0; i < n; i++) {
        const uint32_t index = (uint32_t)event[i].data.u64;
        switch ((int)(event[i].data.u64 >> 32)) {
        case YK__EVENT_SOCKET:
            pump_in(t, &t->peer[index]);
            break;
        case YK__EVENT_PROCESS:
            t->peer[index].exited = true;
            epoll_ctl(t->epoll, EPOLL_CTL_DEL, t->peer[index].pidfd, NULL);
            break;
        default:
            accept_peers(t);
        }
    }
}

static void progress(yk__native *t)
{
    static const unsigned rarely = 256; /* deaths of processes that share memory */
    if (t->segment.at)
        read_rings(t);
    if (t->watched || t->polls++ % rarely == 0)
        read_events(t);
    pump_blocked(t);
}

/* ---- the functions of the transport ---- */

/* Also those that are done but were never tested. */
static void free_requests(yk__native *t)
{
    for (yk__message *r; (r = LIST_FIRST(&t->requests));) {
        LIST_REMOVE(r, of_all);
        free(r);
    }
}

/* Forgets its requests. */
static void clear_peer(yk__native *t, yk__native_peer *p)
{
    if (p->message && p->message->wanted) /* is in no list */
        free_stored(p->message);
    p->message = NULL;
    for (yk__message *o; (o = TAILQ_FIRST(&p->outputs));) {
        TAILQ_REMOVE(&p->outputs, o, entry);
        if (o->is_frame)
            free(o);
    }
    TAILQ_INIT(&p->announced);
    TAILQ_INIT(&p->posted);
    TAILQ_INIT(&p->granted);
    for (yk__message *s = TAILQ_FIRST(&t->stored), *next; s; s = next) {
        next = TAILQ_NEXT(s, entry);
        if (s->peer != p - t->peer)
            continue;
        TAILQ_REMOVE(&t->stored, s, entry);
        free_stored(s);
    }
    p->got = 0;
    p->broken = true;
}

void yk__native_free(yk__native *t)
{
    for (int i = 0; i < t->max_peers; i++) {
        yk__native_peer *p = &t->peer[i];
        clear_peer(t, p);
        yk_segment_free(&p->out);
        free(p->buffer);
        if (p->fd >= 0)
            close(p->fd);
        if (p->pidfd >= 0)
            close(p->pidfd);
    }
    free_requests(t);
    yk_segment_free(&t->segment);
    yk_listener_free(t->listener);
    if (t->epoll >= 0)
        close(t->epoll);
    free(t->hello);
    free(t->peer);
    free(t);
}

/* Waits until all bytes have left this process. */
static void flush(yk__native *t, double seconds)
{
    const double until = yk_now() + seconds;
    for (progress(t); !TAILQ_EMPTY(&t->blocked) && yk_now() < until; progress(t))
        yk_sleep(5e-5);
}

/* Closing a socket that has unread bytes may discard bytes that were sent. So the other end, which has read all, closes it first. */
static void native_stop(void *self)
{
    yk__native *t = self;
    yk_wait w = yk_wait_every(1e-4, end_timeout);
    flush(t, end_timeout);
    for (int i = 0; i < t->npeers; i++)
        if (t->peer[i].fd >= 0)
            shutdown(t->peer[i].fd, SHUT_WR);
    while (t->watched > (t->listener != NULL) && yk_wait_poll(&w))
        progress(t);
    yk__native_free(t);
}

static void native_abort(void *self, int status)
{
    yk__native *t = self;
    if (!atomic_load(&t->started)) { /* another thread of this process is connecting the ranks */
        yk__native_leave_early(t);
        return;
    }
    for (int i = 0; i < t->npeers; i++)
        if (!is_lost(t, &t->peer[i]) && (t->peer[i].fd >= 0 || t->peer[i].shares_memory))
            queue(t, &t->peer[i], (yk__frame){.kind = YK__FRAME_ABORT, .tag = status}, NULL);
    flush(t, 1.0);
}

static void native_error_text(void *self, int code, char *out, size_t size)
{
    static const char *const text[] = {
        [YK__CODE_TOO_LONG] = "the message is longer than its buffer", [YK__CODE_MEMORY] = "out of memory"};
    const yk__native *t = self;
    if (code == YK__CODE_ABORTED || code == YK_TRANSPORT_STOPPED)
        snprintf(out, size, "rank %d has %s, and ended the job", t->aborted_by,
                 code == YK__CODE_ABORTED ? "failed" : "received a signal");
    else
        snprintf(out, size, "%s", text[code]);
}

static yk__message *new_request(yk__native *t, int peer, int tag, void *buf, size_t bytes)
{
    yk__message *r = malloc(sizeof *r);
    if (!r)
        return NULL;
    *r = (yk__message){.peer = peer, .tag = tag, .buf = buf, .bytes = bytes};
    LIST_INSERT_HEAD(&t->requests, r, of_all);
    return r;
}

static int aborted(const yk__native *t)
{
    return t->aborted_by < 0 ? 0 : t->aborted_status ? YK__CODE_ABORTED : YK_TRANSPORT_STOPPED;
}

static int native_send(void *self, int peer, int tag, const void *buf, size_t bytes, uint64_t *request_out)
{
    yk__message *r = new_request(self, peer, tag, (void *)(uintptr_t)buf, bytes);
    *request_out = (uintptr_t)r;
    return r ? send_message(self, r) : YK__CODE_MEMORY;
}

static int native_recv(void *self, int peer, int tag, void *buf, size_t cap, uint64_t *request_out)
{
    yk__message *r = new_request(self, peer, tag, buf, cap);
    *request_out = (uintptr_t)r;
    return r ? receive(self, r) : YK__CODE_MEMORY;
}

static int native_test(void *self, uint64_t *request, bool *done_out, size_t *bytes_out)
{
    yk__native *t = self;
    yk__message *r = (yk__message *)(uintptr_t)*request;
    if (!r->done)
        progress(t);
    *done_out = r->done;
    if (!r->done)
        return aborted(t);
    const int code = r->error;
    *bytes_out = r->bytes;
    LIST_REMOVE(r, of_all);
    free(r);
    return code;
}

static int native_probe(void *self, int peer, int tag, bool *found_out, yk_arrival *out)
{
    yk__native *t = self;
    const yk__message *s = find(t, peer, tag);
    if (!s) {
        progress(t);
        s = find(t, peer, tag);
    }
    *found_out = s;
    if (s)
        *out = (yk_arrival){s->peer, s->bytes};
    return s ? 0 : aborted(t);
}

static void native_abandon(void *self)
{
    yk__native *t = self;
    for (int i = 0; i < t->npeers; i++) {
        const yk__message *first = TAILQ_FIRST(&t->peer[i].outputs);
        const bool usable = (!first || !first->begun) && !is_lost(t, &t->peer[i]);
        clear_peer(t, &t->peer[i]);
        t->peer[i].broken = !usable; /* to say that the job ends */
    }
    free_requests(t);
}

static bool native_lost(void *self, int peer)
{
    yk__native *t = self;
    const double now = yk_now();
    progress(t);
    if (now - t->events_at > events_every) {
        t->events_at = now;
        read_events(t);
    }
    return t->aborted_by >= 0 || is_lost(t, &t->peer[peer]);
}

static int native_peers(void *self)
{
    yk__native *t = self;
    if (t->listener)
        progress(t);
    return t->npeers;
}

const yk_transport_ops yk__native_ops = {.start = yk__native_start,
                                         .stop = native_stop,
                                         .abort = native_abort,
                                         .error_text = native_error_text,
                                         .send = native_send,
                                         .recv = native_recv,
                                         .test = native_test,
                                         .probe = native_probe,
                                         .abandon = native_abandon,
                                         .lost = native_lost,
                                         .peers = native_peers};
