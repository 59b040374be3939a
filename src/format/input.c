#include "format/input.h"

#include "base/fs.h"
#include "base/mem.h"
#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#define BUFFER_BYTES ((size_t)256 << 10)
#define RAW_BYTES    ((size_t)64 << 10)
#define PIECE_BYTES  ((size_t)4 << 10) /* past the expected end */
#define PAD_BYTES    64                /* readable zeros after the data */
#define MAX_LINE     ((size_t)64 << 20)

/* The first error is kept, and returned again by later calls. */
static yk_status fail_input(yk_input *in, yk_status st, const char *reason)
{
    in->failed = st;
    snprintf(in->reason, sizeof in->reason, "%s", reason);
    return st;
}

static yk_status report(const yk_input *in)
{
    return yk_fail(in->failed, "%s: at byte %llu: %s", in->path, (unsigned long long)(in->offset + in->have),
                   in->reason);
}

yk_status yk_fail_at(const char *path, uint64_t offset, const char *format, ...)
{
    char reason[512];
    va_list args;
    va_start(args, format);
    vsnprintf(reason, sizeof reason, format, args);
    va_end(args);
    return yk_fail(YK_EDATA, "%s: at byte %llu: %s", path, (unsigned long long)offset, reason);
}

static yk_status fail_path(const char *path, int error)
{
    bool system = error == EMFILE || error == ENFILE || error == ENOMEM;
    return yk_fail(system ? YK_ESYSTEM : YK_EDATA, "%s: cannot read: %s", path, strerror(error));
}

static ssize_t read_some(int fd, void *to, size_t n)
{
    ssize_t got;
    do
        got = read(fd, to, n);
    while (got < 0 && errno == EINTR);
    return got;
}

/* ---- the file of the last input that was freed stays open for the next one: a pass over a file opens it once, however many
 * blocks it has, and finding out about its format and compression does not open it again */

static struct {
    pthread_mutex_t lock;
    int fd; /* -1: none */
} kept = {.lock = PTHREAD_MUTEX_INITIALIZER, .fd = -1};

static void keep_file(int fd)
{
    pthread_mutex_lock(&kept.lock);
    const int last = kept.fd;
    kept.fd = fd;
    pthread_mutex_unlock(&kept.lock);
    if (last >= 0)
        close(last);
}

void yk_input_forget(void)
{
    keep_file(-1);
}

static yk_status open_file(const char *path, int *fd_out, uint64_t *size_out)
{
    struct stat s, then;
    yk_status st = YK_OK;
    *fd_out = -1;
    pthread_mutex_lock(&kept.lock);
    if (kept.fd >= 0 && stat(path, &s) == 0 && fstat(kept.fd, &then) == 0 && s.st_dev == then.st_dev &&
        s.st_ino == then.st_ino && lseek(kept.fd, 0, SEEK_SET) == 0) {
        *fd_out = kept.fd; /* that of this file */
        kept.fd = -1;
    }
    pthread_mutex_unlock(&kept.lock);
    if (*fd_out < 0)
        *fd_out = open(path, O_RDONLY | O_CLOEXEC);
    if (*fd_out < 0 || fstat(*fd_out, &s))
        st = fail_path(path, errno);
    else if (S_ISDIR(s.st_mode))
        st = yk_fail(YK_EDATA, "%s: is a directory, not a file", path);
    else
        *size_out = S_ISREG(s.st_mode) ? (uint64_t)s.st_size : UINT64_MAX;
    if (st && *fd_out >= 0)
        close(*fd_out);
    return st;
}

/* ---- standard input. This state is global to the process, like standard input itself. An input that was only peeked at is kept
 * for the next reader, because detecting the format and reading the data use two readers. */

static struct {
    pthread_mutex_t lock;
    yk_input *unread;
    bool used;
    dev_t device; /* of the file that was used: the caller may replace it */
    ino_t inode;
} standard = {.lock = PTHREAD_MUTEX_INITIALIZER};

