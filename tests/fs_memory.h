/* A disk in memory, for tests: it fails, fills up and loses power on request.
 *
 *     yk_fs_memory *m = yk_fs_memory_create(seed);
 *     yk_fs_set(yk_fs_memory_fs(m));               // for this thread
 *     yk_fs_memory_cut_at(m, 7);                   // a power failure instead of the 7th change
 *     ... yk_file_create_in(), yk_file_close() ...    // from then on all calls fail with EIO
 *     yk_fs_memory_restart(m);                     // the disk has its contents after the power cut
 *     ...
 *     yk_fs_set(NULL);
 *     yk_fs_memory_free(m);
 *
 * Synced data survives a power failure. The seed decides what happens to the rest:
 *
 *     data of a file that was not synced         some of the added data, up to a sector of 512 bytes; the last sector that
 *                                                was kept may be zeros
 *     names in a directory that was not synced   its state after any change since the last sync; a rename within it is
 *                                                one change
 *
 * Absolute paths are read from the real disk, where tests have their data.
 *
 * A file and its directory are synced separately, as in POSIX; most real file systems keep more. There are no links,
 * permissions or times. Files are only appended to.
 */
#ifndef YK_TESTS_FS_MEMORY_H
#define YK_TESTS_FS_MEMORY_H

#include "base/fs.h"
#include "base/rng.h"
#include <errno.h>
#include <fcntl.h>
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

enum { FIRST_FD = 1 << 20, MAX_OPEN = 256, SECTOR = 512 };

typedef struct node node;

typedef struct {
    char *name;
    node *node;
} entry;

/* The entries of a directory after one change. */
typedef struct {
    entry *entry;
    size_t n;
} dir_names;

struct node {
    node *next; /* list of all nodes ever created */
    bool is_dir;
    unsigned char *data;
    size_t size, synced; /* bytes in total; bytes that are certainly on the disk */
    dir_names *state; /* of a directory: its states since the last sync; the last one is the current state */
    size_t nstates;
};

typedef struct {
    node *node; /* NULL: free */
    bool locked;
} handle;

typedef struct {
    yk_fs fs;
    yk_rng rng;
    node *nodes, *root;
    handle open[MAX_OPEN];
    uint64_t changes, cut_at, fail_at, room, used;
    int fail_with;
    bool is_off;                          /* without power */
    bool kept;                            /* the change that failed was a removal */
    void (*before_change)(void *context); /* for simulations, where a change takes time; NULL: none */
    void *context;
} yk_fs_memory;

static int refuse(int error)
{
    errno = error;
    return -1;
}

/* Before a change: other threads may change the disk meanwhile. */
static void take_time(const yk_fs_memory *m)
{
    if (m->before_change)
        m->before_change(m->context);
}

/* Whether a change can be made now; else errno. */
static bool may_change(yk_fs_memory *m)
{
    m->changes++;
    if (m->cut_at && m->changes >= m->cut_at)
        m->is_off = true;
    if (!m->is_off && m->changes != m->fail_at)
        return true;
    errno = m->is_off ? EIO : m->fail_with;
    return false;
}

/* ---- directories ---- */

static dir_names *seen(const node *dir)
{
    return &dir->state[dir->nstates - 1];
}

static entry *look_up(const node *dir, const char *name, size_t length)
{
    const dir_names *now = seen(dir);
    for (size_t i = 0; i < now->n; i++)
        if (strlen(now->entry[i].name) == length && memcmp(now->entry[i].name, name, length) == 0)
            return &now->entry[i];
    return NULL;
}

static void names_fini(dir_names *s)
{
    for (size_t i = 0; i < s->n; i++)
        free(s->entry[i].name);
    free(s->entry);
}

