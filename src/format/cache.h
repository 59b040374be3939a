/* The binary cache: rows (base/rows.h) in a file, laid out as in memory, so that loading them is a mapping.
 *
 *     offset  size
 *          0     8   magic "YKCACHE1"
 *          8     4   version, 1; with field numbers 2   all little endian
 *         12     4   kind: 0 u8, 1 f32, 2 sparse     (yk_rows_kind)
 *         16     8   n, rows
 *         24     8   dim, columns
 *         32     8   entries: of all rows together; dense: n * dim
 *         40     4   classes
 *         44     4   scale, f32: what a u8 is multiplied with
 *         48    12   height, width, channels; 0 where they are no images
 *         60     4   zero
 *         64   144   six arrays, 24 each:  offset u64 | size in bytes u64 | CRC-32C u32 | zero u32
 *        208     8   size of the file
 *        216    24   version 2: array 6, field, in the same form; version 1: zero
 *        240    12   zero
 *        252     4   CRC-32C of the 252 bytes before
 *        256         the arrays that are there, in this order, each at the next multiple of 64:
 *
 *     0 dense  u8 or f32 [n][dim]                 3 index  u32 [entries]   sparse
 *     1 label  i32 [n]                            4 value  f32 [entries]   sparse, left out where all are 1
 *     2 start  u64 [n + 1]   sparse               5 truth  f32 [n]         left out where it is not known
 *                                                 6 field  u16 [entries]   sparse, left out where there are none
 *
 * Reading:
 *     yk_rows rows; yk_cache_shape shape;
 *     st = yk_cache_map("clicks.cache", &rows, &shape);       // checks all that could lead out of the arrays
 *     st = yk_cache_verify("clicks.cache");                   // and this every checksum and value: slower
 *     yk_rows_fini(&rows);                                    // unmaps
 *
 * Writing: the shape has to be known before the first row, so a stream is gone through twice.
 *     st = yk_cache_create("clicks.cache", &shape, &w);
 *     st = yk_cache_add(w, &rows);                            // as often as needed; shape.n rows in all
 *     st = yk_cache_close(w, st);                             // takes it; the file appears only now, or not at all
 *
 * Mapped rows are read-only memory for any number of threads. Damage is YK_EDATA with file, offset and
 * reason. A file that another process cuts short while it is mapped ends the program (SIGBUS); replace it by
 * renaming, as the writer does.
 */
#ifndef YK_FORMAT_CACHE_H
#define YK_FORMAT_CACHE_H

#include "base/rows.h"
#include "base/status.h"

#define YK_CACHE_MAGIC  "YKCACHE1"
#define YK_CACHE_HEADER 256

enum {
    YK_CACHE_DENSE,
    YK_CACHE_LABEL,
    YK_CACHE_START,
    YK_CACHE_INDEX,
    YK_CACHE_VALUE,
    YK_CACHE_TRUTH,
    YK_CACHE_FIELD,
    YK_CACHE_ARRAYS
};

typedef struct {
    yk_rows_kind kind;
    uint64_t n, dim, entries;
    uint32_t classes;
    float scale;
    uint32_t height, width, channels;
    bool has_value, has_truth, has_field;
} yk_cache_shape;

typedef struct {
    uint64_t offset, size;
    uint32_t crc, zero;
} yk_cache_array;

/* The header as it lies in the file. */
typedef struct {
    char magic[8];
    uint32_t version, kind;
    uint64_t n, dim, entries;
    uint32_t classes;
    float scale;
    uint32_t height, width, channels, zero;
    yk_cache_array array[YK_CACHE_FIELD]; /* those of version 1 */
    uint64_t file_size;
    yk_cache_array field;
    uint8_t zeros[12];
    uint32_t crc;
} yk_cache_header;
_Static_assert(sizeof(yk_cache_header) == YK_CACHE_HEADER, "as drawn above");

/* Where array `i` begins in the header. */
static inline size_t yk__cache_entry(int i)
{
    return i == YK_CACHE_FIELD ? offsetof(yk_cache_header, field)
                               : offsetof(yk_cache_header, array) + (size_t)i * sizeof(yk_cache_array);
}

static inline yk_cache_array *yk__cache_array(const yk_cache_header *h, int i)
{
    return (yk_cache_array *)((char *)h + yk__cache_entry(i));
}

/* The header for a shape, its checksums still zero: where the arrays go. YK_EDATA: too large for any file. */
yk_status yk__cache_layout(const char *path, const yk_cache_shape *shape, yk_cache_header *out);

yk_status yk_cache_map(const char *path, yk_rows *rows_out, yk_cache_shape *shape_out);
yk_status yk_cache_verify(const char *path);

typedef struct yk_cache_writer yk_cache_writer;

yk_status yk_cache_create(const char *path, const yk_cache_shape *shape, yk_cache_writer **out);
yk_status yk_cache_add(yk_cache_writer *w, const yk_rows *rows);
yk_status yk_cache_close(yk_cache_writer *w, yk_status so_far);

#endif
