/* The framing of TFRecord files: records of bytes, each with its length and two checksums.
 *
 *     0            8              12             12 + length    16 + length
 *     | length u64 | crc(length)  | data ...     | crc(data)    |             little endian, crc: masked CRC-32C
 *
 * The whole file may be gzip or zlib, which yk_input decompresses. TensorBoard's event files have the same framing.
 *
 * Example:
 *     yk_tfr rec;
 *     while (!(st = yk_tfr_next(in, &rec)) && rec.kind == YK_TFR_RECORD)
 *         use(rec.data, rec.size);                       // borrowed until the next call on `in`
 *     st = yk_tfr_write(file, data, size);               // the caller opens and closes the file
 *
 * A damaged frame is a kind of record, not an error: the caller decides what to do. One thread at a time per input or file.
 */
#ifndef YK_FORMAT_TFRECORD_H
#define YK_FORMAT_TFRECORD_H

#include "base/file.h"
#include "base/status.h"
#include "format/input.h"

#define YK_TFR_HEADER 12
#define YK_TFR_FRAME  16                        /* header, and checksum after the data */
#define YK_TFR_MAX    (((uint64_t)1 << 31) - 1) /* data of a record; protobuf has the same limit */

typedef enum {
    YK_TFR_RECORD,     /* data and size are set; the record is consumed */
    YK_TFR_END,        /* the end of the file */
    YK_TFR_BAD_DATA,   /* wrong checksum of the data; the record is consumed */
    YK_TFR_BAD_LENGTH, /* wrong checksum of the length, or too long; nothing is consumed: see yk_tfr_resync */
    YK_TFR_TRUNCATED,  /* the file ends within the record; nothing is consumed */
} yk_tfr_kind;

typedef struct {
    yk_tfr_kind kind;
    uint64_t offset;     /* of the header */
    const uint8_t *data; /* followed by at least 8 readable bytes */
    size_t size;
    char reason[120]; /* of damage, without file and offset */
} yk_tfr;

/* Fails only if the input fails; rec->offset is set even then. */
yk_status yk_tfr_next(yk_input *in, yk_tfr *rec);

/* Skips to the first record that begins before `limit` and whose two checksums are correct. Damaged records are skipped. */
yk_status yk_tfr_resync(yk_input *in, uint64_t limit, bool *found_out);

/* Whether a record, in the sense of yk_tfr_resync(), begins at the current offset. */
yk_status yk_tfr_is_record(yk_input *in, bool *here_out);

/* Whether 12 bytes are the header of a record. */
bool yk_tfr_header(const uint8_t *p, uint64_t *length_out);

/* Appends a record. */
yk_status yk_tfr_write(yk_file *file, const void *data, size_t size);

#endif
