/* A disk in memory, for tests: it fails, fills up and loses power on request.
 *
 *     yk_fs_memory *m = yk_fs_memory_create(seed);
 *     yk_fs_set(yk_fs_memory_fs(m));               // for this thread
 *     yk_fs_memory_cut_at(m, 7);                   // a power failure instead of the 7th change
 *     ... yk_file_create(), yk_file_close() ...    // from then on all calls fail with EIO
 *     yk_fs_memory_restart(m);                     // what the disk holds after the power cut
 *     ...
 *     yk_fs_set(NULL);
 *     yk_fs_memory_free(m);
 *
 * A power failure keeps what was synced. The seed decides about the rest:
 *
 *     data of a file that was not synced         some of what was added, up to a sector of 512 bytes; the last sector that
 *                                                was kept may be zeros
 *     names in a directory that was not synced   its state after any change since the last sync; a rename within it is
 *                                                one change
 *
 * A file and its directory are synced separately, as in POSIX; most real file systems keep more. There are no links,
 * permissions or times. Files are only appended to.
 */
#ifndef YK_BASE_FS_MEMORY_H
#define YK_BASE_FS_MEMORY_H

#include "base/fs.h"
#include <stdint.h>

typedef struct yk_fs_memory yk_fs_memory;

yk_fs_memory *yk_fs_memory_create(uint64_t seed); /* NULL: out of memory */
void yk_fs_memory_free(yk_fs_memory *m);
const yk_fs *yk_fs_memory_fs(yk_fs_memory *m);

/* Changes (writes, syncs, new files and directories, renames, removals) attempted so far. */
uint64_t yk_fs_memory_changes(const yk_fs_memory *m);
void yk_fs_memory_cut_at(yk_fs_memory *m, uint64_t change);             /* counted from 1; 0: never */
void yk_fs_memory_fail_at(yk_fs_memory *m, uint64_t change, int error); /* only that change; 0: none */
void yk_fs_memory_capacity(yk_fs_memory *m, uint64_t bytes); /* for all files; beyond that ENOSPC */

/* After a power failure, or simulates one now. Open descriptors become invalid. */
void yk_fs_memory_restart(yk_fs_memory *m);

#endif
