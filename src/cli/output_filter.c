#include "cli/output_filter.h"

#include "base/clock.h"
#include "base/mem.h"
#include "base/number.h"
#include "cli/job_status.h"
#include <errno.h>
#include <limits.h>
#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

static bool has(const char *text, size_t n, const char *const *known)
{
    for (; *known; known++)
        if (memmem(text, n, *known, strlen(*known)))
            return true;
    return false;
}

/* "mpirun noticed that process rank 2 with PID 0 on node x exited on signal 9 (Killed)." without "mpirun noticed that" */
static void save_death_message(yk_output_filter *o)
{
    const char *at = memmem(o->block, o->nblock, "process rank ", 13);
    if (!at || *o->died)
        return;
    size_t n = 0;
    for (; at < o->block + o->nblock && *at != '.' && n < sizeof o->died - 1; at++)
        if (*at != '\n' || (n && o->died[n - 1] != ' '))
            o->died[n++] = *at == '\n' ? ' ' : *at;
    o->died[n] = '\0';
    char *none = strstr(o->died, " with PID 0"); /* mpirun does not know the process id */
    if (none)
        memmove(none, none + 11, strlen(none + 11) + 1);
}

static void add_place(yk_output_filter *o, const char *line)
{
    enum { MAX_RANKS = 1 << 16 };
    uint64_t rank, daemon;
    const char *name = yk_word(line, 2);
    if (!name || !yk_word_digits(line, 0, &rank) || !yk_word_digits(line, 1, &daemon) || rank >= MAX_RANKS ||
        YK_RESERVE(o->place, o->place_cap, rank + 1, "the hosts of a job"))
        return;
    for (; o->places <= rank; o->places++)
        o->place[o->places] = (yk_rank_place){.host = ""};
    yk_rank_place *p = &o->place[rank];
    p->daemon = (int)daemon;
    snprintf(p->host, sizeof p->host, "%.*s", (int)strcspn(name, "\n"), name);
}

/* "ranks 2, 3 on host b, rank 4 on host c were lost: ..." If it is too long, nothing is named. */
void yk_output_filter_name_lost(yk_output_filter *o)
{
    yk_text t = {0};
    int hosts = 0;
    for (size_t i = 0; i < o->places; i++) {
        const yk_rank_place *first = &o->place[i];
        if (!first->lost)
            continue;
        int ranks = 0;
        for (size_t r = i; r < o->places; r++)
            ranks += o->place[r].lost && o->place[r].daemon == first->daemon;
        const char *before = " ";
        yk_text_print(&t, "%srank%s", hosts++ ? ", " : "", ranks > 1 ? "s" : "");
        for (size_t r = i; r < o->places; r++) {
            yk_rank_place *p = &o->place[r];
            if (!p->lost || p->daemon != first->daemon)
                continue;
            yk_text_print(&t, "%s%zu", before, r);
            before = ", ";
            p->lost = false; /* named */
        }
        yk_text_print(&t, " on host %s", first->host);
    }
    yk_text_print(&t, " were lost: %s has died, or cannot be reached",
                  hosts > 1 ? "at least one of these hosts" : "the host");
    if (hosts && !*o->died && !t.status && t.n < sizeof o->died)
        memcpy(o->died, t.s, t.n + 1);
    yk_text_fini(&t);
}

/* "Remote daemon: [[25139,0],2] on node b" */
static void mark_lost_daemon(yk_output_filter *o)
{
    uint64_t daemon;
    const char *at = memmem(o->block, o->nblock, "Remote daemon", 13);
    at = at ? memmem(at, o->nblock - (size_t)(at - o->block), "],", 2) : NULL;
    if (!at || !yk_digits(at + 2, INT_MAX, &daemon))
        return;
    for (size_t r = 0; r < o->places; r++)
        o->place[r].lost = *o->place[r].host && o->place[r].daemon == (int)daemon;
    yk_output_filter_name_lost(o);
}

static bool shows_all(void)
{
    const char *value = getenv("YK_MPI_MESSAGES");
    return value && strcmp(value, "0");
}

/* A message of MPI. If MPI_Init fails, this is known only after some of them. */
static void pass(yk_output_filter *o, const char *text, size_t n)
{
    static const char *const known[] = {
        "MPI_INIT failed", "MPI_INIT has failed", "An error occurred in MPI_Init",
        "MPI job is now going to abort", /* no transport; others may be lost */
        NULL};
    const size_t space = sizeof o->held - 1 - o->nheld, m = n < space ? n : space;
    o->init_failed |= has(text, n, known);
    if (o->connected || shows_all())
        fwrite(text, 1, n, stderr);
    if (o->connected)
        return;
    memcpy(o->held + o->nheld, text, m);
    o->nheld += m;
    o->held[o->nheld] = '\0';
}

