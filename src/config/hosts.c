#include "config/hosts.h"

#include "base/mem.h"
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

typedef struct {
    yk_host *host;
    size_t n, cap;
} list;

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

static yk_status add(list *l, const char *name, size_t n, int slots)
{
    yk_host host = {.processes = slots};
    snprintf(host.name, sizeof host.name, "%.*s", (int)n, name);
    for (size_t i = 0; i < l->n; i++)
        if (strcmp(l->host[i].name, host.name) == 0)
            return l->host[i].processes += slots, YK_OK;
    if (YK_RESERVE(l->host, l->cap, l->n + 1, "the hosts of a job"))
        return YK_ESYSTEM;
    l->host[l->n++] = host;
    return YK_OK;
}

/* ---- --hosts ---- */

static yk_status read_hosts(const char *hosts, list *out)
{
    yk_status st = check_names("--hosts", hosts);
    for (const char *at = hosts; !st && *at;) {
        const bool bracket = *at == '[';
        const size_t n = strcspn(at, ","), name = strcspn(at, bracket ? "]" : ":,");
        const char *rest = at + name + bracket; /* ":2" */
        uint64_t slots = 1;
        if (name < 1 + (size_t)bracket || name >= sizeof out->host->name || name + bracket > n ||
            (rest != at + n && (*rest != ':' || yk_digits(rest + 1, MAX_SLOTS, &slots) != at + n)) || !slots)
            return yk_fail(
                YK_EUSAGE,
                "--hosts %s: the value must be a list such as a,b:2 (one process on a, two on b), or [::1]:2",
                hosts);
        st = add(out, at + bracket, name - bracket, (int)slots);
        at += n + (at[n] == ',');
    }
    return st;
}

/* ---- --hostfile ---- */

/* The N of "slots=N" or "slots = N" among the words of a line; 1: none; 0: not a number. */
static int slots_of(const char *line)
{
    uint64_t slots = 0;
    for (const char *word = line; (word = strstr(word, "slots")); word++) {
        const char *value = word + 5 + strspn(word + 5, BLANKS);
        if ((word > line && !strchr(BLANKS, word[-1])) || *value != '=')
            continue;
        value += 1 + strspn(value + 1, BLANKS);
        return yk_digits(value, MAX_SLOTS, &slots) == value + strcspn(value, BLANKS) ? (int)slots : 0;
    }
    return 1;
}

static yk_status read_line(const char *from, char *line, list *out)
{
    char *comment = strstr(line, "//");
    line[comment ? comment - line : (ptrdiff_t)strlen(line)] = '\0';
    line[strcspn(line, "#")] = '\0';
    const char *host = line + strspn(line, BLANKS);
    const size_t n = strcspn(host, BLANKS "=");
    const char *colon = memchr(host, ':', n);
    const bool numbered =
        colon && !memchr(colon + 1, ':', n - (size_t)(colon + 1 - host)); /* HOST:N; not IPv6 */
    const yk_status st = check_names(from, line);
    if (st || !*host)
        return st;
    const int slots = slots_of(host + n);
    if (!isalnum((unsigned char)*host) || numbered || !slots || n >= sizeof out->host->name)
        return yk_fail(YK_EUSAGE, "%s: a line must be of the form HOST slots=N", from);
    return add(out, host, n, slots);
}

static yk_status read_hostfile(const char *path, list *out)
{
    char *line = NULL, from[PATH_MAX + 32];
    size_t cap = 0;
    struct stat s;
    yk_status st = YK_OK;
    if (stat(path, &s) == 0 && !S_ISREG(s.st_mode)) /* it is read more than once */
        return yk_fail(YK_EUSAGE, "%s: the hostfile is not a regular file", path);
    FILE *f = fopen(path, "re");
    if (!f)
        return yk_fail(YK_EUSAGE, "%s: cannot read the hostfile: %s", path, strerror(errno));
    for (int number = 1; !st && getline(&line, &cap, f) >= 0; number++) {
        snprintf(from, sizeof from, "%s:%d", path, number);
        st = read_line(from, line, out);
    }
    free(line);
    fclose(f);
    return !st && !out->n ? yk_fail(YK_EUSAGE, "%s: the hostfile names no host", path) : st;
}

/* ---- processes ---- */

/* --launch N: the first N slots. */
static yk_status limit(const yk_config *c, list *l)
{
    int64_t left = c->launch;
    for (size_t i = 0; i < l->n; i++) {
        if (left <= l->host[i].processes) {
            l->host[i].processes = (int)left;
            l->n = i + 1;
            return YK_OK;
        }
        left -= l->host[i].processes;
    }
    return yk_fail(YK_EUSAGE,
                   "--launch %lld: the hosts have only %lld slot%s; give them more (--hosts a:4,b:4), or use "
                   "--launch %lld",
                   (long long)c->launch, (long long)(c->launch - left),
                   yk_plural((uint64_t)(c->launch - left)), (long long)(c->launch - left));
}

yk_status yk_job_hosts(const yk_config *c, yk_host **out, size_t *n_out)
{
    list l = {0};
    yk_status st = c->hosts      ? read_hosts(c->hosts, &l)
                   : c->hostfile ? read_hostfile(c->hostfile, &l)
                                 : add(&l, "", 0, c->launch && !c->join ? (int)c->launch : 1);
    if (!st && yk_names_hosts(c) && c->launch)
        st = limit(c, &l);
    if (st) {
        free(l.host);
        return st;
    }
    *out = l.host;
    *n_out = l.n;
    return YK_OK;
}

yk_status yk_job_processes(const yk_config *c, int64_t *out)
{
    yk_host *host = NULL;
    size_t n = 0;
    const yk_status st = c->join ? YK_OK : yk_job_hosts(c, &host, &n);
    *out = c->join ? 1 : 0;
    for (size_t i = 0; !st && i < n; i++)
        *out += host[i].processes;
    free(host);
    return st;
}
