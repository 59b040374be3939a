#include "comm/rendezvous.h"

#include "base/dir.h"
#include "base/file.h"
#include "base/number.h"
#include "base/wait.h"
#include <ctype.h>
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/random.h>
#include <sys/stat.h>
#include <unistd.h>

/* ---- variables ---- */

static const char *variable(const char *name)
{
    const char *text = name ? getenv(name) : NULL;
    return text && *text ? text : NULL;
}

/* Unset: *out does not change. */
static yk_status number(const char *name, int max, int *out)
{
    const char *text = variable(name), *rest;
    uint64_t n = 0;
    if (!text)
        return YK_OK;
    rest = yk_digits(text, (uint64_t)max, &n);
    if (!rest || *rest)
        return yk_fail(YK_EUSAGE,
                       "%s=%s must be a whole number from 0 to %d; the engine that starts the job sets it",
                       name, text, max);
    *out = (int)n;
    return YK_OK;
}

/* ---- where rank 0 listens ---- */

/* A name for an abstract Unix socket, from what identifies a job. */
static void on_this_host(yk_rendezvous *r, const char *id)
{
    snprintf(r->master, sizeof r->master, "unix:yoke-%u-%.70s", (unsigned)getuid(), id);
}

static void at_port(yk_rendezvous *r, const char *host, int port)
{
    const bool bare = strchr(host, ':') && *host != '['; /* an IPv6 address */
    snprintf(r->master, sizeof r->master, bare ? "[%.250s]:%d" : "%.250s:%d", host, port);
}

static yk_status of_launcher(yk_rendezvous *r)
{
    const char *master = variable("YOKE_MASTER");
    snprintf(r->master, sizeof r->master, "%s", master ? master : "");
    return number("YOKE_LISTEN_FD", INT_MAX, &r->listen_fd);
}

/* "node[01-03,7]-a,x": the first host is node01-a. */
static void first_host(const char *list, char *out, size_t size)
{
    size_t n = 0;
    for (; *list && *list != ',' && n + 1 < size; list++) {
        if (*list == '[') {
            const size_t digits = strcspn(++list, "-,]");
            n += (size_t)snprintf(out + n, size - n, "%.*s", (int)digits, list);
            list += strcspn(list, "]");
            if (!*list)
                break;
        } else {
            out[n++] = *list;
        }
    }
    out[n < size ? n : size - 1] = '\0';
}

/* Identifies a step, and each attempt to run it. */
static void slurm_step(char *out, size_t size)
{
    const char *job = variable("SLURM_JOB_ID"), *step = variable("SLURM_STEP_ID"),
               *restart = variable("SLURM_RESTART_COUNT");
    snprintf(out, size, "%s.%s.%s", job ? job : "0", step ? step : "0", restart ? restart : "0");
}

static yk_status of_slurm(yk_rendezvous *r)
{
    const char *list = variable("SLURM_STEP_NODELIST");
    char step[64], host[256];
    int job = 0, number_in_job = 0, port = 0;
    yk_status st = number("YOKE_PORT", 65535, &port);
    slurm_step(step, sizeof step);
    r->slurm = true;
    if (st || r->local_size == r->size)
        return on_this_host(r, step), st;
    if ((st = number("SLURM_JOB_ID", INT_MAX, &job)) ||
        (st = number("SLURM_STEP_ID", INT_MAX, &number_in_job)))
        return st;
    first_host(list ? list : "", host, sizeof host);
    /* below the ephemeral ports */
    if (*host)
        at_port(r, host,
                port ? port : 16384 + (int)(((unsigned)job * 61u + (unsigned)number_in_job) % 16384u));
    return YK_OK;
}

/* MPI connects the processes. Without the plug-in, they can still find each other on one host, or under Slurm. */
static yk_status of_mpi(yk_rendezvous *r)
{
    const char *name = variable("PMIX_NAMESPACE");
    char parent[600], id[64];
    uint64_t since = 0;
    r->mpi = true;
    if (!variable("OMPI_COMM_WORLD_RANK") && variable("SLURM_PROCID") && !variable("MPI_LOCALNRANKS"))
        return of_slurm(r);
    if (r->local_size != r->size)
        return YK_OK;
    if (yk_file_text(parent, sizeof parent, "/proc/%d/stat", (int)getppid()) && strrchr(parent, ')'))
        yk_word_digits(strrchr(parent, ')'), 20, &since); /* field 22 */
    snprintf(id, sizeof id, "%d-%llu", (int)getppid(), (unsigned long long)since);
    on_this_host(r, name ? name : id);
    return YK_OK;
}

static yk_status of_torch(yk_rendezvous *r)
{
    const char *host = variable("MASTER_ADDR");
    char id[128];
    int own = 0, port = 0;
    yk_status st = number("YOKE_PORT", 65535, &own);
    if (st || (st = number("MASTER_PORT", 65534, &port)))
        return st;
    if (!host || !(own || port))
        return yk_fail(
            YK_EUSAGE,
            "%s started %d processes, but %s is not set: set MASTER_ADDR to the host of rank 0, and "
            "YOKE_PORT or MASTER_PORT",
            r->engine, r->size, host ? "YOKE_PORT or MASTER_PORT" : "MASTER_ADDR");
    at_port(r, host, own ? own : port + 1); /* the agent of torchrun listens at MASTER_PORT */
    snprintf(id, sizeof id, "%.100s", r->master);
    if (r->local_size == r->size)
        on_this_host(r, id);
    return YK_OK;
}