/* Shows the messages that waited, unless the launcher explains them. */
static void release(yk_output_filter *o)
{
    if (!o->init_failed && !o->unreachable && !shows_all())
        fwrite(o->held, 1, o->nheld, stderr);
}

static void end_block(yk_output_filter *o)
{
    static const char *const known[] = {"noticed that process rank",
                                        "MPI_ABORT was invoked",
                                        "improperly",
                                        "Primary job  terminated normally",
                                        " detected that one or more processes", /* mpirun, or mpiexec */
                                        "lost communication with",
                                        "unable to reliably start", /* see yk_output_filter.unreachable */
                                        NULL};
    o->unreachable |=
        memmem(o->block, o->nblock, "unable to reliably start", 24) != NULL ||
        (!o->connected && memmem(o->block, o->nblock, "lost communication with a remote daemon", 39));
    if (memmem(o->block, o->nblock, "noticed that process rank", 25))
        save_death_message(o);
    if (memmem(o->block, o->nblock, "lost communication with a remote daemon", 39))
        mark_lost_daemon(o);
    if (!has(o->block, o->nblock, known) || shows_all())
        pass(o, o->block, o->nblock);
    o->nblock = 0;
}

static bool is_dashes(const char *line, size_t n)
{
    size_t dashes = 0;
    while (dashes < n && line[dashes] == '-')
        dashes++;
    return n > 40 && dashes >= n - 1;
}

static void handle_line(yk_output_filter *o, const char *line, size_t n)
{
    /* internal messages of Open MPI */
    static const char *const known[] = {"PMIX ERROR: ",
                                        "[warn] Epoll ",
                                        "event_base_loop: ",
                                        "ORTE_ERROR_LOG",
                                        "Forwarding signal ",
                                        "] Read -1, expected ",
                                        "] pmix_ptl_base: ",
                                        " sent help message help-",
                                        "] plm:rsh: Warning: ",
                                        "_base_help_aggregate\" to 0",
                                        NULL};
    static const char *const errors[] = {"] *** ", "Local abort before MPI_INIT", NULL};
    if (line[0] == '\001') { /* a message to the launcher: job_status.h */
        uint64_t number;
        if (yk_digits_after("connected ", line + 1, INT_MAX, &number)) {
            release(o); /* later, nothing waits */
            o->connected = true;
            o->workers = (int)number;
            o->nheld = 0;
            *o->held = '\0';
        }
        add_place(o, line + 1);
        o->training |= strncmp(line + 1, "training", 8) == 0;
        o->saving |= strncmp(line + 1, "saving", 6) == 0;
        o->saving &= strncmp(line + 1, "saved", 5) != 0;
        o->lost += strncmp(line + 1, "lost", 4) == 0;
        if (o->ended < 0 && o->workers && o->lost >= o->workers)
            o->ended = YK_ELOST;
        if (o->ended < 0 && yk_digits_after("ended ", line + 1, INT_MAX, &number))
            o->ended = (int)number;
        return;
    }
    if (is_dashes(line, n)) {
        if (o->in_block)
            end_block(o);
        o->in_block = !o->in_block;
    } else if (o->in_block) {
        const size_t space = sizeof o->block - o->nblock, m = n < space ? n : space;
        memcpy(o->block + o->nblock, line, m);
        o->nblock += m;
    } else if (has(line, n, errors) || strncmp(line, "*** ", 4) == 0) {
        pass(o, line, n);
    } else if (!has(line, n, known) || shows_all()) {
        fwrite(line, 1, n, stderr);
    }
}

/* Open MPI 5 writes a zero byte after some of its messages. */
static size_t without_zeros(char *text, size_t n)
{
    size_t left = 0;
    for (size_t i = 0; i < n; i++)
        if (text[i])
            text[left++] = text[i];
    return left;
}

static void read_pipe(yk_output_filter *o, yk_output_pipe *p)
{
    ssize_t got;
    while ((got = read(p->fd, p->text + p->n, sizeof p->text - 1 - p->n)) > 0) {
        o->last_output = yk_now();
        p->n += without_zeros(p->text + p->n, (size_t)got);
        p->text[p->n] = '\0';
        while (p->n) {
            const char *end = memchr(p->text, '\n', p->n);
            if (!end && p->text[0] != '\r' && p->n < sizeof p->text - 1) /* a progress line has no newline */
                break;
            const size_t n = end ? (size_t)(end + 1 - p->text) : p->n;
            /* the mpirun of Open MPI 5 may forward lines of stderr to stdout */
            if (p == &o->out && p->text[0] != '\001')
                yk_text_put(&o->results, p->text, n);
            else if (end)
                handle_line(o, p->text, n);
            else
                fwrite(p->text, 1, n, stderr);
            p->n -= n;
            memmove(p->text, p->text + n, p->n);
        }
    }
}

