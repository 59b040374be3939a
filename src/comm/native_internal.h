/* The native transport, shared by native*.c. */
#ifndef YK_COMM_NATIVE_INTERNAL_H
#define YK_COMM_NATIVE_INTERNAL_H

#include "comm/native.h"
#include <arpa/inet.h>
#include <stdatomic.h>
#include <sys/queue.h>
#include <sys/uio.h>

/* native_ring.c: memory with one ring per sender */

typedef struct {
    char *at; /* NULL: none */
    int fd;   /* of the creator; -1: closed */
    int senders;
    size_t ring; /* bytes of a ring's contents, a power of two */
} yk_segment;

yk_status yk_segment_create(int senders, yk_segment *out);
bool yk_segment_open(int64_t pid, int descriptor, int senders, yk_segment *out);
void yk_segment_free(yk_segment *s); /* a zeroed one is fine */

/* Bytes written, or read: 0 if the ring is full, or empty. */
size_t yk_ring_write(const yk_segment *s, int sender, const void *data, size_t n);
size_t yk_ring_read(const yk_segment *s, int sender, void *out, size_t n);
bool yk_ring_is_empty(const yk_segment *s, int sender);

/* Tells the receiver that there is data, so that it need not scan all rings on each poll. */
void yk_ring_notify(const yk_segment *s);
uint64_t yk_segment_notified(const yk_segment *s); /* the number of notifications so far */

/* native_socket.c: authenticated connections */

typedef struct yk_listener yk_listener;

/* What a process says about itself. Plain data, sent as bytes. */
typedef struct {
    int32_t rank, size;
    int64_t pid;
    uint64_t host;   /* equal for processes that can share memory */
    int32_t segment; /* the descriptor of its memory (native_ring.c); -1: none */
    int32_t port;    /* where it listens; 0: nowhere */
    char address
        [48]; /* of its host, as others reach it; "": a Unix socket. Set by the process that accepts it */
} yk_hello;
_Static_assert(sizeof(yk_hello) == 80 && sizeof((yk_hello *)0)->address >= INET6_ADDRSTRLEN,
               "it has no padding");

/* listen_fd: a socket that listens there already, which is closed with the listener; -1: none. */
yk_status yk_listener_create(const char *address, int listen_fd, const char *token, yk_listener **out);
int yk_listener_port(const yk_listener *l); /* 0: a Unix socket */
void yk_listener_free(yk_listener *l);      /* NULL is fine */

/* Waits until there is something to do, for up to `seconds`, and works on all connections. Returns a socket (non-blocking) that
 * is authenticated; -1: none yet. */
int yk_listener_accept(yk_listener *l, double seconds, yk_hello *out);

/* Connects, and tries again until the timeout if nobody listens yet. The socket is blocking. YK_EUSAGE: the tokens
 * differ; YK_ELOST: cannot be reached. */
yk_status yk_dial(const char *address, const char *token, const yk_hello *hello, double timeout, int *out);

/* Sends or receives all bytes of a blocking or non-blocking socket, until a time (base/clock.h). */
bool yk_socket_transfer(int fd, bool send_it, void *data, size_t n, double until);

/* ---- frames and messages ---- */

typedef enum {
    YK__FRAME_MESSAGE = 1,
    YK__FRAME_ABORT /* the sender ends the job; tag: its exit status */
} yk__frame_kind;

/* The header of a frame. The bytes of the message follow; on sockets, then their CRC-32C without the final inversion. */
typedef struct {
    uint32_t kind;
    int32_t tag;
    uint32_t bytes;
    uint32_t crc; /* of this header with crc = 0; on sockets only */
} yk__frame;

/* A message that is being sent or received: the caller's handle is its address. Or one that is stored: it arrives before there is a
 * receive for it. */
typedef struct yk__message {
    LIST_ENTRY(yk__message) of_all; /* until it is tested */
    TAILQ_ENTRY(yk__message)
    entry; /* in one of the lists of its peer; stored ones, of all peers: in the order of arrival */
    int peer, tag;
    char *buf;         /* stored: owned */
    size_t bytes;      /* of the message; to receive: the capacity, then the length */
    bool stored, done; /* done: a request; or all bytes of a stored message have arrived */
    int error;
    /* to send */
    yk__frame header;
    size_t sent;  /* of header, bytes and CRC */
    uint32_t crc; /* of the bytes so far */
} yk__message;
TAILQ_HEAD(yk__messages, yk__message);

typedef struct yk__native_peer {
    /* the stream: memory, or a socket */
    yk_segment out; /* the segment of the peer */
    bool shares_memory;
    int fd;              /* the socket; -1: none, or not yet */
    int pidfd;           /* -1: none */
    bool exited, broken; /* its process has ended; its stream cannot be used any more */
    char *buffer;        /* [INPUT_BUFFER] bytes that were read ahead from a socket; NULL: none yet */
    size_t buffered, taken;
    /* sending */
    struct yk__messages outputs;
    struct yk__messages posted; /* receives that wait for a message */
    size_t stored_bytes,
        longest_stored; /* bytes of its messages that are stored; of the longest one so far */
    bool probed;        /* native_probe() waits for a message of it */
    /* the frame that is arriving */
    yk__frame header;
    size_t got;                 /* of header, bytes and CRC */
    uint32_t crc, expected_crc; /* of the bytes so far; the one that follows them */
    yk__message *message;       /* a receive, or stored; NULL: the frame is no message */
} yk__native_peer;

typedef struct {
    yk_rendezvous job; /* rank -1: this transport connects workers that join, on either side */
    bool sockets;
    _Atomic bool started;       /* its ranks are connected */
    _Atomic bool leaving, told; /* before that: a rank was stopped by a signal; rank 0 has told the others */
    double timeout, until;      /* for all processes to start: seconds; a time */
    yk_hello *hello;            /* [job.size] what the ranks said about themselves; stored after the peers */
    int npeers, max_peers;
    yk_segment segment; /* others write to it */
    yk_listener *listener;
    int epoll;
    int watched; /* descriptors in epoll */
    unsigned polls;
    uint64_t notified;          /* the notifications so far */
    bool input;                 /* unread data may remain in a ring, or in the buffer of a socket */
    bool output;                /* something could not be sent yet */
    double events_at;           /* when native_lost() read the last events */
    struct yk__messages stored; /* of all peers */
    LIST_HEAD(yk__requests, yk__message) requests;
    int aborted_by, aborted_status; /* aborted_by -1: nobody */
    yk__native_peer peer[];         /* [max_peers], of which npeers are connected */
} yk__native;

enum { YK__CODE_ABORTED = 1, YK__CODE_TOO_LONG, YK__CODE_MEMORY };

/* native.c */
extern const yk_transport_ops yk__native_ops;
void yk__native_free(yk__native *t);

/* native_start.c; without connections, for up to `peers` peers */
yk_status yk__native_create(const char *token, int peers, yk__native **out);
int yk__native_start(void *transport, yk_world *out);
void yk__native_leave_early(yk__native *t); /* tells the others that this rank will not connect */

/* Adds the next peer, with the socket `fd`, which it owns; -1: it shares memory, and its process is `pid`. */
yk_status yk__native_add_peer(yk__native *t, int fd, pid_t pid);

/* What an event of epoll is about; with the index of a peer, it is the event's data. */
enum { YK__EVENT_SOCKET, YK__EVENT_PROCESS };

#endif