/* *unread_out: an input to continue with; NULL: read from *fd_out, a duplicate. */
static yk_status open_stdin(int *fd_out, yk_input **unread_out)
{
    struct stat s;
    yk_status st = YK_OK;
    pthread_mutex_lock(&standard.lock);
    *unread_out = standard.unread;
    standard.unread = NULL;
    if (!*unread_out && fstat(STDIN_FILENO, &s)) {
        st = yk_fail(YK_EDATA, "standard input: cannot read: %s", strerror(errno));
    } else if (!*unread_out && standard.used && standard.device == s.st_dev && standard.inode == s.st_ino) {
        st = yk_fail(YK_EUSAGE, "standard input can be read only once; save the data in a file");
    } else if (!*unread_out && (*fd_out = fcntl(STDIN_FILENO, F_DUPFD_CLOEXEC, 0)) < 0) {
        st = yk_fail(YK_ESYSTEM, "standard input: cannot read: %s", strerror(errno));
    } else if (!*unread_out) {
        standard.used = true;
        standard.device = s.st_dev;
        standard.inode = s.st_ino;
    }
    pthread_mutex_unlock(&standard.lock);
    return st;
}

/* ---- opening */

/* Reads the first bytes of the file, detects its coding, and starts the decompressor. */
static yk_status detect_coding(yk_input *in)
{
    size_t n = 0;
    while (n < PIECE_BYTES) {
        ssize_t got = read_some(in->fd, in->buffer + n, PIECE_BYTES - n);
        if (got < 0)
            return fail_path(in->path, errno);
        if (got == 0)
            break;
        n += (size_t)got;
    }
    const yk__coding coding = yk__coding_of(in->buffer, n);
    const char *cat = yk__coding_other(coding);
    in->raw_read = n;
    if (cat)
        return yk_fail(YK_EDATA,
                       "%s: is compressed with %s, which yoke does not support; decompress it, or use a "
                       "pipe: %s %s | yoke train --data FORMAT:-, such as csv:-",
                       in->path, coding == YK__XZ ? "xz" : "bzip2", cat, in->standard ? "FILE" : in->path);
    in->compressed = coding != YK__PLAIN;
    if (!in->compressed) {
        in->have = n;
        return YK_OK;
    }
    in->raw = malloc(RAW_BYTES);
    if (!in->raw)
        return yk_fail_memory(RAW_BYTES, "a compressed file's buffer");
    memcpy(in->raw, in->buffer, n);
    const yk_status st = yk__decoder_init(&in->decoder, coding);
    in->decoder.next = in->raw;
    in->decoder.left = n;
    return st;
}

yk_status yk_input_open(const char *path, uint64_t begin, yk_input **out)
{
    int fd = -1;
    uint64_t size = UINT64_MAX;
    yk_input *in = NULL;
    const bool is_standard = !strcmp(path, YK_STDIN);
    yk_status st = is_standard ? open_stdin(&fd, &in) : open_file(path, &fd, &size);
    if (st || in) {
        *out = in;
        return st;
    }
    in = calloc(1, sizeof *in);
    if (!in) {
        close(fd);
        return yk_fail_memory(sizeof *in, "a file's reader");
    }
    in->fd = fd;
    in->expected = UINT64_MAX;
    in->offset = in->raw_read = begin;
    in->cap = BUFFER_BYTES;
    /* Small files and the ends of files need a smaller buffer. */
    if (begin <= size && size - begin < BUFFER_BYTES)
        in->cap = YK_ROUND_UP((size_t)(size - begin) + 1, PIECE_BYTES);
    in->standard = is_standard;
    in->regular = size != UINT64_MAX;
    in->path = strdup(is_standard ? "standard input" : path);
    in->buffer = malloc(in->cap + PAD_BYTES);
    if (!in->path || !in->buffer)
        st = yk_fail_memory(in->cap, "a file's buffer");
    else if (begin == 0)
        st = detect_coding(in);
    else if (lseek(fd, (off_t)begin, SEEK_SET) < 0)
        st = fail_path(path, errno);
    if (st) {
        in->failed = st;
        yk_input_free(in);
        return st;
    }
    memset(in->buffer + in->have, 0, PAD_BYTES);
    *out = in;
    return YK_OK;
}

