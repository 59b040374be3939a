/* Files of JSON lines that a run goes on writing after it was resumed: what was written beyond the checkpoint did not happen. */
#include "train/trainer.h"

#include "base/number.h"
#include <errno.h>
#include <fcntl.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

/* What stands behind `"key":`; lines were written by ourselves: no key is within a text. NULL: there is none. */
static const char *value_of(const char *line, const char *key)
{
    char name[48];
    snprintf(name, sizeof name, "\"%s\":", key);
    const char *at = strstr(line, name);
    return at ? at + strlen(name) : NULL;
}

double yk__line_number(const char *line, const char *key)
{
    const char *at = value_of(line, key);
    double x = NAN;
    if (at)
        yk_decimal(at, &x);
    return x;
}

void yk__line_text(const char *line, const char *key, char *out, size_t size)
{
    const char *at = value_of(line, key);
    const size_t n = at && *at == '"' ? strcspn(at + 1, "\"") : 0;
    snprintf(out, size, "%.*s", (int)n, n ? at + 1 : "");
}

void yk__lines_last(const char *path, const char *key, char *line, size_t size)
{
    char text[8192] = "";
    FILE *f = fopen(path, "re");
    *line = '\0';
    if (f && fseek(f, -(long)(sizeof text - 1), SEEK_END))
        rewind(f); /* it is shorter than that */
    if (f)
        text[fread(text, 1, sizeof text - 1, f)] = '\0';
    if (f)
        fclose(f);
    for (char *at = text, *end; (end = strchr(at, '\n')); at = end + 1) {
        *end = '\0';
        if (value_of(at, key))
            snprintf(line, size, "%s", at);
    }
}

yk_status yk__lines_cut(const char *run_dir, const char *name, const char *key, double most)
{
    const int fd = yk_open_in(run_dir, name, O_RDONLY);
    FILE *in = fd < 0 ? NULL : fdopen(fd, "r");
    if (!in) {
        const int error = errno;
        if (fd >= 0)
            close(fd);
        return error == ENOENT ? YK_OK : yk_fail_in(run_dir, name, "cannot read", error);
    }
    yk_file *out;
    yk_status st = yk_file_create_in(run_dir, name, &out);
    char *line = NULL;
    size_t cap = 0;
    if (st) {
        fclose(in);
        return st;
    }
    for (ssize_t n; !st && (n = getline(&line, &cap, in)) > 0;) {
        const bool whole = line[n - 1] == '\n'; /* the last one may have been cut off by what ended the run */
        if (whole && !(yk__line_number(line, key) > most))
            st = yk_file_write(out, line, (size_t)n);
    }
    if (!st && ferror(in))
        st = yk_fail_in(run_dir, name, "cannot read", errno);
    free(line);
    fclose(in);
    return yk_file_close(out, st);
}