/* Adds a state: without `gone`, and with `name` referring to `added`; either may be NULL. */
static bool change(node *dir, const char *gone, const char *name, node *added)
{
    const dir_names *before = seen(dir);
    dir_names after = {calloc(before->n + 1, sizeof *after.entry), 0};
    bool ok = after.entry != NULL;
    for (size_t i = 0; ok && i < before->n; i++) {
        const entry *e = &before->entry[i];
        if ((gone && strcmp(e->name, gone) == 0) || (name && strcmp(e->name, name) == 0))
            continue;
        after.entry[after.n] = (entry){strdup(e->name), e->node};
        ok = after.entry[after.n++].name != NULL;
    }
    if (ok && name) {
        after.entry[after.n] = (entry){strdup(name), added};
        ok = after.entry[after.n++].name != NULL;
    }
    dir_names *more = ok ? realloc(dir->state, (dir->nstates + 1) * sizeof *more) : NULL;
    if (!more) {
        names_fini(&after);
        errno = ENOMEM;
        return false;
    }
    dir->state = more;
    dir->state[dir->nstates++] = after;
    return true;
}

/* Only state number `k` remains. */
static void commit(node *dir, size_t k)
{
    for (size_t i = 0; i < dir->nstates; i++)
        if (i != k)
            names_fini(&dir->state[i]);
    dir->state[0] = dir->state[k];
    dir->nstates = 1;
}

static node *add_node(yk_fs_memory *m, bool is_dir)
{
    node *n = calloc(1, sizeof *n);
    if (n && is_dir && !(n->state = calloc(1, sizeof *n->state))) {
        free(n);
        n = NULL;
    }
    if (!n) {
        errno = ENOMEM;
        return NULL;
    }
    n->is_dir = is_dir;
    n->nstates = is_dir;
    n->next = m->nodes;
    return m->nodes = n;
}

/* ---- paths ---- */

static node *node_of(const yk_fs_memory *m, int fd)
{
    return fd < FIRST_FD || fd >= FIRST_FD + MAX_OPEN ? NULL : m->open[fd - FIRST_FD].node;
}

/* The directory that has the last part of the path, which is *last_out ("": the path is the directory itself). */
static node *walk(const yk_fs_memory *m, int dir, const char *path, const char **last_out)
{
    node *at = *path == '/' || dir == AT_FDCWD ? m->root : node_of(m, dir);
    errno = m->is_off ? EIO : EBADF;
    for (at = m->is_off ? NULL : at; at;) {
        path += strspn(path, "/");
        const size_t n = strcspn(path, "/");
        *last_out = n == 1 && *path == '.' ? "" : path;
        if (path[n] == '\0')
            return at;
        const entry *e = look_up(at, path, n);
        errno = e ? ENOTDIR : ENOENT;
        at = n == 1 && *path == '.' ? at : e && e->node->is_dir ? e->node : NULL;
        path += n;
    }
    return NULL;
}

static node *find(const yk_fs_memory *m, int dir, const char *path)
{
    const char *last;
    node *in = walk(m, dir, path, &last);
    if (!in || !*last)
        return in;
    const entry *e = look_up(in, last, strlen(last));
    errno = ENOENT;
    return e ? e->node : NULL;
}

/* ---- the calls ---- */

/* The disk of this thread. */
static yk_fs_memory *memory_self(void)
{
    return yk_sys->self;
}

static int memory_open(int dir, const char *path, int flags, mode_t mode)
{
    yk_fs_memory *m = memory_self();
    const char *last;
    int slot = 0;
    (void)mode;
    if (*path == '/')
        return flags & (O_WRONLY | O_RDWR | O_CREAT) ? refuse(EROFS) : open(path, flags);
    if (flags & O_CREAT)
        take_time(m);
    node *n = find(m, dir, path);
    if ((flags & O_TMPFILE) == O_TMPFILE)
        return refuse(EOPNOTSUPP);
    while (slot < MAX_OPEN && m->open[slot].node)
        slot++;
    if (!n && errno != ENOENT)
        return -1;
    if (n && (flags & O_CREAT) && (flags & O_EXCL))
        return refuse(EEXIST);
    if (n && !n->is_dir && (flags & O_DIRECTORY))
        return refuse(ENOTDIR);
    if (n && n->is_dir && (flags & O_ACCMODE) != O_RDONLY)
        return refuse(EISDIR);
    if (slot == MAX_OPEN)
        return refuse(EMFILE);
    if (!n) {
        node *in = flags & O_CREAT ? walk(m, dir, path, &last) : NULL;
        if (!in || !may_change(m) || !(n = add_node(m, false)) || !change(in, NULL, last, n))
            return -1;
    }
    m->open[slot] = (handle){.node = n};
    return FIRST_FD + slot;
}