void yk_input_free(yk_input *in)
{
    if (!in)
        return;
    pthread_mutex_lock(&standard.lock);
    const bool keep = in->standard && !in->offset && !in->failed && !standard.unread;
    if (keep)
        standard.unread = in;
    pthread_mutex_unlock(&standard.lock);
    if (keep)
        return;
    yk__decoder_fini(&in->decoder);
    free(in->raw);
    free(in->buffer);
    if (in->regular && !in->failed)
        keep_file(in->fd);
    else
        close(in->fd);
    free(in->path);
    free(in);
}

/* Reads bytes as they are in the file; *got_out is 0 at its end. */
static yk_status read_raw(yk_input *in, uint8_t *to, size_t n, size_t *got_out)
{
    const ssize_t got = read_some(in->fd, to, n);
    if (got < 0)
        return fail_input(in, YK_EDATA, strerror(errno));
    in->raw_read += (uint64_t)got;
    *got_out = (size_t)got;
    return YK_OK;
}

static yk_status fill_plain(yk_input *in, size_t want)
{
    size_t space = in->cap - in->have, got = 0;
    if (in->raw_read >= in->expected) {
        size_t piece = want - in->have > PIECE_BYTES ? want - in->have : PIECE_BYTES;
        space = space < piece ? space : piece;
    } else if (space > in->expected - in->raw_read) {
        space = (size_t)(in->expected - in->raw_read);
    }
    const yk_status st = read_raw(in, in->buffer + in->have, space, &got);
    in->ended = !st && got == 0;
    in->have += got;
    return st;
}

static yk_status fill_coded(yk_input *in)
{
    yk__decoder *d = &in->decoder;
    const char *why = "the compressed file is truncated";
    yk_status st = YK_OK;
    if (!d->left && !d->pending) {
        d->next = in->raw;
        if ((st = read_raw(in, in->raw, RAW_BYTES, &d->left)))
            return st;
    }
    if (!d->left && !d->pending) {
        in->ended = d->between;
        return d->between ? YK_OK : fail_input(in, YK_EDATA, why);
    }
    size_t got = 0;
    st = yk__decoder_run(d, in->buffer + in->have, in->cap - in->have, &got, &why);
    in->have += got;
    return st ? fail_input(in, st, why) : YK_OK;
}

/* The buffer grows with the bytes that were read: a damaged length must not allocate exabytes. */
static yk_status fill(yk_input *in, size_t want)
{
    if (in->at) {
        memmove(in->buffer, in->buffer + in->at, in->have);
        in->at = 0;
    }
    while (in->have < want && !in->ended && !in->failed) {
        if (in->have == in->cap) {
            uint8_t *grown = in->cap > SIZE_MAX / 4 ? NULL : realloc(in->buffer, 2 * in->cap + PAD_BYTES);
            if (!grown)
                return yk_fail_memory(2 * in->cap, "a file's buffer");
            in->buffer = grown;
            in->cap *= 2;
        }
        yk_status st = in->compressed ? fill_coded(in) : fill_plain(in, want);
        if (st)
            break; /* kept in `failed`, and reported when the bytes before it are used up */
    }
    memset(in->buffer + in->have, 0, PAD_BYTES);
    return in->have < want && in->failed ? report(in) : YK_OK;
}

yk_status yk_input_peek(yk_input *in, size_t want, const uint8_t **p_out, size_t *have_out)
{
    if (want > in->have && !in->ended) {
        yk_status st = fill(in, want);
        if (st)
            return st;
    }
    *p_out = in->buffer + in->at;
    *have_out = in->have;
    return YK_OK;
}

