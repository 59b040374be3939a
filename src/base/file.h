/* Writing files so that nobody ever sees half of one.
 *
 *     yk_file *f;
 *     if ((st = yk_file_create("run/model.safetensors", &f)))   // a temporary file beside it
 *         return st;
 *     st = yk_file_write(f, data, size);                        // as often as needed; buffered
 *     st = yk_file_close(f, st);                                // OK so far: fsync, rename, fsync the folder
 *
 * yk_file_close() takes the file in any case: with an error passed in it only cleans up (the temporary file
 * goes, what was there before stays) and returns that error, so one line ends both the good and the bad way.
 *
 *     run/model.safetensors.4711-0.tmp  --close-->  run/model.safetensors     the old one is replaced at once
 *
 * Logs that grow (metrics.jsonl, TensorBoard events) are opened with yk_file_append() instead: the same calls,
 * no temporary file. A path that is there but is no regular file (a pipe, /dev/stdout) is written in place too.
 *
 * Files below a directory that yoke owns are opened with yk_file_create_in() and yk_file_append_in(): these follow no
 * links below `dir` (base/dir.h), and an existing file must be a regular file.
 *
 * The system's refusals are YK_ESYSTEM and name the path and what to do about it. The first error sticks: later
 * writes do nothing and return it again, so a caller may check at the end only. One thread at a time per file.
 */
#ifndef YK_BASE_FILE_H
#define YK_BASE_FILE_H

#include "base/dir.h"
#include "base/status.h"
#include <stddef.h>
#include <stdint.h>

typedef struct yk_file yk_file;

yk_status yk_file_create(const char *path, yk_file **out); /* replaces `path` when it is closed well */
yk_status yk_file_append(const char *path, yk_file **out); /* adds to the end of `path`, in place */
yk_status yk_file_create_in(const char *dir, const char *name,
                            yk_file **out); /* dir NULL: yk_file_create(name) */
yk_status yk_file_append_in(const char *dir, const char *name, yk_file **out);

yk_status yk_file_write(yk_file *f, const void *data, size_t size);
yk_status yk_file_print(yk_file *f, const char *format, ...) __attribute__((format(printf, 2, 3)));
yk_status yk_file_flush(yk_file *f);        /* hands the buffer to the system: other processes see it */
uint64_t yk_file_written(const yk_file *f); /* bytes so far, through this handle */

/* Ends it, well (`so_far` is YK_OK) or badly; returns the first error. f is taken; NULL returns so_far. */
yk_status yk_file_close(yk_file *f, yk_status so_far);

/* Opens a new file NAME.PID-N.tmp in an open directory (AT_FDCWD: the current one), for callers that write the data
 * themselves. Returns -1 and sets errno on failure. The caller frees the name. */
int yk_file_temp(int folder, const char *name, char **temp_out);

/* Opens a file in an untrusted folder for reading, but only if it is a regular file of at most `most` bytes: a link
 * could lead to any file, a FIFO or a device could block, and a huge file could take hours. Anything else is YK_EDATA.
 * *fd_out is -1 if the file is missing; the caller closes it. */
yk_status yk_file_open_plain(const char *path, uint64_t most, int *fd_out);

#endif