/* ---- engines ---- */

static const struct {
    const char *engine, *rank, *size, *local_rank, *local_size;
    yk_status (*find_master)(yk_rendezvous *r);
} engines[] = {
    {"yoke's launcher", "YOKE_RANK", "YOKE_SIZE", "YOKE_LOCAL_RANK", "YOKE_LOCAL_SIZE", of_launcher},
    {"Open MPI's mpirun", "OMPI_COMM_WORLD_RANK", "OMPI_COMM_WORLD_SIZE", "OMPI_COMM_WORLD_LOCAL_RANK",
     "OMPI_COMM_WORLD_LOCAL_SIZE", of_mpi},
    {"srun --mpi=pmix", "PMIX_RANK", "SLURM_STEP_NUM_TASKS", "SLURM_LOCALID", NULL, of_mpi},
    {"MPICH's mpirun or srun --mpi=pmi2", "PMI_RANK", "PMI_SIZE", "MPI_LOCALRANKID", "MPI_LOCALNRANKS",
     of_mpi},
    {"torchrun", "RANK", "WORLD_SIZE", "LOCAL_RANK", "LOCAL_WORLD_SIZE", of_torch},
    {"a Kubernetes Job", "JOB_COMPLETION_INDEX", "WORLD_SIZE", NULL, NULL, of_torch},
    {"srun", "SLURM_PROCID", "SLURM_STEP_NUM_TASKS", "SLURM_LOCALID", NULL, of_slurm},
};
enum { ENGINES = sizeof engines / sizeof *engines };

/* MPI itself knows the size. */
static int find_engine(void)
{
    for (int i = 0; i < ENGINES; i++)
        if (variable(engines[i].rank) && (engines[i].find_master == of_mpi || variable(engines[i].size)))
            return i;
    return -1;
}

bool yk_rendezvous_is_complete(void)
{
    const int i = find_engine();
    return i >= 0 && (engines[i].find_master != of_torch ||
                      (variable("MASTER_ADDR") && (variable("YOKE_PORT") || variable("MASTER_PORT"))));
}

/* With a size but no rank, each process would train alone. */
static yk_status check_no_engine(void)
{
    int size = 0;
    const yk_status st = number("WORLD_SIZE", 1 << 16, &size);
    if (st || size < 2)
        return st;
    return yk_fail(YK_EUSAGE,
                   "WORLD_SIZE=%d, but RANK (in a Kubernetes Job: JOB_COMPLETION_INDEX) is not set: set both "
                   "for each process of the job, or neither",
                   size);
}

yk_status yk_rendezvous_read(yk_rendezvous *out)
{
    const int i = find_engine();
    *out = (yk_rendezvous){.listen_fd = -1};
    if (i < 0)
        return check_no_engine();
    yk_rendezvous r = {.engine = engines[i].engine, .size = 1, .listen_fd = -1};
    const struct {
        const char *name;
        int *out;
    } value[] = {{engines[i].size, &r.size},
                 {engines[i].rank, &r.rank},
                 {engines[i].local_rank, &r.local_rank},
                 {engines[i].local_size, &r.local_size}};
    yk_status st = YK_OK;
    for (size_t k = 0; !st && k < sizeof value / sizeof *value; k++)
        st = number(value[k].name, 1 << 16, value[k].out);
    if (st)
        return st;
    const char *nodes = engines[i].local_size ? NULL : variable("SLURM_STEP_NUM_NODES");
    if (nodes && strcmp(nodes, "1") == 0)
        r.local_size = r.size;
    if (r.rank >= r.size && variable(engines[i].size))
        return yk_fail(YK_EUSAGE,
                       "%s=%d must be less than %s=%d: ranks are numbered from 0; set both for each process "
                       "of the job, or none",
                       engines[i].rank, r.rank, engines[i].size, r.size);
    const bool job = r.size > 1 || i == 0 || engines[i].find_master == of_mpi;
    if (job && !(st = engines[i].find_master(&r)))
        *out = r;
    return st;
}

/* ---- the token ---- */

yk_status yk_token_create(char *out)
{
    unsigned char random[YK_TOKEN_BYTES];
    if (getrandom(random, sizeof random, 0) != sizeof random)
        return yk_fail(YK_ESYSTEM, "cannot create the job token: getrandom: %s", strerror(errno));
    for (int i = 0; i < YK_TOKEN_BYTES; i++)
        snprintf(out + 2 * i, 3, "%02x", random[i]);
    return YK_OK;
}