void yk_input_skip(yk_input *in, size_t n)
{
    in->at += n;
    in->have -= n;
    in->offset += n;
}

/* Does not compare devices: a network file system that was mounted again has a new number. */
yk_status yk_file_unchanged(const char *path, const struct stat *was, int fd)
{
    struct stat now;
    if (fd < 0 || fstat(fd, &now))
        return fail_path(path, errno);
    const bool touched =
        now.st_mtim.tv_sec != was->st_mtim.tv_sec || now.st_mtim.tv_nsec != was->st_mtim.tv_nsec;
    const char *what = now.st_size != was->st_size ? "its size differs"
                       : now.st_ino != was->st_ino ? "another file has replaced it"
                       : touched                   ? "its modification time differs"
                                                   : NULL;
    return what
               ? yk_fail(YK_EDATA, "%s: changed while it was being read: %s; use a copy that does not change",
                         path, what)
               : YK_OK;
}

/* The next newline at or after *seen that is not between quotes. If there is none, *seen and *open are where to continue. */
static const uint8_t *find_newline(const yk_input *in, bool quoted, size_t *seen, bool *open, uint64_t *lines)
{
    const uint8_t *line = in->buffer + in->at;
    if (!quoted)
        return memchr(line + *seen, '\n', in->have - *seen);
    for (size_t i = *seen; i < in->have; i++) {
        *open ^= line[i] == '"';
        if (line[i] == '\n' && !*open)
            return line + i;
        *lines += line[i] == '\n';
    }
    return NULL;
}

yk_status yk_input_line(yk_input *in, bool quoted, const char **line_out, size_t *length_out,
                        uint64_t *lines_out)
{
    size_t seen = 0;
    bool open = false;
    *lines_out = 1;
    for (;;) {
        const uint8_t *newline = find_newline(in, quoted, &seen, &open, lines_out);
        const uint8_t *line = in->buffer + in->at;
        size_t length = newline ? (size_t)(newline - line) : in->have;
        if (newline || (in->ended && length)) {
            yk_input_skip(in, length + (newline != NULL));
            *line_out = (const char *)line;
            *length_out = length && line[length - 1] == '\r' ? length - 1 : length;
            return YK_OK;
        }
        if (in->ended) {
            *line_out = NULL;
            *length_out = 0;
            return YK_OK;
        }
        seen = in->have;
        if (seen > MAX_LINE) {
            fail_input(in, YK_EDATA, "a line is longer than 64 MiB: not a text file");
            return report(in);
        }
        yk_status st = fill(in, seen + 1);
        if (st)
            return st;
    }
}

yk_status yk_map_file(const char *path, void **map_out, size_t *size_out)
{
    struct stat s;
    yk_status st = YK_OK;
    /* does not wait for a FIFO */
    const int fd = yk_sys->open(AT_FDCWD, path, O_RDONLY | O_NONBLOCK | O_CLOEXEC, 0);
    if (fd < 0 || yk_sys->stat(fd, "", &s, AT_EMPTY_PATH))
        st = fail_path(path, errno);
    else if (!S_ISREG(s.st_mode))
        st = yk_fail(YK_EDATA, "%s: is %s", path, S_ISDIR(s.st_mode) ? "a directory" : "not a regular file");
    else if (s.st_size == 0)
        st = yk_fail(YK_EDATA, "%s: is empty", path);
    else if (!(*map_out = yk_sys->map(fd, *size_out = (size_t)s.st_size)))
        st = yk_fail(YK_ESYSTEM, "%s: cannot map %zu bytes: %s", path, *size_out, strerror(errno));
    yk_fs_close(fd);
    return st;
}

yk_status yk_input_compressed(const char *path, bool *compressed_out)
{
    yk_input *in;
    yk_status st = yk_input_open(path, 0, &in);
    if (st)
        return st;
    *compressed_out = in->compressed;
    yk_input_free(in);
    return YK_OK;
}