static int memory_close(int fd)
{
    yk_fs_memory *m = memory_self();
    if (fd < FIRST_FD)
        return close(fd);
    if (!node_of(m, fd))
        return refuse(EBADF);
    m->open[fd - FIRST_FD] = (handle){0};
    return 0;
}

static ssize_t memory_read(int fd, void *buf, size_t size)
{
    yk_fs_memory *m = memory_self();
    const node *n = node_of(m, fd);
    if (!n || n->is_dir || m->is_off)
        return refuse(!n ? EBADF : m->is_off ? EIO : EISDIR);
    const size_t got = size < n->size ? size : n->size;
    if (got)
        memcpy(buf, n->data, got);
    return (ssize_t)got;
}

static ssize_t memory_write(int fd, const void *buf, size_t size)
{
    yk_fs_memory *m = memory_self();
    take_time(m);
    node *n = node_of(m, fd);
    if (!n)
        return refuse(EBADF);
    if (!may_change(m))
        return -1;
    const uint64_t left = m->room - m->used;
    const size_t put = size < left ? size : (size_t)left;
    if (size && !put)
        return refuse(ENOSPC);
    unsigned char *more = realloc(n->data, n->size + put + 1);
    if (!more)
        return refuse(ENOMEM);
    n->data = more;
    if (put)
        memcpy(n->data + n->size, buf, put);
    n->size += put;
    m->used += put;
    return (ssize_t)put;
}

static int memory_sync(int fd)
{
    yk_fs_memory *m = memory_self();
    take_time(m);
    node *n = node_of(m, fd);
    if (!n)
        return refuse(EBADF);
    if (!may_change(m))
        return -1;
    n->synced = n->size;
    if (n->is_dir)
        commit(n, n->nstates - 1);
    return 0;
}

static int memory_stat(int dir, const char *path, struct stat *s, int flags)
{
    if (*path == '/' || (dir >= 0 && dir < FIRST_FD))
        return fstatat(dir, path, s, flags);
    const node *n = find(memory_self(), dir, path);
    if (!n)
        return -1;
    memset(s, 0, sizeof *s);
    s->st_mode = n->is_dir ? S_IFDIR | 0777 : S_IFREG | 0666;
    s->st_size = (off_t)n->size;
    return 0;
}

static int memory_make_dir(int dir, const char *path, mode_t mode)
{
    yk_fs_memory *m = memory_self();
    const char *last;
    take_time(m);
    node *in = walk(m, dir, path, &last), *n;
    (void)mode;
    if (!in)
        return -1;
    if (!*last || look_up(in, last, strlen(last)))
        return refuse(EEXIST);
    return may_change(m) && (n = add_node(m, true)) && change(in, NULL, last, n) ? 0 : -1;
}

static int memory_rename(int from_dir, const char *from, int to_dir, const char *to)
{
    yk_fs_memory *m = memory_self();
    const char *old_name, *new_name;
    take_time(m);
    node *old_dir = walk(m, from_dir, from, &old_name), *n = old_dir ? find(m, from_dir, from) : NULL;
    node *new_dir = n ? walk(m, to_dir, to, &new_name) : NULL;
    if (!new_dir)
        return -1;
    const entry *there = look_up(new_dir, new_name, strlen(new_name));
    if (there && there->node->is_dir != n->is_dir)
        return refuse(n->is_dir ? ENOTDIR : EISDIR);
    if (there && n->is_dir && seen(there->node)->n)
        return refuse(ENOTEMPTY);
    if (!may_change(m))
        return -1;
    m->used -= there ? there->node->size : 0;
    if (old_dir == new_dir)
        return change(old_dir, old_name, new_name, n) ? 0 : -1;
    return change(new_dir, NULL, new_name, n) && change(old_dir, old_name, NULL, NULL) ? 0 : -1;
}

