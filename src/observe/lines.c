#include "observe/lines.h"

#include "base/file.h"
#include "base/fs.h"
#include "base/mem.h"
#include "base/number.h"
#include <errno.h>
#include <fcntl.h>
#include <math.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* The text after `"key":`; NULL: missing. */
static const char *value_of(const char *line, const char *key)
{
    char name[48];
    snprintf(name, sizeof name, "\"%s\":", key);
    const char *at = strstr(line, name);
    return at ? at + strlen(name) : NULL;
}

double yk_line_number(const char *line, const char *key)
{
    const char *at = value_of(line, key);
    double x = NAN;
    if (at)
        yk_decimal(at, &x);
    return x;
}

void yk_line_text(const char *line, const char *key, char *out, size_t size)
{
    const char *at = value_of(line, key);
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
    bool ok = yk_fs_stat(fd, "", &there, AT_EMPTY_PATH) == 0;
    if (ok && there.st_size > 0) {
        out->size = (size_t)there.st_size;
        ok = (out->data = yk_fs_map(fd, out->size)) != NULL;
    }
    const int error = errno;
    yk_fs_close(fd);
    errno = error;
    return ok;
}

void yk_lines_last(const char *run_dir, const char *name, const char *key, char *line, size_t size)
{
    enum { TAIL = 8191 };
    char text[TAIL + 1];
    contents all;
    *line = '\0';
    if (!map(run_dir, name, &all) || !all.data)
        return;
    const size_t n = all.size < TAIL ? all.size : TAIL;
    memcpy(text, all.data + all.size - n, n);
    text[n] = '\0';
    yk_fs_unmap(all.data, all.size);
    for (char *at = text, *end; (end = strchr(at, '\n')); at = end + 1) {
        *end = '\0';
        if (value_of(at, key))
            snprintf(line, size, "%s", at);
    }
}

static yk_status copy_lines(const contents *in, const char *key, double max, yk_file *out)
{
    char *line = NULL;
    size_t cap = 0;
    yk_status st = YK_OK;
    /* drops an incomplete last line, of a process that was killed */
    for (const char *at = in->data, *end; !st && (end = memchr(at, '\n', in->size - (size_t)(at - in->data)));
         at = end + 1) {
        const size_t n = (size_t)(end - at);
        if ((st = YK_RESERVE(line, cap, n + 1, "a line")))
            break;
        memcpy(line, at, n);
        line[n] = '\0';
        if (!(yk_line_number(line, key) > max))
            st = yk_file_write(out, at, n + 1);
    }
    free(line);
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
