/* The native transport, shared by native*.c. */
#ifndef YK_COMM_NATIVE_INTERNAL_H
#define YK_COMM_NATIVE_INTERNAL_H

#include "comm/native.h"
#include "comm/native_ring.h"
#include "comm/native_socket.h"
#include <arpa/inet.h>
#include <stdatomic.h>
#include <sys/queue.h>

enum {
    YK__EAGER_MAX = 1 << 16,   /* longer messages wait until the receiver asks for them */
    YK__CREDIT_MAX = 1 << 20,  /* bytes of messages that a receiver stores for each sender */
    YK__MESSAGE_OVERHEAD = 64, /* counted for each of them */
    YK__INPUT_BUFFER = 1 << 15
};

typedef enum {
    YK__FRAME_EAGER = 1, /* a message; its bytes follow */
    YK__FRAME_ANNOUNCE,  /* the sender has a message, which it keeps for now */
    YK__FRAME_GRANT,     /* the receiver wants it */
    YK__FRAME_DATA,      /* its bytes follow */
    YK__FRAME_FETCHED,   /* instead of GRANT: the receiver has read it from the memory of the sender */
    YK__FRAME_CREDIT,    /* nothing but `credit` */
    YK__FRAME_ABORT,     /* the sender ends the job; tag: its exit status */
    YK__FRAME_LEAVE      /* the sender leaves; no frame follows */
} yk__frame_kind;

typedef struct {
    uint32_t kind;
    int32_t tag;
    uint64_t bytes;   /* of the message */
    uint64_t id;      /* of the message, chosen by its sender, for ANNOUNCE, GRANT, DATA and FETCHED */
    uint64_t address; /* ANNOUNCE: of the bytes, in the sender's memory */
    uint32_t credit;  /* bytes of earlier messages that the receiver no longer stores */
    uint32_t
        crc; /* of this header with crc = 0; on sockets only. After the bytes of a message, their CRC follows, not inverted */
} yk__frame;

/* A message that is being sent or received. The caller's handle is its address. */
typedef struct yk__message {
    LIST_ENTRY(yk__message) of_all; /* until it is tested */
    TAILQ_ENTRY(yk__message) entry; /* in one of the lists of its peer */
    int peer, tag;
    char *buf;
    size_t bytes; /* to send; to receive: the capacity, then the length */
    uint64_t id;
    bool done;
    int error;
} yk__message;
TAILQ_HEAD(yk__messages, yk__message);

/* A message that arrived, or was announced, before there was a receive for it. */
typedef struct yk__stored {
    TAILQ_ENTRY(yk__stored) entry; /* in the order of arrival */
    int peer, tag;
    size_t bytes;
    uint64_t id, address;
    char *data;          /* NULL: the sender still has it */
    bool complete;       /* all bytes of `data` have arrived */
    yk__message *wanted; /* the receive that gets it when it is complete; then it is in no list */
} yk__stored;
TAILQ_HEAD(yk__stored_list, yk__stored);

/* A frame that waits to be sent. */
typedef struct yk__output {
    TAILQ_ENTRY(yk__output) entry;
    yk__frame header;
    yk__message *request; /* whose bytes follow; NULL: none */
    size_t sent;          /* of header, bytes and CRC */
    uint32_t crc;         /* of the bytes so far */
} yk__output;
TAILQ_HEAD(yk__outputs, yk__output);

typedef struct yk__native_peer {
    yk_hello hello;
    /* the stream: memory, or a socket */
    yk_segment out; /* the segment of the peer */
    bool shares_memory;
    int fd;                    /* the socket; -1: none */
    int pidfd;                 /* -1: none */
    bool exited, left, broken; /* its process has ended; it sent LEAVE; its stream cannot be used any more */
    char *buffer; /* [YK__INPUT_BUFFER] bytes that were read ahead from a socket; NULL: none yet */
    size_t buffered, taken;
    /* sending */
    struct yk__outputs outputs;
    bool blocked; /* is in the transport's list of peers with output */
    TAILQ_ENTRY(yk__native_peer) entry_of_blocked;
    struct yk__messages announced; /* sends that wait for GRANT */
    size_t credit_used;            /* bytes of messages that the peer may still store */
    uint64_t next_id;
    /* receiving */
    struct yk__messages posted, granted; /* receives that wait for a message; for DATA */
    int nstored;
    size_t owed,
        to_credit; /* bytes of its messages for which it got no credit yet; of those, bytes that are no longer stored */
    /* the frame that is arriving */
    yk__frame header;
    size_t got;                 /* of header, bytes and CRC */
    char *to;                   /* where its bytes go; NULL: nowhere */
    uint32_t crc, expected_crc; /* of the bytes so far; the one that follows them */
    yk__message *receiver;
    yk__stored *store;
} yk__native_peer;

typedef struct {
    int rank, size;
    char master[YK_ADDRESS_MAX], host[INET6_ADDRSTRLEN]; /* of rank 0; of this rank, as others reach it */
    int listen_fd;
    unsigned char token[YK_TOKEN_BYTES];
    bool has_token, sockets;
    _Atomic bool started;       /* its ranks are connected */
    _Atomic bool leaving, told; /* before that: a rank was stopped by a signal; rank 0 has told the others */
    double timeout;
    yk__native_peer *peer; /* [npeers] */
    int npeers;
    yk_segment segment; /* others write to it */
    yk_listener *listener;
    int epoll;
    int watched; /* descriptors in epoll */
    unsigned polls;
    double events_at;              /* when native_lost() read the last events */
    struct yk__stored_list stored; /* of all peers */
    LIST_HEAD(yk__requests, yk__message) requests;
    TAILQ_HEAD(, yk__native_peer) blocked; /* peers with output that could not be sent yet */
    bool no_fetch;                  /* the kernel does not let this process read the memory of others */
    int aborted_by, aborted_status; /* aborted_by -1: nobody */
    char error[512];
} yk__native;

enum { YK__CODE_ABORTED = 1, YK__CODE_TOO_LONG, YK__CODE_MEMORY };

/* native.c; without connections, for up to `peers` peers */
yk_status yk__native_create(const unsigned char *token, int peers, yk__native **out);
void yk__native_free(yk__native *t);
const unsigned char *yk__native_token(const yk__native *t);
yk_status yk__native_add_peer(yk__native *t, int fd, const yk_hello *hello);

/* native_start.c: connects the ranks. YK_EINTERRUPTED: a rank has left before. */
yk_status yk__native_connect_ranks(yk__native *t);
void yk__native_leave_early(yk__native *t); /* tells the others that this rank will not connect */

/* What an event of epoll is about; with the index of a peer, it is the event's data. */
enum { YK__EVENT_SOCKET, YK__EVENT_PROCESS, YK__EVENT_LISTENER };
bool yk__native_watch(yk__native *t, int fd, int what, int index);

/* native_frames.c */
void yk__native_read_events(yk__native *t); /* sockets, processes that ended, workers that join */
void yk__native_progress(yk__native *t);
void yk__native_flush(yk__native *t, double until); /* sends what is queued */
/* Queues a frame; request: whose bytes follow, or NULL. False: no memory. */
bool yk__native_queue(yk__native *t, yk__native_peer *p, yk__frame header, yk__message *request);
int yk__native_send(yk__native *t, yk__message *r);
int yk__native_receive(yk__native *t, yk__message *r);
yk__stored *yk__native_find(const yk__native *t, int peer,
                            int tag); /* the first one; peer < 0: of any rank */
bool yk__native_is_lost(const yk__native *t, const yk__native_peer *p);

#endif