/* Two names in the same directory: one change. */
static int memory_exchange(int dir, const char *a, const char *b)
{
    yk_fs_memory *m = memory_self();
    const char *name[2];
    take_time(m);
    node *in = walk(m, dir, a, &name[0]), *first = in ? find(m, dir, a) : NULL,
         *second = in && walk(m, dir, b, &name[1]) == in ? find(m, dir, b) : NULL;
    if (!first || !second || !may_change(m) || !change(in, NULL, name[0], second))
        return -1;
    entry *other = look_up(in, name[1], strlen(name[1]));
    other->node = first;
    return 0;
}

static int memory_remove(int dir, const char *path, int flags)
{
    yk_fs_memory *m = memory_self();
    const char *last;
    take_time(m);
    node *in = walk(m, dir, path, &last), *n = in ? find(m, dir, path) : NULL;
    if (!n)
        return -1;
    if (n->is_dir != !!(flags & AT_REMOVEDIR))
        return refuse(n->is_dir ? EISDIR : ENOTDIR);
    if (n->is_dir && seen(n)->n)
        return refuse(ENOTEMPTY);
    if (!may_change(m) || !change(in, last, NULL, NULL)) {
        m->kept |= !m->is_off;
        return -1;
    }
    m->used -= n->size;
    return 0;
}

/* A copy: the file may grow. */
static void *memory_map(int fd, size_t size)
{
    const node *n = node_of(memory_self(), fd);
    const int real = fd < FIRST_FD ? fd : -1;
    void *copy = n && size > n->size ? MAP_FAILED
                                     : mmap(NULL, size, PROT_READ | PROT_WRITE,
                                            MAP_PRIVATE | (real < 0 ? MAP_ANONYMOUS : 0), real, 0);
    if (copy == MAP_FAILED) {
        errno = EINVAL;
        return NULL;
    }
    if (n)
        memcpy(copy, n->data, size);
    return copy;
}

static int memory_unmap(void *at, size_t size)
{
    return munmap(at, size);
}

static char **memory_list(int dir)
{
    const yk_fs_memory *m = memory_self();
    const node *n = node_of(m, dir);
    char **out = NULL;
    if (!n || !n->is_dir || m->is_off)
        errno = m->is_off ? EIO : ENOTDIR;
    else
        out = calloc(seen(n)->n + 1, sizeof *out);
    for (size_t i = 0; out && i < seen(n)->n; i++)
        if (!(out[i] = strdup(seen(n)->entry[i].name))) {
            yk_fs_list_free(out);
            out = NULL;
        }
    return out;
}

/* The lock ends when the descriptor is closed. */
static int memory_lock(int fd, bool take)
{
    yk_fs_memory *m = memory_self();
    const node *n = node_of(m, fd);
    if (!n || m->is_off)
        return n ? EIO : EBADF;
    for (int i = 0; i < MAX_OPEN; i++)
        if (m->open[i].node == n && m->open[i].locked && i != fd - FIRST_FD)
            return EAGAIN;
    m->open[fd - FIRST_FD].locked |= take;
    return 0;
}

static int memory_truncate(int fd, off_t size)
{
    yk_fs_memory *m = memory_self();
    take_time(m);
    node *n = node_of(m, fd);
    if (!n || (size_t)size > n->size)
        return refuse(n ? EINVAL : EBADF);
    if (!may_change(m))
        return -1;
    m->used -= n->size - (size_t)size;
    n->size = (size_t)size;
    n->synced = n->synced < n->size ? n->synced : n->size;
    return 0;
}

/* There are no links and no working directory. */
static char *memory_real_path(const char *path, char *out)
{
    return find(memory_self(), AT_FDCWD, path) ? strcpy(out, path) : NULL;
}

