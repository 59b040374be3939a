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
    INPUT_BUFFER = 1 << 15,
    CRC = 4,
    PIECE = 1 << 18,    /* bytes that are sent or received at once: the CRC reads them from the L2 cache */
    PUMP_MAX = 1 << 22, /* bytes read from one peer before others get a turn */
    STORED_MAX =
        1 << 24 /* bytes stored for a peer before it has to wait, besides 8 times its longest message */
};

static const double end_timeout = 5.0; /* seconds for what was sent to leave this process */

static const double events_every =
    2e-3; /* seconds: a job of many processes asks for each peer whether it is lost */

static bool is_lost(const yk__native *t, const yk__native_peer *p)
{
    const int index = (int)(p - t->peer);
    return p->broken || (p->exited && (!p->shares_memory || yk_ring_is_empty(&t->segment, index)));
}

static size_t frame_bytes(const yk__native_peer *p, const yk__frame *header)
{
    return sizeof *header + header->bytes + (p->shares_memory ? 0 : CRC);
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
        yk_ring_notify(&p->out);
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

/* Sends some of the header and the bytes, or of the CRC. The CRC of a piece is computed as soon as it was sent: it is in the cache. */
static size_t send_some(const yk__native *t, yk__native_peer *p, yk__message *o)
{
    const size_t begin = sizeof o->header, head = o->sent < begin ? begin - o->sent : 0,
                 at = o->sent + head - begin, left = at < o->bytes ? o->bytes - at : 0;
    struct iovec part[2] = {{(char *)&o->header + begin - head, head},
                            {left ? o->buf + at : NULL, left < PIECE ? left : PIECE}};
    const int n = head && !left ? 1 : 2;
    if (!head && !left)
        part[1] = (struct iovec){(char *)&o->crc + (at - o->bytes), CRC - (at - o->bytes)};
    const size_t sent = p->shares_memory ? ring_write(t, p, part, n) : socket_write(p, part, n);
    if (!p->shares_memory && left && sent > head)
        o->crc = yk_crc32c_add(o->crc, part[1].iov_base, sent - head);
    o->sent += sent;
    return sent;
}

static void free_message(yk__message *m)
{
    free(m->buf);
    free(m);
}

/* Sends as much as possible. */
static void pump_out(yk__native *t, yk__native_peer *p)
{
    yk__message *o;
    while (!is_lost(t, p) && (o = TAILQ_FIRST(&p->outputs))) {
        if (!send_some(t, p, o))
            break;
        if (o->sent == frame_bytes(p, &o->header)) {
            TAILQ_REMOVE(&p->outputs, o, entry);
            o->done = true;
            if (o->stored)
                free_message(o);
        }
    }
    t->output |= !TAILQ_EMPTY(&p->outputs) && !is_lost(t, p);
}

static void queue(yk__native *t, yk__message *m, yk__frame_kind kind)
{
    yk__native_peer *p = &t->peer[m->peer];
    m->header = (yk__frame){.kind = kind, .tag = m->tag, .bytes = (uint32_t)m->bytes};
    if (!p->shares_memory)
        m->header.crc = yk_crc32c(&m->header, sizeof m->header);
    m->crc = ~0u;
    TAILQ_INSERT_TAIL(&p->outputs, m, entry);
    pump_out(t, p);
}

/* ---- matching ---- */

static void complete_receive(yk__message *r, size_t bytes)
{
    if (bytes > r->bytes)
        r->error = YK__CODE_TOO_LONG;
    r->bytes = bytes;
    r->done = true;
}

/* Removes a message from the stored ones. */
static void release_stored(yk__native *t, yk__message *s)
{
    TAILQ_REMOVE(&t->stored, s, entry);
    t->peer[s->peer].stored_bytes -= s->bytes;
    free_message(s);
}

static void deliver(yk__native *t, yk__message *s, yk__message *r)
{
    if (s->bytes <= r->bytes && s->bytes)
        memcpy(r->buf, s->buf, s->bytes);
    complete_receive(r, s->bytes);
    release_stored(t, s);
}

/* The first one that has arrived; peer < 0: of any rank. */
static yk__message *find(const yk__native *t, int peer, int tag)
{
    yk__message *s;
    TAILQ_FOREACH(s, &t->stored, entry)
    if (s->done && s->tag == tag && (peer < 0 || s->peer == peer))
        break;
    return s;
}

/* Removes and returns the first posted receive with this tag. NULL: none. */
static yk__message *take_posted(yk__native_peer *p, int tag)
{
    yk__message *r;
    TAILQ_FOREACH(r, &p->posted, entry)
    if (r->tag == tag) {
        TAILQ_REMOVE(&p->posted, r, entry);
        return r;
    }
    return NULL;
}

/* Memory for a message that arrives before there is a receive for it. NULL: out of memory. */
static yk__message *store(yk__native *t, yk__native_peer *p)
{
    yk__message *s = malloc(sizeof *s);
    char *buf = malloc((size_t)p->header.bytes + 1);
    if (!s || !buf) {
        free(s);
        free(buf);
        return NULL;
    }
    *s = (yk__message){.peer = (int)(p - t->peer),
                       .tag = p->header.tag,
                       .buf = buf,
                       .bytes = p->header.bytes,
                       .stored = true};
    TAILQ_INSERT_TAIL(&t->stored, s, entry);
    p->stored_bytes += s->bytes;
    p->longest_stored = s->bytes > p->longest_stored ? s->bytes : p->longest_stored;
    return s;
}

/* A process has no connection to itself: the message is copied. */
static int send_to_self(yk__native *t, yk__native_peer *p, yk__message *r)
{
    p->header = (yk__frame){.tag = r->tag, .bytes = (uint32_t)r->bytes};
    yk__message *to = take_posted(p, r->tag);
    if (!to && !(to = store(t, p)))
        return YK__CODE_MEMORY;
    if (r->bytes && r->bytes <= to->bytes)
        memcpy(to->buf, r->buf, r->bytes);
    complete_receive(to, r->bytes);
    r->done = true;
    return 0;
}

/* ---- input ---- */

/* The header has arrived. False: the stream is corrupt, or there is no memory. */
static bool begin_frame(yk__native *t, yk__native_peer *p)
{
    yk__frame *h = &p->header;
    const uint32_t crc = h->crc;
    h->crc = 0;
    if (!p->shares_memory && crc != yk_crc32c(h, sizeof *h))
        return false;
    p->message = NULL;
    p->crc = ~0u;
    if (h->kind == YK__FRAME_ABORT)
        return h->bytes == 0;
    if (h->kind != YK__FRAME_MESSAGE || h->bytes > INT32_MAX)
        return false;
    if (!(p->message = take_posted(p, h->tag)))
        p->message = store(t, p);
    return p->message;
}

/* All bytes have arrived. */
static bool end_frame(yk__native *t, yk__native_peer *p)
{
    yk__message *m = p->message, *posted;
    if (!p->shares_memory && p->crc != p->expected_crc)
        return false;
    p->message = NULL;
    if (m) {
        complete_receive(m, p->header.bytes);
        if (m->stored && (posted = take_posted(p, m->tag))) /* since it began to arrive */
            deliver(t, m, posted);
    } else if (p->header.kind == YK__FRAME_ABORT &&
               t->aborted_by < 0) { /* else a message that was abandoned */
        t->aborted_by = (int)(p - t->peer);
        t->aborted_status = p->header.tag;
    }
    return true;
}

/* Reads the bytes of a message; those of one that is too long for its receiver, or was abandoned, are discarded. */
static size_t read_payload(yk__native *t, yk__native_peer *p, size_t at, size_t n)
{
    char discarded[4096];
    const bool fits = p->message && n <= p->message->bytes;
    char *to = fits ? p->message->buf + at : discarded;
    const size_t max = fits ? PIECE : sizeof discarded,
                 got = stream_read(t, p, to, n - at < max ? n - at : max);
    if (!p->shares_memory)
        p->crc = yk_crc32c_add(p->crc, to, got);
    return got;
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
    } else {
        const size_t bytes = p->header.bytes, at = p->got - begin;
        n = at < bytes ? read_payload(t, p, at, bytes)
                       : stream_read(t, p, (char *)&p->expected_crc + (at - bytes),
                                     frame_bytes(p, &p->header) - p->got);
        p->got += n;
    }
    if (*ok && p->got == frame_bytes(p, &p->header)) {
        p->got = 0;
        *ok = end_frame(t, p);
    }
    return n;
}

