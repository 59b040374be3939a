/* Bytes of a file in order, plain, gzip or zlib (recognised by content), through one buffer that grows as needed.
 *
 *     yk_input *in;
 *     st = yk_input_open(path, begin, &in);            // begin: byte offset, plain files only
 *     const uint8_t *p; size_t have;
 *     st = yk_input_peek(in, 12, &p, &have);           // at least 12 bytes at p, fewer only at the end of the file
 *     yk_input_skip(in, 12);                           // consumed; at most `have`
 *     yk_input_free(in);
 *
 * What p points at stays valid until the next peek. Offsets count decompressed bytes. One thread at a time. A read
 * error, a damaged or truncated compressed stream is YK_EDATA and names the file and the offset.
 *
 * For tests: with YK_SLOW_READ=BYTES in the environment, each file is read at no more than so many bytes per second.
 */
#ifndef YK_FORMAT_INPUT_H
#define YK_FORMAT_INPUT_H

#include "base/status.h"
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

typedef struct yk_input yk_input;

yk_status yk_input_open(const char *path, uint64_t begin, yk_input **out);
void yk_input_free(yk_input *in); /* NULL is fine */

yk_status yk_input_peek(yk_input *in, size_t want, const uint8_t **p_out, size_t *have_out);
void yk_input_skip(yk_input *in, size_t n);
uint64_t yk_input_offset(const yk_input *in); /* of the next byte that peek shows */
const char *yk_input_path(const yk_input *in);

/* A promise for speed: bytes at and after `end` (of a plain file) will hardly be wanted, only the rest of a record that
 * began before it. Reading past it works, in small pieces. */
void yk_input_expect(yk_input *in, uint64_t end);

/* Why the last call failed, without the path, for a message that has it already; "" when nothing failed. Borrowed. */
const char *yk_input_reason(const yk_input *in);

/* The next line without its newline (and without a carriage return before it); *line_out is NULL at the end of the
 * file. The line is valid until the next call and is followed by at least 8 readable bytes. */
yk_status yk_input_line(yk_input *in, const char **line_out, size_t *length_out);

/* True when the file begins like a gzip or zlib stream. Unreadable: YK_EDATA. */
yk_status yk_input_compressed(const char *path, bool *compressed_out);

#endif