static bool memory_can_write(const char *path)
{
    return find(memory_self(), AT_FDCWD, path) != NULL;
}

/* ---- faults ---- */

/* Changes (writes, syncs, new files and directories, renames, removals) attempted so far. */
static inline uint64_t yk_fs_memory_changes(const yk_fs_memory *m)
{
    return m->changes;
}

/* Counted from 1; 0: never. */
static inline void yk_fs_memory_cut_at(yk_fs_memory *m, uint64_t at)
{
    m->cut_at = at;
}

/* Only that change; 0: none. */
static inline void yk_fs_memory_fail_at(yk_fs_memory *m, uint64_t at, int error)
{
    m->fail_at = at;
    m->fail_with = error;
}

/* For all files; beyond that ENOSPC. */
static inline void yk_fs_memory_capacity(yk_fs_memory *m, uint64_t bytes)
{
    m->room = bytes;
}

/* Keeps a part of the data that was added since the last sync. */
static void tear(yk_fs_memory *m, node *n)
{
    const size_t added = n->size - n->synced;
    if (!added)
        return;
    size_t kept = yk_rng_below(&m->rng, (uint32_t)(added / SECTOR) + 2) * SECTOR;
    kept = kept < added ? kept : added;
    n->size = n->synced + kept;
    if (kept && yk_rng_below(&m->rng, 4) == 0) {
        const size_t zeros = kept < SECTOR ? kept : SECTOR;
        memset(n->data + n->size - zeros, 0, zeros);
    }
    n->synced = n->size;
}

static uint64_t bytes_below(const node *dir)
{
    uint64_t sum = 0;
    for (size_t i = 0; i < seen(dir)->n; i++) {
        const node *n = seen(dir)->entry[i].node;
        sum += n->is_dir ? bytes_below(n) : n->size;
    }
    return sum;
}

/* All processes have ended: open descriptors become invalid. */
static inline void yk_fs_memory_close_all(yk_fs_memory *m)
{
    memset(m->open, 0, sizeof m->open);
}

/* After a power failure, or simulates one now. Open descriptors become invalid. */
static inline void yk_fs_memory_restart(yk_fs_memory *m)
{
    yk_fs_memory_close_all(m);
    m->is_off = false;
    m->cut_at = m->fail_at = 0;
    for (node *n = m->nodes; n; n = n->next) {
        if (n->is_dir)
            commit(n, yk_rng_below(&m->rng, (uint32_t)n->nstates));
        else
            tear(m, n);
    }
    m->used = bytes_below(m->root);
}

/* ---- start and end ---- */

/* NULL: out of memory. */
static inline yk_fs_memory *yk_fs_memory_create(uint64_t seed)
{
    yk_fs_memory *m = calloc(1, sizeof *m);
    if (!m || !(m->root = add_node(m, true))) {
        free(m);
        return NULL;
    }
    m->fs = (yk_fs){.open = memory_open,
                    .close = memory_close,
                    .read = memory_read,
                    .write = memory_write,
                    .sync = memory_sync,
                    .stat = memory_stat,
                    .make_dir = memory_make_dir,
                    .rename = memory_rename,
                    .exchange = memory_exchange,
                    .remove = memory_remove,
                    .map = memory_map,
                    .unmap = memory_unmap,
                    .list = memory_list,
                    .lock = memory_lock,
                    .truncate = memory_truncate,
                    .real_path = memory_real_path,
                    .can_write = memory_can_write,
                    .self = m};
    m->rng = yk_rng_seed(seed, 0);
    m->room = UINT64_MAX;
    return m;
}

static inline void yk_fs_memory_free(yk_fs_memory *m)
{
    for (node *n = m ? m->nodes : NULL, *next; n; n = next) {
        next = n->next;
        for (size_t i = 0; i < n->nstates; i++)
            names_fini(&n->state[i]);
        free(n->state);
        free(n->data);
        free(n);
    }
    free(m);
}

static inline const yk_fs *yk_fs_memory_fs(yk_fs_memory *m)
{
    return &m->fs;
}

#endif
