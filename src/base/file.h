/* Writing files so that no reader ever sees an incomplete one.
 *
 * Example:
 *     yk_file *f;
 *     yk_status st = yk_file_create_in(NULL, "run/model.safetensors", &f); // opens a temporary file next to it
 *     if (st)
 *         return st;
 *     st = yk_file_write(f, data, size); // as often as needed; buffered
 *     st = yk_file_close(f, st);         // if st is YK_OK: fsync, rename, fsync the directory
 *
 * yk_file_close() frees f in any case. If it is passed an error, it removes the temporary file, leaves an existing
 * file unchanged, and returns that error. So one line ends both the success and the failure path.
 *
 *     run/model.safetensors.4711-0.tmp  --close-->  run/model.safetensors     replaces the old file atomically
 *
 * Logs (metrics.jsonl, TensorBoard events) are opened with yk_file_append_in(): the same calls, without a temporary file. An
 * existing path that is not a regular file (a pipe) or is a link to standard output (/dev/stdout) is written in place as well. Other
 * links stay: what they name is replaced.
 *
 * Files below a directory that yoke owns are opened with yk_file_create_in() and yk_file_append_in(): these follow no
 * links below `dir` (base/dir.h), and an existing file must be a regular file.
 *
 * A failed system call is YK_ESYSTEM, with a message that names the path and says what to do. The first error is kept:
 * later writes do nothing and return it again, so a caller may check only at the end. One thread at a time per file.
 */
#ifndef YK_BASE_FILE_H
#define YK_BASE_FILE_H

#include "base/dir.h"
#include "base/status.h"
#include <stdbool.h>
#include <sys/types.h>

typedef struct yk_file yk_file;

/* close() replaces DIR/NAME. dir NULL: `name` is a path that the user gave. */
yk_status yk_file_create_in(const char *dir, const char *name, yk_file **out);
/* Whether that writes to NAME in place: a pipe, a device, or /dev/stdout, even if it is a file. */
bool yk_file_is_stream(const char *path);
/* Appends to DIR/NAME, or to NAME if dir is NULL, in place. */
yk_status yk_file_append_in(const char *dir, const char *name, yk_file **out);

yk_status yk_file_write(yk_file *f, const void *data, size_t size);
yk_status yk_file_write_at(yk_file *f, const void *data, size_t size, uint64_t offset); /* not buffered */
yk_status yk_file_print(yk_file *f, const char *format, ...) __attribute__((format(printf, 2, 3)));
yk_status yk_file_flush(yk_file *f);        /* writes the buffer out: other processes see it */
uint64_t yk_file_written(const yk_file *f); /* bytes so far, through this handle */

/* Completes the file (`so_far` is YK_OK) or discards it; returns the first error. Frees f; NULL returns so_far. */
yk_status yk_file_close(yk_file *f, yk_status so_far);

/* Writes a whole file: create_in, print, close. */
yk_status yk_file_save(const char *dir, const char *name, const char *format, ...)
    __attribute__((format(printf, 3, 4)));
/* The same for a secret: only the owner can read the file. */
yk_status yk_file_save_private(const char *dir, const char *name, const char *text);

/* Opens a file in an untrusted directory for reading, but only if it is a regular file of at most `max` bytes: a link
 * could point to any file, a FIFO or a device could block, and a huge file could take hours. Anything else is YK_EDATA.
 * *fd_out is -1 if the file is missing; the caller closes it. */
yk_status yk_file_open_regular(const char *path, uint64_t max, int *fd_out);

/* Reads the start of a small file, such as one in /proc, as text. The path is formatted. False: `out` is empty, because
 * the file is empty or cannot be read. */
bool yk_file_text(char *out, size_t size, const char *path_format, ...) __attribute__((format(printf, 3, 4)));

#endif
