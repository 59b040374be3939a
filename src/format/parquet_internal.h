/* Internal to format/: what the files of the Parquet reader share (parquet.h). Stateless, or one thread at a time. */
#ifndef YK_FORMAT_PARQUET_INTERNAL_H
#define YK_FORMAT_PARQUET_INTERNAL_H

#include "format/parquet.h"

enum {
    YK__PQ_BOOLEAN,
    YK__PQ_INT32,
    YK__PQ_INT64,
    YK__PQ_INT96,
    YK__PQ_FLOAT,
    YK__PQ_DOUBLE,
    YK__PQ_BYTES,
    YK__PQ_FIXED
};
enum {
    YK__PQ_PLAIN = 0,
    YK__PQ_PLAIN_DICTIONARY = 2,
    YK__PQ_RLE = 3,
    YK__PQ_DELTA = 5,
    YK__PQ_RLE_DICTIONARY = 8
};
enum { YK__PQ_RAW = 0, YK__PQ_SNAPPY = 1, YK__PQ_GZIP = 2, YK__PQ_ZSTD = 6 };
enum { YK__PQ_DATA = 0, YK__PQ_INDEX = 1, YK__PQ_DICTIONARY = 2, YK__PQ_DATA_V2 = 3 };
enum { YK__PQ_PAD = 8 }; /* readable bytes after a page */

/* Names of the format; NULL: not known. */
const char *yk__pq_encoding_name(int64_t encoding);
const char *yk__pq_codec_name(int64_t codec);

/* ---- parquet_footer.c */

typedef struct {
    int64_t type, bytes, compressed; /* compressed: bytes in the file */
    int64_t crc;                     /* of the compressed bytes; INT64_MIN: none */
    int64_t values, encoding, level_encoding;
    int64_t level_bytes, repetition_bytes; /* version 2 */
    int64_t is_compressed;
} yk__pq_page;

/* Parses the header at p, and returns what follows it. NULL: it is malformed, or *truncated_out: it needs more than n bytes. */
const uint8_t *yk__pq_page_header(const uint8_t *p, size_t n, yk__pq_page *out, bool *truncated_out);

/* ---- parquet_codec.c */

/* Created when they are needed. */
typedef struct {
    struct ZSTD_DCtx_s *zstd;
    struct libdeflate_decompressor *deflate;
} yk__pq_codecs;

/* Decompresses a page into exactly `size` bytes at `to`. YK_EDATA: the data is damaged. */
yk_status yk__pq_decompress(yk__pq_codecs *c, int codec, const uint8_t *from, size_t n, uint8_t *to,
                            size_t size);
void yk__pq_codecs_fini(yk__pq_codecs *c);

/* Whether n compressed bytes can expand to `size` bytes, so that a small file cannot request much memory. */
bool yk__pq_can_expand(int codec, size_t n, size_t size);

/* ---- parquet_values.c. Decoders continue where the last call ended. The bytes are
 * followed by YK__PQ_PAD readable ones. */

/* The mix of runs and bit-packed groups that levels, indices and booleans use. */
typedef struct {
    const uint8_t *next, *end; /* the next run begins at `next` */
    unsigned width;            /* bits, at most 32 */
    uint64_t run;              /* values left of the current run */
    bool packed;               /* they are in `data`, from bit `bit` on; otherwise all are `value` */
    const uint8_t *data;
    uint64_t bit;
    uint32_t value;
} yk__pq_hybrid;

yk_status yk__pq_hybrid_read(yk__pq_hybrid *h, uint32_t *out, size_t n);

/* If the next n values are one run, takes them, and returns its value; otherwise -1. */
int64_t yk__pq_hybrid_same(yk__pq_hybrid *h, size_t n);

/* DELTA_BINARY_PACKED: integers as differences, bit-packed in blocks. */
typedef struct {
    const uint8_t *p, *end;
    uint64_t left;            /* values */
    uint64_t last, min_delta; /* modulo 2^64 */
    uint64_t minis, per_mini; /* parts of a block, and values of each */
    uint64_t mini, at;        /* the current part, and the values of it that were read */
    const uint8_t *widths;    /* [minis] */
    bool started;
} yk__pq_delta;

yk_status yk__pq_delta_open(yk__pq_delta *d, const uint8_t *p, const uint8_t *end);
yk_status yk__pq_delta_read(yk__pq_delta *d, int64_t *out, size_t n);

/* PLAIN numbers of a physical type, converted to int64_t or double; *p moves on. */
yk_status yk__pq_plain_read(uint8_t physical, bool is_unsigned, const uint8_t **p, const uint8_t *end,
                            void *out, size_t n);
yk_status yk__pq_plain_texts(const uint8_t **p, const uint8_t *end, yk_parquet_text *out, size_t n);

/* Moves n dense values of 8 or 4 bytes to where `valid` is 1; the others become 0. `dense` is the number of ones. */
void yk__pq_spread(void *values, size_t width, const uint8_t *valid, size_t n, size_t dense);

#endif
