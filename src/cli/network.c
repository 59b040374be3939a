#include "cli/network.h"

#include "base/file.h"
#include "base/log.h"
#include "base/loopback.h"
#include "base/number.h"
#include "config/hosts.h"
#include <arpa/inet.h>
#include <ctype.h>
#include <errno.h>
#include <limits.h>
#include <netinet/in.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

/* base/loopback.c as a shared library, embedded by the build. */
extern const unsigned char yk_embedded_loopback_so[];
extern const unsigned long yk_embedded_loopback_so_size;

/* ---- a local job ---- */

static bool chose_interfaces(const yk_config *c)
{
    static const char *const names[] = {"OMPI_MCA_btl_tcp_if_include", "OMPI_MCA_btl_tcp_if_exclude",
                                        "OMPI_MCA_oob_tcp_if_include", "OMPI_MCA_oob_tcp_if_exclude",
                                        "PRTE_MCA_prte_if_include",    "PRTE_MCA_prte_if_exclude"};
    bool chosen = c->mpi_options && (strstr(c->mpi_options, "tcp_if_") || strstr(c->mpi_options, "prte_if_"));
    for (size_t i = 0; i < sizeof names / sizeof *names; i++)
        chosen |= getenv(names[i]) != NULL;
    return chosen;
}

static bool is_local(const yk_config *c)
{
    if (yk_names_hosts(c))
        return false;
    return c->network ? strcmp(c->network, "local") == 0 : !chose_interfaces(c);
}

/* Writes the library to a memory file, which needs no directory that allows execution. Child processes can load it from
 * `path` as long as this process exists. */
static bool write_library(char *path, size_t size)
{
    const int fd = memfd_create("yoke-loopback", MFD_CLOEXEC);
    snprintf(path, size, "/proc/%ld/fd/%d", (long)getpid(), fd);
    return fd >= 0 && write(fd, yk_embedded_loopback_so, yk_embedded_loopback_so_size) ==
                          (ssize_t)yk_embedded_loopback_so_size;
}

void yk_network_confine(const yk_config *c, bool joinable)
{
    char path[64], preload[4096];
    const char *before = getenv("LD_PRELOAD");
    unsetenv(YK_LOOPBACK);
    if (!is_local(c))
        return;
    if (!write_library(path, sizeof path)) {
        yk_warn("cannot restrict mpirun to the loopback address; it listens on all interfaces: %s",
                strerror(errno));
        return;
    }
    snprintf(preload, sizeof preload, "%s%s%s", path, before ? ":" : "", before ? before : "");
    setenv("LD_PRELOAD", preload, 1);
    setenv(YK_LOOPBACK, "1", 1);
    unsetenv("OMPI_MCA_btl_tcp_if_exclude"); /* Open MPI accepts only one of the two */
    unsetenv("OMPI_MCA_oob_tcp_if_exclude");
    setenv("OMPI_MCA_btl_tcp_if_include", "lo", 1);
    /* The mpirun of Open MPI 5 also listens for PMIx, on the address of one interface. */
    unsetenv("PMIX_MCA_ptl_base_if_exclude");
    setenv("PMIX_MCA_ptl_base_if_include", "lo", 1);
    if (joinable)
        setenv("OMPI_MCA_oob_tcp_if_include", "lo", 1);
    setenv("UCX_NET_DEVICES", "lo", 0); /* for MPICH: UCX listens on the address of each interface */
}

const char *yk_network_original_preload(void)
{
    const char *preload = getenv("LD_PRELOAD"), *rest = preload ? strchr(preload, ':') : NULL;
    return !getenv(YK_LOOPBACK) ? NULL : rest ? rest + 1 : "";
}

/* ---- joining ---- */

static bool is_loopback(const char *address)
{
    struct in_addr v4;
    struct in6_addr v6;
    if (inet_pton(AF_INET, address, &v4) == 1)
        return ntohl(v4.s_addr) >> 24 == IN_LOOPBACKNET;
    return inet_pton(AF_INET6, address, &v6) == 1 && IN6_IS_ADDR_LOOPBACK(&v6);
}

/* "444137472.0;tcp://127.0.0.1,10.0.0.1:43057;tcp6://[::1]:51233": checks that all addresses are loopback addresses. */
static bool all_loopback(const char *uri)
{
    char text[4096], *save = NULL, *more = NULL;
    snprintf(text, sizeof text, "%s", uri);
    bool any = false;
    strtok_r(text, ";", &save); /* skips the id of the name server */
    for (char *part; (part = strtok_r(NULL, ";", &save));) {
        char *list = strstr(part, "://"), *port = strrchr(part, ':');
        if (!list || port < list + 3)
            return false;
        *port = '\0';
        for (char *a = strtok_r(list + 3, ",[]", &more); a; a = strtok_r(NULL, ",[]", &more)) {
            any = true;
            if (!is_loopback(a))
                return false;
        }
    }
    return any;
}

yk_status yk_network_read_join(const char *path, bool any, char *out, size_t size)
{
    int fd;
    yk_status st = yk_file_open_regular(path, size - 1, &fd);
    if (st)
        return st;
    const ssize_t n = fd < 0 ? 0 : read(fd, out, size - 1);
    if (fd >= 0)
        close(fd);
    out[n > 0 ? n : 0] = '\0';
    out[strcspn(out, "\r\n")] = '\0';
    if (!*out)
        return yk_fail(YK_EUSAGE,
                       "%s: no asynchronous job that can be joined is running in this run directory; at its "
                       "start, a job "
                       "prints whether workers can join it, and if not, why",
                       path);
    for (const char *s = out; *s; s++)
        if (!isalnum((unsigned char)*s) && !strchr(".,;:/[]", *s))
            return yk_fail(YK_EDATA, "%s: not the address of a name server", path);
    const bool local = all_loopback(out);
    if (!local && !any)
        return yk_fail(
            YK_EUSAGE,
            "%s: the name server of the job may be on another host (%s); if you trust the run directory, "
            "join with --network any",
            path, out);
    if (local && any)
        return yk_fail(
            YK_EUSAGE,
            "%s: the job can be joined only from its own host: join it there without --network any, or start "
            "the job with --network any",
            path);
    return YK_OK;
}

void yk_network_join_obstacle(bool has_run_dir, const char *library, char *out, size_t size)
{
    uint64_t version;
    if (!has_run_dir)
        snprintf(out, size, "it has no run directory (--out)");
    else if (strncmp(library, "Open MPI", 8))
        snprintf(out, size, "%s cannot connect jobs; Open MPI 4 can", library);
    else if (yk_digits_after("Open MPI v", library, INT_MAX, &version) && version >= 5)
        snprintf(out, size,
                 "unlike Open MPI 4, %s has no name server (ompi-server). To add workers, stop the job and "
                 "resume it with more processes",
                 library);
    else
        snprintf(out, size,
                 "the name server of %s (ompi-server) did not start: it is in the package openmpi-bin",
                 library);
}
