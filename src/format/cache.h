/* The binary cache: rows (core/rows.h) in a file, laid out as in memory, so that loading it means mapping it.
 *
 *     offset  size   all numbers are little endian
 *          0     8   magic "YKCACHE1"
 *          8     4   version: 1; 2 or 3 with field numbers; 4 with a schema; 5 with weights or targets, and perhaps a schema
 *         12     4   kind: 0 u8, 1 f32, 2 sparse     (yk_rows_kind)
 *         16     8   n, rows
 *         24     8   dim, columns
 *         32     8   entries of all rows; dense: n * dim
 *         40     4   classes
 *         44     4   scale, f32: the factor from u8 to value
 *         48    12   height, width, channels; 0 if the rows are not images
 *         60     4   zero
 *         64   144   six arrays, 24 each:  offset u64 | size in bytes u64 | CRC-32C u32 | zero u32
 *        208     8   size of the file
 *        216    24   array 6 (field) in the same form; version 1: zero
 *        240     4   versions 3 to 5: fields, the exclusive upper bound of field numbers; zero: not known
 *        244     4   versions 4 and 5: size of the schema; otherwise zero
 *        248     4   versions 4 and 5: CRC-32C of the schema; otherwise zero
 *        252     4   CRC-32C of the preceding 252 bytes
 *        256    48   version 5: arrays 7 and 8 in the same form
 *        304     4   version 5: CRC-32C of these 48 bytes
 *        256 or 320  the arrays that exist, in this order, each at the next multiple of 64:
 *
 *     0 dense  u8 or f32 [n][dim]                 3 index  u32 [entries]   sparse
 *     1 label  i32 [n]                            4 value  f32 [entries]   sparse, omitted if all are 1
 *     2 start  u64 [n + 1]   sparse               5 truth  f32 [n]         omitted if not known
 *     7 weight f32 [n]       omitted if all are 1    6 field  u16 [entries]   sparse, omitted if there are none
 *     8 target f32 [n]       omitted if labels are classes
 *
 * The schema, JSON (data/schema.h) followed by a zero byte, begins at the next multiple of 64, and ends the file. The
 * shape must be known before the first row is written, so writing a stream takes two passes.
 *
 * Example:
 *     yk_rows rows;
 *     yk_cache_shape shape;
 *     st = yk_cache_map("clicks.cache", &rows, &shape);       // checks sizes, offsets, labels and indices
 *     st = yk_cache_check("clicks.cache", &rows);             // checks every checksum
 *     st = yk_cache_verify("clicks.cache");                   // also checks every value: slower
 *     yk_cache_writer *w;
 *     st = yk_cache_create("copy.cache", &shape, &w);
 *     st = yk_cache_add(w, &rows);                            // as often as needed; shape.n rows in total
 *     st = yk_cache_close(w, st);                             // frees it; the file appears now, or not at all
 *     yk_rows_fini(&rows);                                    // unmaps the file
 *
 * Mapped rows are read-only, for any number of threads; a writer belongs to one thread. Damage is YK_EDATA with file, offset
 * and reason. If another process truncates a mapped file, the program is killed by SIGBUS: replace the file by renaming, as
 * the writer does.
 */
#ifndef YK_FORMAT_CACHE_H
#define YK_FORMAT_CACHE_H

#include "base/status.h"
#include "core/rows.h"

#define YK_CACHE_MAGIC  "YKCACHE1"
#define YK_CACHE_HEADER 256

typedef struct {
    uint64_t offset, size;
    uint32_t crc, zero;
} yk_cache_array;

typedef struct {
    char magic[8];
    uint32_t version, kind;
    uint64_t n, dim, entries;
    uint32_t classes;
    float scale;
    uint32_t height, width, channels, zero;
    yk_cache_array dense, label, start, index, value, truth;
    uint64_t file_size;
    yk_cache_array field;
    uint32_t fields;                  /* exclusive upper bound of field numbers; 0: not known, or no fields */
    uint32_t schema_size, schema_crc; /* with the zero byte; 0: none */
    uint32_t crc;
    /* version 5 */
    yk_cache_array weight, target;
    uint32_t more_crc, more_zero[3];
} yk_cache_header;
_Static_assert(offsetof(yk_cache_header, weight) == YK_CACHE_HEADER && sizeof(yk_cache_header) == 320,
               "as drawn above");

typedef struct {
    yk_cache_header header; /* to write a file: kind to channels, fields and schema_size */
    unsigned arrays;        /* bit YK_ROWS_VALUE: with values; likewise the other optional arrays */
    const char *schema;     /* [header.schema_size]; NULL: none. Borrowed; of a mapped file: from it */
} yk_cache_shape;

/* Completes the header, except for the checksums. YK_EDATA: too large for a file. */
yk_status yk__cache_layout(const char *path, yk_cache_shape *shape);

yk_status yk_cache_map(const char *path, yk_rows *rows_out, yk_cache_shape *shape_out);
yk_status yk_cache_check(const char *path, const yk_rows *mapped);
yk_status yk_cache_verify(const char *path);

typedef struct yk_cache_writer yk_cache_writer;

/* The path is borrowed until yk_cache_close(). */
yk_status yk_cache_create(const char *path, const yk_cache_shape *shape, yk_cache_writer **out);
yk_status yk_cache_add(yk_cache_writer *w, const yk_rows *rows);
yk_status yk_cache_close(yk_cache_writer *w, yk_status so_far);

#endif
