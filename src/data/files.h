/* The files of a spec, divided into blocks that can be read independently.
 *
 * Example:
 *     yk_files f;
 *     st = yk_files_find("logs/part-*.gz", &f);            // a file, the files of a directory, a pattern, or several
 *     st = yk_files_blocks(&f, YK_BLOCK_BYTES);
 *     yk_file_block b = f.block[3];                        // records that begin in [b.begin, b.end) of b.path
 *     yk_files_fini(&f);
 *
 * Several files, directories and patterns are separated by commas. The files of each are sorted, and duplicates (also links
 * to the same file) are dropped, so that every example is read once. YK_STDIN (format/input.h) is one block of unknown size.
 *
 * Plain files are divided at any byte. A record belongs to the block that holds its first byte; a reader that starts in the
 * middle of a file searches for the first record that begins at or after `begin`. A compressed file is one block. A pattern
 * without matches, a directory without files and an unreadable file are YK_EDATA. The list is owned by the caller; any thread
 * may read it.
 */
#ifndef YK_DATA_FILES_H
#define YK_DATA_FILES_H

#include "base/arena.h"
#include "format/input.h"

#define YK_BLOCK_BYTES ((uint64_t)1 << 20)

typedef struct {
    size_t file;         /* its number */
    const char *path;    /* borrowed from yk_files */
    uint64_t begin, end; /* end is UINT64_MAX for a compressed file */
} yk_file_block;

typedef struct {
    yk_arena paths;
    size_t n;
    char **path;        /* [n] those of `paths`, without repeated ones */
    struct stat *state; /* [n] when the files were found; owned. NULL: standard input */
    uint64_t bytes;     /* the sum of their bytes */
    size_t state_cap, block_cap;
    size_t nblocks;
    yk_file_block *block; /* [nblocks]; owned */
} yk_files;

yk_status yk_files_find(const char *pattern, yk_files *out);
yk_status yk_files_add(yk_files *f, const char *path); /* appends one file */
yk_status yk_files_require(const char *path);          /* an error if there is no such file or directory */
yk_status yk_files_blocks(yk_files *f, uint64_t block_bytes);

/* YK_EDATA: the open file is not the one that was found as file number `file`, or has changed since. */
yk_status yk_files_unchanged(const yk_files *f, size_t file, const yk_input *in);
void yk_files_fini(yk_files *f);

/* ---- internal to data/ */

typedef struct {
    size_t n, cap;
    char **name; /* owned */
} yk__names;

/* Lists the subdirectories (`directories`) or the regular files of a directory that are not hidden and that `wanted` (NULL:
 * all) accepts; at most `max`, sorted. */
yk_status yk__names_list(const char *path, bool directories, bool (*wanted)(const char *name), size_t max,
                         yk__names *out);
yk_status yk__names_add(yk__names *names, const char *name, size_t n);
void yk__names_fini(yk__names *names);

/* Whether the name ends in one of the suffixes, ignoring case, and is longer than the suffix. The list ends with NULL. */
bool yk__has_suffix(const char *name, const char *const *suffixes);
char *yk__path_join(const char *directory, const char *name); /* the caller frees it; NULL: out of memory */
bool yk__is_directory(const char *path);

/* DIRECTORY/NAME or DIRECTORY/NAME.gz, whichever exists. The caller frees *path_out; NULL: neither exists. */
yk_status yk__find_plain_or_gz(const char *directory, const char *name, char **path_out);

#endif
