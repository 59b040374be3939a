/* A memory segment with one ring per sender: how processes of one host send bytes to each other.
 *
 * The memory has no name in the file system: senders open it through /proc, and the kernel frees it when the last process
 * that maps it ends. Pages that are not used are not allocated. A ring has one reader and one writer. */
#include "comm/native_internal.h"

#include "comm/comm_internal.h"
#include <errno.h>
#include <stdatomic.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

/* Positions count bytes from the beginning of the job; each is on a cache line of its own. */
typedef struct {
    _Alignas(64) _Atomic uint64_t written;
    _Alignas(64) _Atomic uint64_t read;
    _Alignas(64) char data[];
} ring;

enum { PAGE = 4096 };

/* Smaller for jobs of many processes: the memory of a process is bounded, even if all of them write to it. */
static size_t ring_bytes(int senders)
{
    size_t bytes = 1 << 18; /* stays in the cache */
    while (bytes > (1 << 14) && bytes * (size_t)senders > (1 << 22))
        bytes /= 2;
    return bytes;
}

/* The header of a ring is at the end of a page, so that its data begins a page: untouched pages are never allocated. The counter
 * of notifications is at the start of the first page. */
static size_t ring_stride(const yk_segment *s)
{
    return s->ring + PAGE;
}

static ring *ring_of(const yk_segment *s, int sender)
{
    return (ring *)(s->at + (size_t)sender * ring_stride(s) + (PAGE - sizeof(ring)));
}

static size_t segment_bytes(const yk_segment *s)
{
    return (size_t)s->senders * ring_stride(s);
}

yk_status yk_segment_create(int senders, yk_segment *out)
{
    *out = (yk_segment){
        .fd = memfd_create("yoke-messages", MFD_CLOEXEC), .senders = senders, .ring = ring_bytes(senders)};
    void *at = out->fd < 0 || ftruncate(out->fd, (off_t)segment_bytes(out))
                   ? MAP_FAILED
                   : mmap(NULL, segment_bytes(out), PROT_READ | PROT_WRITE, MAP_SHARED, out->fd, 0);
    if (at == MAP_FAILED)
        return yk_fail(YK_ESYSTEM, "cannot create %zu bytes of shared memory: %s", segment_bytes(out),
                       strerror(errno));
    out->at = at;
    return YK_OK;
}

bool yk_segment_open(int64_t pid, int descriptor, int senders, yk_segment *out)
{
    *out = (yk_segment){.fd = -1, .senders = senders, .ring = ring_bytes(senders)};
    return (out->at = yk__memory_open(pid, descriptor, segment_bytes(out)));
}

void yk_segment_free(yk_segment *s)
{
    if (s->at) {
        munmap(s->at, segment_bytes(s));
        if (s->fd >= 0)
            close(s->fd);
    }
    *s = (yk_segment){.fd = -1};
}

size_t yk_ring_write(const yk_segment *s, int sender, const void *data, size_t n)
{
    ring *r = ring_of(s, sender);
    const uint64_t end = atomic_load_explicit(&r->written, memory_order_relaxed);
    const size_t used = (size_t)(end - atomic_load_explicit(&r->read, memory_order_acquire));
    const size_t space = used <= s->ring ? s->ring - used : 0; /* the other process may write anything */
    const size_t at = (size_t)end & (s->ring - 1);
    n = n < space ? n : space;
    const size_t first = n < s->ring - at ? n : s->ring - at;
    memcpy(r->data + at, data, first);
    memcpy(r->data, (const char *)data + first, n - first);
    atomic_store_explicit(&r->written, end + n, memory_order_release);
    return n;
}

size_t yk_ring_read(const yk_segment *s, int sender, void *out, size_t n)
{
    ring *r = ring_of(s, sender);
    const uint64_t begin = atomic_load_explicit(&r->read, memory_order_relaxed);
    const uint64_t there = atomic_load_explicit(&r->written, memory_order_acquire) - begin;
    const size_t at = (size_t)begin & (s->ring - 1);
    n = n < there ? n : (size_t)there;
    n = n < s->ring ? n : s->ring;
    const size_t first = n < s->ring - at ? n : s->ring - at;
    memcpy(out, r->data + at, first);
    memcpy((char *)out + first, r->data, n - first);
    atomic_store_explicit(&r->read, begin + n, memory_order_release);
    return n;
}

bool yk_ring_is_empty(const yk_segment *s, int sender)
{
    ring *r = ring_of(s, sender);
    return atomic_load_explicit(&r->written, memory_order_acquire) ==
           atomic_load_explicit(&r->read, memory_order_relaxed);
}

void yk_ring_notify(const yk_segment *s)
{
    atomic_fetch_add((_Atomic uint64_t *)(void *)s->at, 1);
}

uint64_t yk_segment_notified(const yk_segment *s)
{
    return atomic_load((_Atomic uint64_t *)(void *)s->at);
}
