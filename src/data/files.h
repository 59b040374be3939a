/* Which files a spec means, and how they are cut into blocks that can be read on their own.
 *
 *     yk_files f;
 *     st = yk_files_find("logs/part-*.gz", &f);            // a file, a directory's files, or a glob; sorted
 *     st = yk_files_blocks(&f, YK_BLOCK_BYTES, true);      // true: plain files may be cut anywhere
 *     f.block[3].path, .begin, .end                        // records that begin in [begin, end) belong to block 3
 *     yk_files_fini(&f);
 *
 * A record belongs to the block in which its first byte lies; the reader that starts in the middle of a file looks for
 * the first record that begins at or after `begin`. Compressed files are one block each. Nothing found, a directory
 * without files, an unreadable file: YK_EDATA with the pattern or the path.
 */
#ifndef YK_DATA_FILES_H
#define YK_DATA_FILES_H

#include "base/status.h"
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define YK_BLOCK_BYTES ((uint64_t)1 << 20)

typedef struct {
    const char *path;    /* borrowed from the list */
    uint64_t begin, end; /* end is UINT64_MAX for a compressed file */
} yk_file_block;

typedef struct {
    size_t n;
    char **path;    /* [n] sorted; owned */
    uint64_t *size; /* [n] bytes on disk */
    uint64_t bytes; /* their sum */
    size_t path_cap, size_cap, block_cap;
    size_t nblocks;
    yk_file_block *block; /* [nblocks]; owned */
} yk_files;

yk_status yk_files_find(const char *pattern, yk_files *out);
yk_status yk_files_add(yk_files *f, const char *path); /* one more file, behind those that are there */
yk_status yk_files_blocks(yk_files *f, uint64_t block_bytes, bool splittable);
void yk_files_fini(yk_files *f);

#endif