/* Whether to stop reading from this peer for now, so that it has to wait: this process stores more of its messages than any protocol
 * sends before it needs an answer. Never true while this process waits for a message from that peer: it may be queued behind the others. */
static bool must_pause(const yk__native_peer *p)
{
    return p->got == 0 && p->stored_bytes > STORED_MAX + 8 * p->longest_stored && !p->probed &&
           TAILQ_EMPTY(&p->posted) && !p->broken && !p->exited;
}

static void pump_in(yk__native *t, yk__native_peer *p)
{
    size_t total = 0, n = 1;
    bool ok = true;
    while (ok && n && !must_pause(p) && total < PUMP_MAX)
        total += n = read_part(t, p, &ok);
    if (!ok)
        p->broken = true;
    if (p->broken && p->fd >= 0) { /* the other end waits for this (native_stop) */
        t->watched--;
        close(p->fd); /* epoll forgets it */
        p->fd = -1;
    }
}

/* ---- progress ---- */

/* Sockets, processes that ended. */
static void read_events(yk__native *t)
{
    struct epoll_event event[64];
    const int n = epoll_wait(t->epoll, event, 64, 0);
    for (int i = 0; i < n; i++) {
        yk__native_peer *p = &t->peer[(uint32_t)event[i].data.u64];
        t->input = true;
        if (event[i].data.u64 >> 32 == YK__EVENT_SOCKET) {
            pump_in(t, p);
        } else { /* it may have written something without a notification */
            p->exited = true;
            epoll_ctl(t->epoll, EPOLL_CTL_DEL, p->pidfd, NULL);
        }
    }
}

