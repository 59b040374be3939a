/* Files of JSON lines that a run goes on writing after it was resumed: what was written beyond the checkpoint did not happen. */
#include "train/trainer.h"

#include <errno.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* The number of `key` in a line, which was written by ourselves: no key is within a text. NaN: there is none. */
static double number_of(const char *line, const char *key)
{
    char name[48];
    snprintf(name, sizeof name, "\"%s\":", key);
    const char *at = strstr(line, name);
    char *end;
    if (!at)
        return (double)NAN;
    const double x = strtod(at + strlen(name), &end);
    return end > at + strlen(name) ? x : (double)NAN;
}

yk_status yk__lines_cut(const char *path, const char *key, double most)
{
    FILE *in = fopen(path, "re");
    if (!in)
        return errno == ENOENT ? YK_OK : yk_fail_path(path, "cannot read", errno);
    yk_file *out;
    yk_status st = yk_file_create(path, &out);
    char *line = NULL;
    size_t cap = 0;
    if (st) {
        fclose(in);
        return st;
    }
    for (ssize_t n; !st && (n = getline(&line, &cap, in)) > 0;) {
        const bool whole = line[n - 1] == '\n'; /* the last one may have been cut off by what ended the run */
        if (whole && !(number_of(line, key) > most))
            st = yk_file_write(out, line, (size_t)n);
    }
    if (!st && ferror(in))
        st = yk_fail_path(path, "cannot read", errno);
    free(line);
    fclose(in);
    return yk_file_close(out, st);
}