void yk_output_filter_read(yk_output_filter *o)
{
    read_pipe(o, &o->out);
    read_pipe(o, &o->err);
    fflush(stderr);
}

void yk_output_filter_wait(yk_output_filter *o, double seconds)
{
    enum { LAST_MS = 10 }; /* a job that has closed both is about to end */
    struct pollfd p[2] = {{.fd = o->err.fd, .events = POLLIN}, {.fd = o->out.fd, .events = POLLIN}};
    const int ms = (int)(seconds * 1e3);
    for (int closed = 0; poll(p, 2, closed == 2 && ms > LAST_MS ? LAST_MS : ms) > 0;) {
        for (int i = 0; i < 2; i++) {
            if (p[i].revents & POLLIN)
                return;
            if (p[i].revents) { /* a closed pipe is always ready */
                p[i].fd = -1;
                closed++;
            }
        }
    }
}

static bool copy_results(FILE *from)
{
    char text[4096];
    bool ok = true;
    for (size_t n; (n = fread(text, 1, sizeof text, from));)
        ok &= fwrite(text, 1, n, stdout) == n;
    return fclose(from) == 0 && ok;
}

/* Prints the results. mpirun may have written messages to stdout, too; if the results are in a file, everything else is a
 * message. */
static bool forward_results(yk_output_filter *o)
{
    FILE *file = yk_job_results();
    bool ok = true;
    yk_text_put(&o->results, o->out.text, o->out.n);
    for (size_t at = 0, n; at < o->results.n; at += n) {
        const char *line = o->results.s + at, *end = memchr(line, '\n', o->results.n - at);
        n = end ? (size_t)(end + 1 - line) : o->results.n - at;
        if (file || o->in_block || is_dashes(line, n))
            handle_line(o, line, n);
        else
            ok &= fwrite(line, 1, n, stdout) == n;
    }
    if (file)
        ok &= copy_results(file);
    return fflush(stdout) == 0 && ok;
}

yk_status yk_output_filter_end(yk_output_filter *o)
{
    yk_output_filter_read(o);
    if (o->in_block) /* mpirun was killed within a message */
        end_block(o);
    o->in_block = false;
    release(o);
    fwrite(o->err.text, 1, o->err.n, stderr);
    const bool ok = forward_results(o);
    fflush(stderr);
    const int error = errno;
    yk_text_fini(&o->results);
    free(o->place);
    o->place = NULL;
    o->places = 0;
    close(o->err.fd);
    close(o->out.fd);
    return ok ? YK_OK : yk_fail(YK_ESYSTEM, "cannot write the results to stdout: %s", strerror(error));
}

/* ---- why MPI could not start ---- */

/* The rest of the line after `label`, without blanks around it, for "%.*s"; the length is 0 if there is none. */
static int value_of(const char *text, const char *label, const char **out)
{
    enum { MAX = 100 };
    const char *at = strstr(text, label);
    if (!at)
        return 0;
    at += strlen(label);
    at += strspn(at, " ");
    int n = (int)strcspn(at, "\n");
    n = n < MAX ? n : MAX;
    while (n > 0 && at[n - 1] == ' ')
        n--;
    *out = at;
    return n;
}

/* The line before the one at this position: "  mca_pml_base_open() failed". */
static int line_before(const char *text, const char *at, const char **out)
{
    while (at > text && at[-1] != '\n')
        at--;
    const char *stop = at > text ? at - 1 : at, *begin = stop;
    while (begin > text && begin[-1] != '\n')
        begin--;
    while (begin < stop && *begin == ' ')
        begin++;
    *out = begin;
    return (int)(stop - begin < 100 ? stop - begin : 100);
}

void yk_output_filter_reason(const yk_output_filter *o, char *out, size_t size)
{
    const char *text = o->held, *a, *b;
    int x, y;
    *out = '\0';
    if ((x = value_of(text, "Framework:", &a)) && (y = value_of(text, "Component:", &b))) {
        snprintf(out, size, "the component '%.*s' of the framework '%.*s' was not found", y, b, x, a);
    } else if ((x = value_of(text, "BTLs attempted:", &a))) {
        snprintf(out, size, "processes cannot reach each other over the allowed transports (%.*s)", x, a);
    } else if ((x = value_of(text, "--> Returned", &a))) {
        y = line_before(text, a, &b);
        const char *instead = memmem(a, (size_t)x, " (", 2);
        snprintf(out, size, "%.*s: %.*s", y, b, (int)(instead ? instead - a : x), a);
    }
}