/* Whether there is something to read that epoll does not report: in a ring, or read ahead from a socket. */
static bool has_input(const yk__native *t, const yk__native_peer *p)
{
    const bool any =
        p->shares_memory ? !yk_ring_is_empty(&t->segment, (int)(p - t->peer)) : p->taken < p->buffered;
    return any && !p->broken;
}

static void progress(yk__native *t)
{
    static const unsigned rarely = 256; /* deaths of processes that share memory */
    const uint64_t notified = t->segment.at ? yk_segment_notified(&t->segment) : 0;
    if (t->watched || t->polls++ % rarely == 0)
        read_events(t);
    const bool input = t->input || notified != t->notified, output = t->output;
    t->notified = notified;
    t->input = t->output = false;
    for (yk__native_peer *p = t->peer; (input || output) && p < t->peer + t->npeers; p++) {
        if (has_input(t, p))
            pump_in(t, p);
        t->input |= has_input(t, p);
        if (!TAILQ_EMPTY(&p->outputs))
            pump_out(t, p);
    }
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

/* Drops the requests of a peer. The rest of a message that is still arriving is discarded. */
static void clear_peer(yk__native *t, yk__native_peer *p)
{
    p->message = NULL;
    for (yk__message *o = TAILQ_FIRST(&p->outputs), *next; o; o = next) {
        next = TAILQ_NEXT(o, entry);
        if (o->stored)
            free_message(o);
    }
    TAILQ_INIT(&p->outputs);
    TAILQ_INIT(&p->posted);
    for (yk__message *s = TAILQ_FIRST(&t->stored), *next; s; s = next) {
        next = TAILQ_NEXT(s, entry);
        if (s->peer == p - t->peer)
            release_stored(t, s);
    }
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
    free(t);
}

/* Waits until all bytes have left this process. */
static void flush(yk__native *t, double seconds)
{
    const double until = yk_now() + seconds;
    for (progress(t); t->output && yk_now() < until; progress(t))
        yk_sleep(5e-5);
}

/* Closing a socket that has unread bytes may discard bytes that were sent. So the other end, which has read all, closes it first. */
static void native_stop(void *self)
{
    yk__native *t = self;
    yk_wait w = yk_wait_every(1e-4, end_timeout);
    for (int i = 0; i < t->npeers; i++)
        t->peer[i].probed = true; /* reads everything up to the end of the stream */
    flush(t, end_timeout);
    for (int i = 0; i < t->npeers; i++)
        if (t->peer[i].fd >= 0)
            shutdown(t->peer[i].fd, SHUT_WR);
    while (t->watched && yk_wait_poll(&w))
        progress(t);
    yk__native_free(t);
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

static void native_abort(void *self, int status)
{
    yk__native *t = self;
    if (t->job.rank >= 0 &&
        !atomic_load(&t->started)) { /* another thread of this process is connecting the ranks */
        yk__native_leave_early(t);
        return;
    }
    for (int i = 0; i < t->npeers; i++) {
        const bool connected = t->peer[i].fd >= 0 || t->peer[i].shares_memory;
        yk__message *m = !is_lost(t, &t->peer[i]) && connected ? new_request(t, i, status, NULL, 0) : NULL;
        if (m)
            queue(t, m, YK__FRAME_ABORT);
    }
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

static int aborted(const yk__native *t)
{
    return t->aborted_by < 0 ? 0 : t->aborted_status ? YK__CODE_ABORTED : YK_TRANSPORT_STOPPED;
}

static int native_send(void *self, int peer, int tag, const void *buf, size_t bytes, uint64_t *request_out)
{
    yk__native *t = self;
    yk__message *r = new_request(t, peer, tag, (void *)(uintptr_t)buf, bytes);
    *request_out = (uintptr_t)r;
    if (!r)
        return YK__CODE_MEMORY;
    if (peer == t->job.rank)
        return send_to_self(t, &t->peer[peer], r);
    queue(t, r, YK__FRAME_MESSAGE);
    return 0;
}

static int native_recv(void *self, int peer, int tag, void *buf, size_t cap, uint64_t *request_out)
{
    yk__native *t = self;
    yk__message *r = new_request(t, peer, tag, buf, cap), *s = r ? find(t, peer, tag) : NULL;
    *request_out = (uintptr_t)r;
    if (s)
        deliver(t, s, r);
    else if (r)
        TAILQ_INSERT_TAIL(&t->peer[peer].posted, r, entry);
    return r ? 0 : YK__CODE_MEMORY;
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
        if (peer >= 0)
            t->peer[peer].probed = true;
        progress(t);
        s = find(t, peer, tag);
    }
    if (s)
        t->peer[s->peer].probed = false;
    *found_out = s;
    if (s)
        *out = (yk_arrival){s->peer, s->bytes};
    return s ? 0 : aborted(t);
}

static char *native_take(void *self, int peer, int tag, size_t *bytes_out)
{
    yk__message *s = find(self, peer, tag);
    char *data = s ? s->buf : NULL;
    if (!s)
        return NULL;
    *bytes_out = s->bytes;
    s->buf = NULL;
    release_stored(self, s);
    return data;
}

/* The first message to a peer, if a part of it was sent: a copy, with its bytes. Other messages may follow its rest. */
static yk__message *begun_output(const yk__native_peer *p, bool *ok)
{
    const yk__message *o = TAILQ_FIRST(&p->outputs);
    if (!o || !o->sent)
        return NULL;
    yk__message *copy = malloc(sizeof *copy);
    char *buf = malloc(o->bytes + 1);
    if (!copy || !buf) {
        free(copy);
        free(buf);
        *ok = false;
        return NULL;
    }
    *copy = *o;
    copy->buf = memcpy(buf, o->buf, o->bytes);
    copy->stored = true;
    return copy;
}

static void native_abandon(void *self)
{
    yk__native *t = self;
    for (int i = 0; i < t->npeers; i++) {
        yk__native_peer *p = &t->peer[i];
        bool usable = !is_lost(t, p);
        yk__message *begun = begun_output(p, &usable);
        clear_peer(t, p);
        if (begun)
            TAILQ_INSERT_TAIL(&p->outputs, begun, entry);
        p->broken = !usable; /* usable peers still have to be told that the job ends */
    }
    free_requests(t);
}

/* Whether part of a frame, but not all of it, has arrived from some peer. */
static bool native_is_receiving(void *self)
{
    const yk__native *t = self;
    bool any = false;
    for (int i = 0; i < t->npeers; i++)
        any |= t->peer[i].got > 0;
    return any;
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
    yk_hello hello;
    for (int fd; t->listener && t->npeers < YK_MAX_JOINED &&
                 (fd = yk_listener_accept(t->listener, 0.0, &hello)) >= 0;)
        if (yk__native_add_peer(t, fd, 0))
            close(fd);
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
                                         .peers = native_peers,
                                         .take = native_take,
                                         .is_receiving = native_is_receiving};
