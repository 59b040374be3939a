/* Reads the bytes of a file in order; plain, gzip, zlib or Zstandard, detected from the content. One buffer grows as needed.
 *
 * Example:
 *     yk_input *in;
 *     const uint8_t *p;
 *     size_t have;
 *     st = yk_input_open("part-1.gz", 0, &in);         // 0: byte offset, plain files only
 *     st = yk_input_peek(in, 12, &p, &have);           // at least 12 bytes at p, fewer only at the end of the file
 *     yk_input_skip(in, 12);                           // consumes at most `have` bytes
 *     yk_input_free(in);
 *
 * The path YK_STDIN is standard input, which can be read only once. If its input is freed before anything was consumed, it is
 * kept for the next yk_input_open(); otherwise, later calls fail with YK_EUSAGE.
 *
 * p is valid until the next call. Offsets count decompressed bytes. A read error and a damaged or truncated compressed stream
 * are YK_EDATA with file and offset. One thread at a time.
 */
#ifndef YK_FORMAT_INPUT_H
#define YK_FORMAT_INPUT_H

#include "format/decoder.h"
#include <sys/stat.h>

#define YK_STDIN "-"

typedef struct {
    char *path;      /* for messages */
    uint64_t offset; /* of the next byte */
    bool compressed; /* the file starts like a compressed one */
    /* A performance hint for plain files, which the caller may set: after this offset, only the rest of a record that began before it
     * will be read. Reading further works, but in small pieces. */
    uint64_t expected;
    char reason[256]; /* why the last call failed, without the path; "": nothing failed */
    /* private: */
    int fd;
    yk__decoder decoder;
    bool ended; /* the buffer has the last bytes of the file */
    yk_status failed;
    uint8_t *buffer; /* [cap and padding]: `at` consumed bytes, then `have` bytes */
    size_t cap, at, have;
    uint8_t *raw; /* compressed bytes */
    uint64_t raw_read;
    bool standard; /* standard input */
    bool regular;  /* a regular file */
} yk_input;

yk_status yk_input_open(const char *path, uint64_t begin, yk_input **out);
void yk_input_free(yk_input *in); /* NULL is fine */
/* Closes the file of the last input that was freed, which is kept open for the next yk_input_open() of the same path. */
void yk_input_forget(void);

yk_status yk_input_peek(yk_input *in, size_t want, const uint8_t **p_out, size_t *have_out);
void yk_input_skip(yk_input *in, size_t n);

/* YK_EDATA: an open file was replaced or changed since `was`. */
yk_status yk_file_unchanged(const char *path, const struct stat *was, int fd);

/* The next line, without newline or CR LF; *line_out is NULL at the end of the file. quoted: line breaks between double quotes
 * are part of the line, as in CSV; *lines_out is the number of lines that it spans. The line is valid until the next call, and
 * at least 8 bytes after it are readable. */
yk_status yk_input_line(yk_input *in, bool quoted, const char **line_out, size_t *length_out,
                        uint64_t *lines_out);

/* YK_EDATA: "PATH: at byte OFFSET: ..." */
yk_status yk_fail_at(const char *path, uint64_t offset, const char *format, ...)
    __attribute__((format(printf, 3, 4), cold));

/* Maps a whole file, read-only. It must be a regular file and not empty. The caller unmaps it with yk_fs_unmap(). */
yk_status yk_map_file(const char *path, void **map_out, size_t *size_out);

/* Whether the file starts like a compressed one. */
yk_status yk_input_compressed(const char *path, bool *compressed_out);

#endif
