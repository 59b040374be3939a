/* A disk in memory, for tests: it fails, fills up and loses power when it is told to.
 *
 *     yk_fs_memory *m = yk_fs_memory_create(seed);
 *     yk_fs_set(yk_fs_memory_fs(m));               // of this thread
 *     yk_fs_memory_cut_at(m, 7);                   // the power goes instead of the 7th change
 *     ... yk_file_create(), yk_file_close() ...    // from then on all calls fail with EIO
 *     yk_fs_memory_restart(m);                     // what the disk holds after the power cut
 *     ...
 *     yk_fs_set(NULL);
 *     yk_fs_memory_free(m);
 *
 * A power cut keeps what was synced. Of the rest the seed decides:
 *
 *     data of a file that was not synced         some of what was added, up to a sector of 512 bytes; the last sector that
 *                                                was kept may be zeros
 *     names in a directory that was not synced   its state after any change since the last sync; a rename within it is
 *                                                one change
 *
 * A file and the directory that it is in are synced apart, as POSIX has it: most file systems keep more than that.
 * There are no links, permissions or times, and files only grow: they are written at their end.
 */
#ifndef YK_BASE_FS_MEMORY_H
#define YK_BASE_FS_MEMORY_H

#include "base/fs.h"
#include <stdint.h>

typedef struct yk_fs_memory yk_fs_memory;

yk_fs_memory *yk_fs_memory_create(uint64_t seed); /* NULL: out of memory */
void yk_fs_memory_free(yk_fs_memory *m);
const yk_fs *yk_fs_memory_fs(yk_fs_memory *m);

/* Changes (writes, syncs, new files and directories, renames, removals) that were tried so far. */
uint64_t yk_fs_memory_changes(const yk_fs_memory *m);
void yk_fs_memory_cut_at(yk_fs_memory *m, uint64_t change);             /* counted from 1; 0: never */
void yk_fs_memory_fail_at(yk_fs_memory *m, uint64_t change, int error); /* that one only; 0: none */
void yk_fs_memory_room(yk_fs_memory *m, uint64_t bytes);                /* of all files; then ENOSPC */

/* After a power cut, or as if one came now: open descriptors are gone. */
void yk_fs_memory_restart(yk_fs_memory *m);

#endif