const char *yk_token_parse(const char *text, char *out)
{
    const size_t n = YK_TOKEN_TEXT - 1;
    if (strspn(text, "0123456789abcdefABCDEF") != n || !strchr(" \r\n", text[n])) /* or the end */
        return NULL;
    for (size_t i = 0; i < n; i++)
        out[i] = (char)tolower(text[i]);
    out[n] = '\0';
    return text + n;
}

yk_status yk_token_text(const char *what, const char *path, char *out, size_t size)
{
    struct stat file = {0};
    const int fd = open(path, O_RDONLY | O_CLOEXEC | O_NONBLOCK | O_NOCTTY);
    const ssize_t n = fd < 0 || fstat(fd, &file) ? -1 : read(fd, out, size - 1);
    const int error = errno;
    if (fd >= 0)
        close(fd);
    out[n > 0 ? n : 0] = '\0';
    if (n < 0)
        return yk_fail(YK_EUSAGE, "%s: cannot read %s: %s", what, path, strerror(error));
    if (file.st_uid != geteuid() && file.st_uid != 0)
        return yk_fail(YK_EUSAGE,
                       "%s: %s belongs to another user, who could have changed it; use a copy that you own",
                       what, path);
    if (!S_ISREG(file.st_mode) || file.st_mode & 037)
        return yk_fail(YK_EUSAGE,
                       "%s: others can read or change %s (mode %03o), which contains a job token; run "
                       "chmod 600 on it",
                       what, path, (unsigned)file.st_mode & 0777);
    return YK_OK;
}

yk_status yk_token_file(const char *what, const char *path, char *out)
{
    char text[YK_TOKEN_TEXT + 1];
    const yk_status st = yk_token_text(what, path, text, sizeof text);
    if (!st && !yk_token_parse(text, out))
        return yk_fail(YK_EUSAGE,
                       "%s: %s does not begin with a job token of %d hexadecimal digits; create one with: "
                       "openssl rand -hex %d",
                       what, path, 2 * YK_TOKEN_BYTES, YK_TOKEN_BYTES);
    return st;
}

/* Slurm: rank 0 writes it to a file with the step that it is for, because a file of an earlier job may be there. */
static yk_status share_token(yk_rendezvous *r, const char *run_dir, double timeout)
{
    char step[64], end[80], path[PATH_MAX], text[YK_TOKEN_TEXT + 80];
    slurm_step(step, sizeof step);
    snprintf(end, sizeof end, " %s\n", step);
    snprintf(path, sizeof path, "%s/token", run_dir);
    yk_status st = YK_OK;
    if (r->rank == 0) {
        if ((st = yk_token_create(r->token)) || (st = yk_dir_make(run_dir)))
            return st;
        snprintf(text, sizeof text, "%s%s", r->token, end);
        return yk_file_save_private(run_dir, "token", text);
    }
    for (yk_wait w = yk_wait_every(0.02, timeout); yk_wait_poll(&w);) {
        const char *rest = NULL;
        if (access(path, F_OK) == 0 && !(st = yk_token_text("the job token", path, text, sizeof text)))
            rest = yk_token_parse(text, r->token);
        if (st)
            return st;
        if (rest && strcmp(rest, end) == 0)
            return YK_OK;
    }
    return yk_fail(YK_ELOST,
                   "rank 0 did not write the job token to %s within %.0f s: it has died, or --out is not on "
                   "storage that all "
                   "hosts share; use shared storage, or set YOKE_TOKEN_FILE",
                   path, timeout);
}

yk_status yk_rendezvous_token(yk_rendezvous *r, const char *run_dir, double timeout)
{
    char *text = getenv("YOKE_TOKEN");
    const char *file = variable("YOKE_TOKEN_FILE");
    if (text && *text) {
        const char *rest = yk_token_parse(text, r->token);
        memset(text, '*', strlen(text)); /* in /proc/PID/environ, too */
        unsetenv("YOKE_TOKEN");
        if (!rest)
            return yk_fail(
                YK_EUSAGE,
                "YOKE_TOKEN must have %d hexadecimal digits; create one with: openssl rand -hex %d",
                2 * YK_TOKEN_BYTES, YK_TOKEN_BYTES);
        return YK_OK;
    }
    if (file)
        return yk_token_file("YOKE_TOKEN_FILE", file, r->token);
    if (strncmp(r->master, "unix:", 5) == 0)
        return YK_OK; /* the processes of this user on this host are trusted */
    if (r->slurm && run_dir)
        return share_token(r, run_dir, timeout);
    return yk_fail(YK_EUSAGE,
                   "%s started %d processes, perhaps on several hosts, but there is no job token: put the "
                   "output of 'openssl rand -hex %d' into a file that only you can read, and set "
                   "YOKE_TOKEN_FILE to its path, or YOKE_TOKEN to its contents%s",
                   r->engine, r->size, YK_TOKEN_BYTES,
                   r->slurm ? "; or give --out DIR on shared storage" : "");
}

void yk_rendezvous_done(const yk_rendezvous *r, const char *run_dir)
{
    if (r->slurm && r->rank == 0 && run_dir)
        yk_remove_in(run_dir, "token");
}
