/* Arbitrary frames from another process to the native transport: messages, or a peer that is lost, never a crash. They arrive
 * through a ring, whose frames have no CRC, so that every byte counts. */
#include "comm/native_internal.h"
#include <stdlib.h>
#include <string.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

enum { RECEIVES = 4, SENDS = 3, CAP = 3000, PAGE = 4096 };

/* An empty segment. It is created once: to map its memory takes longer than to read an input. */
static yk_segment empty_segment(yk_segment *s)
{
    if (!s->at && yk_segment_create(2, s))
        abort();
    for (size_t i = 0; i < 2; i++) /* the positions are in the page before the bytes (native_ring.c) */
        memset(s->at + i * (PAGE + s->ring), 0, PAGE);
    return *s;
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    static char in[RECEIVES][CAP], out[SENDS][1 << 17];
    static yk_segment here, there;
    yk__native *t;
    if (yk__native_create("", 2, &t))
        abort();
    t->job.rank = 0;
    t->job.size = 2;
    if (yk__native_add_peer(t, -1, 0) || yk__native_add_peer(t, -1, 0))
        abort();
    t->segment = empty_segment(&here);
    yk__native_peer *p = &t->peer[1];
    p->shares_memory = true;
    p->out = empty_segment(&there);
    for (int i = 0; i < RECEIVES + SENDS; i++) {
        uint64_t request; /* freed in the end */
        const int s = i - RECEIVES, tag = i % 3;
        if (s < 0 ? yk__native_ops.recv(t, 1, tag, in[i], (size_t)CAP / (size_t)(i + 1), &request)
                  : yk__native_ops.send(t, 1, tag, out[s], sizeof out[0] / (size_t)(i + 1), &request))
            abort();
    }
    while (size) {
        const size_t n = yk_ring_write(&t->segment, 1, data, size);
        yk__native_ops.lost(t, 1); /* reads what there is */
        data += n;
        size -= n;
        if (!n) /* the peer is lost */
            break;
    }
    t->segment = p->out = (yk_segment){.fd = -1};
    yk__native_free(t);
    return 0;
}
