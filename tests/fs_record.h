/* Records the changes of a disk in memory (fs_memory.h), and replays them as after a power failure.
 *
 *     fs_record r;
 *     fs_record_begin(&r);                            // an empty disk, for this thread
 *     ... yk_file_create_in(), yk_file_close() ...
 *     fs_record_end(&r);
 *     fs_replay(&r, 20, -1);                          // the disk has the first 20 changes
 *     fs_replay(&r, 20, 7);                           // the same without change number 7
 *     ... yk_checkpoint_find() ...
 *     fs_replay_end(&r);
 *     fs_record_fini(&r);
 *
 * fs_is_unsynced(&r, 20, 7): whether change number 7 may be missing after the first 20. A sync makes the earlier writes of its
 * file, or the earlier names of its directory, durable. In a directory, a change may be missing although a later one is
 * there; file systems with a journal keep more. A dropped write leaves zeros before later data.
 */
#ifndef YK_TESTS_FS_RECORD_H
#define YK_TESTS_FS_RECORD_H

#include "fs_memory.h"
#include "scratch.h"

typedef enum { CREATED, MADE_DIR, WRITTEN, SYNCED, RENAMED, REMOVED } fs_change;

typedef struct {
    fs_change kind;
    node *node;            /* CREATED, MADE_DIR, WRITTEN, SYNCED */
    node *dir, *to_dir;    /* of names */
    char name[64], to[64]; /* to, to_dir: RENAMED */
    unsigned char *data;   /* WRITTEN */
    size_t size;
} fs_op;

enum { FS_MOST_OPS = 4096, FS_MOST_NODES = 512, FS_MOST_NAMES = 32 };

/* A node of a replayed disk. */
typedef struct {
    const node *of;
    bool is_dir;
    unsigned char *data;
    size_t size, names;
    struct {
        char name[64];
        size_t node;
    } name[FS_MOST_NAMES];
} fs_node;

typedef struct {
    yk_fs fs; /* first: the file system of this thread is that of a record */
    yk_fs_memory *disk, *replayed;
    fs_op op[FS_MOST_OPS];
    size_t n;
    fs_node node[FS_MOST_NODES]; /* of a replay; the first one is the root */
    size_t nodes;
} fs_record;

static fs_op *fs_add(fs_record *r, fs_change kind, node *n, node *dir, const char *name)
{
    assert_true(r->n < FS_MOST_OPS);
    fs_op *op = &r->op[r->n++];
    *op = (fs_op){.kind = kind, .node = n, .dir = dir};
    snprintf(op->name, sizeof op->name, "%s", name ? name : "");
    return op;
}

/* ---- recording ---- */

static fs_record *record_self(void)
{
    return (fs_record *)(void *)yk_sys;
}

static int record_open(int dir, const char *path, int flags, mode_t mode)
{
    fs_record *r = record_self();
    const char *last;
    node *in = walk(r->disk, dir, path, &last);
    const bool exists = find(r->disk, dir, path);
    const int fd = memory_open(dir, path, flags, mode);
    if (fd >= 0 && !exists)
        fs_add(r, CREATED, node_of(r->disk, fd), in, last);
    return fd;
}

static ssize_t record_write(int fd, const void *buf, size_t size)
{
    fs_record *r = record_self();
    const ssize_t n = memory_write(fd, buf, size);
    if (n > 0) {
        fs_op *op = fs_add(r, WRITTEN, node_of(r->disk, fd), NULL, NULL);
        op->data = malloc((size_t)n);
        op->size = (size_t)n;
        assert_non_null(op->data);
        memcpy(op->data, buf, (size_t)n);
    }
    return n;
}

static int record_sync(int fd)
{
    fs_record *r = record_self();
    const int result = memory_sync(fd);
    if (!result)
        fs_add(r, SYNCED, node_of(r->disk, fd), NULL, NULL);
    return result;
}

static int record_make_dir(int dir, const char *path, mode_t mode)
{
    fs_record *r = record_self();
    const char *last;
    node *in = walk(r->disk, dir, path, &last);
    const int result = memory_make_dir(dir, path, mode);
    if (!result)
        fs_add(r, MADE_DIR, find(r->disk, dir, path), in, last);
    return result;
}

static int record_rename(int from_dir, const char *from, int to_dir, const char *to)
{
    fs_record *r = record_self();
    const char *last, *to_last;
    node *in = walk(r->disk, from_dir, from, &last), *to_in = walk(r->disk, to_dir, to, &to_last);
    const int result = memory_rename(from_dir, from, to_dir, to);
    if (!result) {
        fs_op *op = fs_add(r, RENAMED, NULL, in, last);
        op->to_dir = to_in;
        snprintf(op->to, sizeof op->to, "%s", to_last);
    }
    return result;
}

static int record_remove(int dir, const char *path, int flags)
{
    fs_record *r = record_self();
    const char *last;
    node *in = walk(r->disk, dir, path, &last);
    const int result = memory_remove(dir, path, flags);
    if (!result)
        fs_add(r, REMOVED, NULL, in, last);
    return result;
}

