#include "cli/output_filter.h"

#include "base/clock.h"
#include "base/mem.h"
#include "cli/job_status.h"
#include "cli/mpi_error.h"
#include <errno.h>
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

static bool shows_all(void)
{
    const char *value = getenv("YK_MPI_MESSAGES");
    return value && strcmp(value, "0");
}

/* A message of MPI. If MPI_Init fails, this is known only after some of them. */
static void pass(yk_output_filter *o, const char *text, size_t n)
{
    const size_t space = sizeof o->held - o->nheld, m = n < space ? n : space;
    o->init_failed |= yk_mpi_error_in_init(text, n);
    if (o->connected || shows_all())
        fwrite(text, 1, n, stderr);
    if (o->connected)
        return;
    memcpy(o->held + o->nheld, text, m);
    o->nheld += m;
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
    const bool before = o->connected;
    if (line[0] == '\001') { /* a message to the launcher: job_status.h */
        o->connected |= sscanf(line + 1, "connected %d", &o->workers) == 1;
        if (o->connected && !before) {
            release(o);
            o->nheld = 0;
        }
        o->training |= strncmp(line + 1, "training", 8) == 0;
        o->saving |= strncmp(line + 1, "saving", 6) == 0;
        o->saving &= strncmp(line + 1, "saved", 5) != 0;
        o->lost += strncmp(line + 1, "lost", 4) == 0;
        if (o->ended < 0 && o->workers && o->lost >= o->workers)
            o->ended = YK_ELOST;
        if (o->ended < 0)
            sscanf(line + 1, "ended %d", &o->ended);
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

static void read_results(yk_output_filter *o)
{
    ssize_t got;
    do {
        if (YK_RESERVE(o->result, o->result_cap, o->nresult + 4096, "results"))
            return;
        got = read(o->results, o->result + o->nresult, o->result_cap - o->nresult - 1);
        o->nresult += got > 0 ? (size_t)got : 0;
        o->result[o->nresult] = '\0';
    } while (got > 0);
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

/* The mpirun of Open MPI 5 may forward lines of stderr to stdout. */
static void take_messages(yk_output_filter *o)
{
    for (size_t at = 0, n; at < o->nresult; at += n) {
        const char *line = o->result + at, *end = memchr(line, '\n', o->nresult - at);
        char text[64];
        if (!end)
            return;
        n = (size_t)(end + 1 - line);
        if (line[0] != '\001')
            continue;
        snprintf(text, sizeof text, "%.*s", (int)n, line);
        handle_line(o, text, strlen(text));
        o->nresult -= n;
        memmove(o->result + at, end + 1, o->nresult - at);
        n = 0;
    }
}

void yk_output_filter_read(yk_output_filter *o)
{
    ssize_t got;
    read_results(o);
    take_messages(o);
    while ((got = read(o->from, o->text + o->n, sizeof o->text - 1 - o->n)) > 0) {
        o->last_output = yk_now();
        o->n += without_zeros(o->text + o->n, (size_t)got);
        o->text[o->n] = '\0';
        for (char *end; (end = memchr(o->text, '\n', o->n));) {
            const size_t line = (size_t)(end + 1 - o->text);
            handle_line(o, o->text, line);
            memmove(o->text, end + 1, o->n -= line);
        }
        if (o->n && (o->text[0] == '\r' || o->n == sizeof o->text - 1)) { /* a progress line has no newline */
            fwrite(o->text, 1, o->n, stderr);
            o->n = 0;
        }
    }
    fflush(stderr);
}

void yk_output_filter_wait(yk_output_filter *o, double seconds)
{
    enum { LAST_MS = 10 }; /* a job that has closed both is about to end */
    struct pollfd p[2] = {{.fd = o->from, .events = POLLIN}, {.fd = o->results, .events = POLLIN}};
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
    for (size_t at = 0, n; at < o->nresult; at += n) {
        const char *line = o->result + at, *end = memchr(line, '\n', o->nresult - at);
        n = end ? (size_t)(end + 1 - line) : o->nresult - at;
        if (file || o->in_block || is_dashes(line, n))
            handle_line(o, line, n);
        else
            ok &= fwrite(line, 1, n, stdout) == n;
    }
    if (file) {
        ok &= copy_results(file);
        yk_job_results_clear();
    }
    return fflush(stdout) == 0 && ok;
}

yk_status yk_output_filter_end(yk_output_filter *o)
{
    yk_output_filter_read(o);
    if (o->in_block) /* mpirun was killed within a message */
        end_block(o);
    o->in_block = false;
    release(o);
    fwrite(o->text, 1, o->n, stderr);
    const bool ok = forward_results(o);
    fflush(stderr);
    const int error = errno;
    free(o->result);
    close(o->from);
    close(o->results);
    return ok ? YK_OK : yk_fail(YK_ESYSTEM, "cannot write the results to stdout: %s", strerror(error));
}
