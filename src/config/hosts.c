#include "config/hosts.h"

#include "base/number.h"
#include <ctype.h>
#include <errno.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

enum { MAX_SLOTS = 1024 };

#define BLANKS " \t\r\n"

/* ---- host names ---- */

/* The first '-' that begins a word; NULL: none. A '-' within a name follows a letter, a digit, or one of "._-". */
static const char *leading_dash(const char *text)
{
    for (const char *s = text; (s = strchr(s, '-')); s++)
        if (s == text || (!isalnum((unsigned char)s[-1]) && !strchr("._-", s[-1])))
            return s;
    return NULL;
}

static yk_status check_names(const char *from, const char *text)
{
    const char *dash = leading_dash(text);
    return dash ? yk_fail(YK_EUSAGE, "%s: '%.*s': a host name cannot begin with '-'", from,
                          (int)strcspn(dash, ", \t\r\n"), dash)
                : YK_OK;
}

/* ---- --hosts ---- */

static yk_status count_hosts(const char *hosts, int64_t *out)
{
    yk_status st = check_names("--hosts", hosts);
    *out = 0;
    for (const char *at = hosts; !st && *at;) {
        const size_t n = strcspn(at, ",");
        const char *colon = memchr(at, ':', n);
        uint64_t slots = 1;
        if (n == 0 || colon == at || (colon && yk_digits(colon + 1, MAX_SLOTS, &slots) != at + n) || !slots)
            return yk_fail(YK_EUSAGE,
                           "--hosts %s: the value must be a list such as a,b:2 (one process on a, two on b)",
                           hosts);
        *out += (int64_t)slots;
        at += n + (at[n] == ',');
    }
    return st;
}

/* ---- --hostfile ---- */

/* The N of "HOST slots=N" or "HOST slots = N"; 0: unknown; mpirun may still understand the line. */
static int64_t slots_of(const char *line)
{
    uint64_t slots = 0;
    if (!isalnum((unsigned char)*line)) /* "^HOST" excludes a host */
        return 0;
    for (const char *word = line + strcspn(line, BLANKS); *(word += strspn(word, BLANKS));) {
        const size_t n = strcspn(word, BLANKS "=");
        const char *value = word + n + strspn(word + n, BLANKS);
        if (*value != '=') {
            word += n;
            continue;
        }
        value += 1 + strspn(value + 1, BLANKS);
        const size_t length = strcspn(value, BLANKS);
        if (n == 5 && strncmp(word, "slots", n) == 0)
            return yk_digits(value, MAX_SLOTS, &slots) == value + length ? (int64_t)slots : 0;
        word = value + length;
    }
    return 0;
}

static yk_status count_hostfile(const char *path, int64_t *out)
{
    char *line = NULL, from[PATH_MAX + 32];
    size_t cap = 0;
    struct stat s;
    bool known = true;
    yk_status st = YK_OK;
    *out = 0;
    if (stat(path, &s) == 0 && !S_ISREG(s.st_mode)) /* mpirun reads it again */
        return yk_fail(YK_EUSAGE, "%s: the hostfile is not a regular file", path);
    FILE *f = fopen(path, "re");
    if (!f)
        return yk_fail(YK_EUSAGE, "%s: cannot read the hostfile: %s", path, strerror(errno));
    for (int number = 1; !st && getline(&line, &cap, f) >= 0; number++) {
        char *comment = strstr(line, "//");
        line[comment ? comment - line : (ptrdiff_t)strlen(line)] = '\0';
        line[strcspn(line, "#")] = '\0';
        snprintf(from, sizeof from, "%s:%d", path, number);
        st = check_names(from, line);
        const char *host = line + strspn(line, BLANKS);
        const int64_t slots = *host ? slots_of(host) : 0;
        known &= !*host || slots > 0;
        *out += slots;
    }
    free(line);
    fclose(f);
    if (!known || *out > INT_MAX)
        *out = 0;
    return st;
}

/* ---- processes ---- */

yk_status yk_job_processes(const yk_config *c, int64_t *out)
{
    int64_t from_hosts = 0, from_file = 0;
    yk_status st = c->hosts ? count_hosts(c->hosts, &from_hosts) : YK_OK;
    if (!st && c->hostfile)
        st = count_hostfile(c->hostfile, &from_file);
    *out = c->join ? 1 : c->launch ? c->launch : c->hosts ? from_hosts : c->hostfile ? from_file : 1;
    return st;
}