static inline void fs_record_begin(fs_record *r)
{
    memset(r, 0, sizeof *r);
    assert_non_null(r->disk = yk_fs_memory_create(0));
    r->fs = *yk_fs_memory_fs(r->disk);
    r->fs.open = record_open;
    r->fs.write = record_write;
    r->fs.sync = record_sync;
    r->fs.make_dir = record_make_dir;
    r->fs.rename = record_rename;
    r->fs.remove = record_remove;
    yk_fs_set(&r->fs);
}

static inline void fs_record_end(fs_record *r)
{
    (void)r;
    yk_fs_set(NULL);
}

static inline void fs_record_fini(fs_record *r)
{
    for (size_t i = 0; i < r->n; i++)
        free(r->op[i].data);
    yk_fs_memory_free(r->disk);
}

/* ---- replaying ---- */

static bool fs_is_synced(const fs_record *r, size_t first, size_t end, const node *n)
{
    for (size_t i = first; i < end; i++)
        if (r->op[i].kind == SYNCED && r->op[i].node == n)
            return true;
    return false;
}

static inline bool fs_is_unsynced(const fs_record *r, size_t prefix, size_t number)
{
    const fs_op *op = &r->op[number];
    if (op->kind == SYNCED)
        return false;
    return !fs_is_synced(r, number + 1, prefix, op->kind == WRITTEN ? op->node : op->dir) ||
           (op->kind == RENAMED && !fs_is_synced(r, number + 1, prefix, op->to_dir));
}

static size_t fs_node_of(fs_record *r, const node *of, bool is_dir)
{
    for (size_t i = 0; i < r->nodes; i++)
        if (r->node[i].of == of)
            return i;
    assert_true(r->nodes < FS_MOST_NODES);
    r->node[r->nodes] = (fs_node){.of = of, .is_dir = is_dir};
    return r->nodes++;
}

static void fs_link(fs_node *dir, const char *name, size_t n)
{
    assert_true(dir->names < FS_MOST_NAMES);
    snprintf(dir->name[dir->names].name, sizeof dir->name->name, "%s", name);
    dir->name[dir->names++].node = n;
}

/* Returns the node; SIZE_MAX: there is no such name. */
static size_t fs_unlink(fs_node *dir, const char *name)
{
    for (size_t i = 0; i < dir->names; i++)
        if (strcmp(dir->name[i].name, name) == 0) {
            const size_t n = dir->name[i].node;
            dir->name[i] = dir->name[--dir->names];
            return n;
        }
    return SIZE_MAX;
}

static void fs_apply(fs_record *r, const fs_op *op, bool dropped)
{
    fs_node *dir = op->dir ? &r->node[fs_node_of(r, op->dir, true)] : NULL;
    if (op->kind == WRITTEN) {
        fs_node *n = &r->node[fs_node_of(r, op->node, false)];
        n->data = realloc(n->data, n->size + op->size + 1);
        assert_non_null(n->data);
        if (dropped)
            memset(n->data + n->size, 0, op->size);
        else
            memcpy(n->data + n->size, op->data, op->size);
        n->size += op->size;
    } else if (op->kind == CREATED || op->kind == MADE_DIR) {
        const size_t n = fs_node_of(r, op->node, op->kind == MADE_DIR);
        if (!dropped)
            fs_link(dir, op->name, n);
    } else if (op->kind == RENAMED && !dropped) {
        fs_node *to = &r->node[fs_node_of(r, op->to_dir, true)];
        const size_t n = fs_unlink(dir, op->name);
        if (n != SIZE_MAX) {
            fs_unlink(to, op->to);
            fs_link(to, op->to, n);
        }
    } else if (op->kind == REMOVED && !dropped) {
        fs_unlink(dir, op->name);
    }
}

static void fs_build(fs_record *r, const fs_node *dir, int at)
{
    for (size_t i = 0; i < dir->names; i++) {
        const fs_node *n = &r->node[dir->name[i].node];
        const char *name = dir->name[i].name;
        if (n->is_dir)
            assert_int_equal(yk_sys->make_dir(at, name, 0777), 0);
        const int fd = yk_sys->open(at, name, n->is_dir ? O_RDONLY | O_DIRECTORY : O_WRONLY | O_CREAT, 0666);
        assert_true(fd >= 0);
        if (n->is_dir)
            fs_build(r, n, fd);
        else if (n->size)
            assert_int_equal(yk_sys->write(fd, n->data, n->size), n->size);
        yk_fs_close(fd);
    }
}

/* The disk of this thread has the first `prefix` changes, but not number `without` (-1: all). */
static inline void fs_replay(fs_record *r, size_t prefix, long without)
{
    r->nodes = 0;
    fs_node_of(r, r->disk->root, true);
    for (size_t i = 0; i < prefix; i++)
        fs_apply(r, &r->op[i], (long)i == without);
    assert_non_null(r->replayed = yk_fs_memory_create(0));
    yk_fs_set(yk_fs_memory_fs(r->replayed));
    fs_build(r, &r->node[0], AT_FDCWD);
}

static inline void fs_replay_end(fs_record *r)
{
    yk_fs_set(NULL);
    yk_fs_memory_free(r->replayed);
    for (size_t i = 0; i < r->nodes; i++)
        free(r->node[i].data);
}

#endif
