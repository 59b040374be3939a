/* A memory segment with one ring per sender: how processes of one host send bytes to each other.
 *
 * Example:
 *     yk_segment mine, other;
 *     yk_segment_create(4, &mine);                        // in the receiver: rings for senders 0 to 3
 *     yk_segment_open(pid, descriptor, 4, &other);        // in sender 2
 *     size_t n = yk_ring_write(&other, 2, "hello", 5);    // bytes that fit
 *     yk_ring_notify(&other, 2);
 *     uint64_t senders = yk_segment_ready(&mine, 0);      // bit 2: its ring has bytes
 *     n = yk_ring_read(&mine, 2, buffer, sizeof buffer);
 *
 * The memory has no name in the file system: senders open it through /proc, and the kernel frees it when the last process
 * that maps it ends. Pages that are not used are not allocated. A ring has one reader and one writer.
 */
#ifndef YK_COMM_NATIVE_RING_H
#define YK_COMM_NATIVE_RING_H

#include "base/status.h"
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

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

/* Tells the receiver that there is something to read. */
void yk_ring_notify(const yk_segment *s, int sender);
/* Senders 64 * word + bit that have notified the receiver since the last call. */
uint64_t yk_segment_ready(const yk_segment *s, int word);

#endif
