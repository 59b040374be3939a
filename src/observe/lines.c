#include "observe/lines.h"

#include "base/file.h"
#include "base/fs.h"
#include "base/number.h"
#include <errno.h>
#include <fcntl.h>
#include <math.h>
#include <stdio.h>
#include <string.h>

/* The text after `"key":` in a line of n bytes, which a newline or zero follows; NULL: missing. */
static const char *value_of(const char *line, size_t n, const char *key)
{
    char name[48];
    const int length = snprintf(name, sizeof name, "\"%s\":", key);
    const char *at = memmem(line, n, name, (size_t)length);
    return at ? at + length + strspn(at + length, " ") : NULL; /* other programs write blanks */
}

static double number_of(const char *line, size_t n, const char *key)
{
    const char *at = value_of(line, n, key);
    double x = NAN;
    if (at)
        yk_decimal_before(at, line + n, &x);
    return x;
}

const char *yk_line_value(const char *line, const char *key)
{
    return value_of(line, strlen(line), key);
}

double yk_line_number(const char *line, const char *key)
{
    return number_of(line, strlen(line), key);
}

void yk_line_text(const char *line, const char *key, char *out, size_t size)
{
    const char *at = yk_line_value(line, key);
    const size_t n = at && *at == '"' ? strcspn(at + 1, "\"") : 0;
    snprintf(out, size, "%.*s", (int)n, n ? at + 1 : "");
}

typedef struct {
    char *data; /* NULL: empty */
    size_t size;
} contents;

/* Maps a file; false: errno. */
static bool map(const char *run_dir, const char *name, contents *out)
{
    struct stat there = {0};
    *out = (contents){0};
    const int fd = yk_open_in(run_dir, name, O_RDONLY | O_NONBLOCK);
    if (fd < 0)
        return false;
    bool ok = yk_sys->stat(fd, "", &there, AT_EMPTY_PATH) == 0;
    if (ok && there.st_size > 0) {
        out->size = (size_t)there.st_size;
        ok = (out->data = yk_sys->map(fd, out->size)) != NULL;
    }
    const int error = errno;
    yk_fs_close(fd);
    errno = error;
    return ok;
}

void yk_lines_last(const char *run_dir, const char *name, const char *key, char *line, size_t size)
{
    enum { TAIL = 8191 };
    contents all;
    *line = '\0';
    if (!map(run_dir, name, &all) || !all.data)
        return;
    const char *stop = all.data + all.size, *at = stop - (all.size < TAIL ? all.size : TAIL);
    for (const char *end; (end = memchr(at, '\n', (size_t)(stop - at))); at = end + 1)
        if (value_of(at, (size_t)(end - at), key))
            snprintf(line, size, "%.*s", (int)(end - at), at);
    yk_fs_unmap(all.data, all.size);
}

static yk_status copy_lines(const contents *in, const char *key, double max, yk_file *out)
{
    const char *at = in->data, *stop = at + in->size;
    yk_status st = YK_OK;
    /* drops an incomplete last line, of a process that was killed */
    for (const char *end; !st && (end = memchr(at, '\n', (size_t)(stop - at))); at = end + 1)
        if (!(number_of(at, (size_t)(end - at), key) > max))
            st = yk_file_write(out, at, (size_t)(end - at) + 1);
    return st;
}

yk_status yk_lines_cut(const char *run_dir, const char *name, const char *key, double max)
{
    contents in;
    yk_file *out;
    if (!map(run_dir, name, &in))
        return errno == ENOENT ? YK_OK : yk_fail_in(run_dir, name, "cannot read", errno);
    if (!in.data)
        return YK_OK;
    yk_status st = yk_file_create_in(run_dir, name, &out);
    if (!st)
        st = yk_file_close(out, copy_lines(&in, key, max, out));
    yk_fs_unmap(in.data, in.size);
    return st;
}
