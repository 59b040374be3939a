#include "watch/proc.h"

#include "base/clock.h"
#include "base/file.h"
#include "base/number.h"
#include "base/rng.h"
#include <dirent.h>
#include <limits.h>
#include <math.h>
#include <stdio.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <unistd.h>

enum { TEXT = 64 << 10 }; /* the start of a file, which has all that is needed */

/* Reads PROC/NAME; false: it cannot be read. */
static bool contents(char text[TEXT], const char *proc, const char *name)
{
    return yk_file_text(text, TEXT, "%s/%s", proc, name);
}

/* The number after a name; NaN: missing. */
static double number_after(const char *text, const char *name)
{
    const char *at = strstr(text, name);
    uint64_t number;
    return at && yk_word_digits(at + strlen(name), 0, &number) ? (double)number : (double)NAN;
}

uint64_t yk_network_id(const char *proc)
{
    char boot[64] = "";
    struct stat s;
    if (stat(yk_path_of("%s/self/ns/net", proc).s, &s))
        return 0;
    yk_file_text(boot, sizeof boot, "%s/sys/kernel/random/boot_id", proc);
    uint64_t hash = (uint64_t)s.st_ino;
    for (const char *c = boot; *c; c++)
        hash = yk_mix64(hash + (unsigned char)*c);
    return (hash >> 11) | 1;
}

/* ---- the process */

static void read_self(const char *proc, char text[TEXT], yk_proc_sample *out)
{
    struct rusage u;
    if (getrusage(RUSAGE_SELF, &u) == 0) {
        out->user = (double)u.ru_utime.tv_sec + (double)u.ru_utime.tv_usec * 1e-6;
        out->system = (double)u.ru_stime.tv_sec + (double)u.ru_stime.tv_usec * 1e-6;
        out->rss_peak = (double)u.ru_maxrss * 1024.0;
        out->voluntary_switches = (double)u.ru_nvcsw;
        out->involuntary_switches = (double)u.ru_nivcsw;
        out->major_faults = (double)u.ru_majflt;
    }
    uint64_t resident;
    if (contents(text, proc, "self/statm") && yk_word_digits(text, 1, &resident))
        out->rss = (double)resident * (double)sysconf(_SC_PAGESIZE);
    if (out->rss > out->rss_peak) /* the system updates its peak only now and then */
        out->rss_peak = out->rss;
    if (contents(text, proc, "self/io")) {
        out->read = number_after(text, "read_bytes:");
        out->written = number_after(text, "\nwrite_bytes:") - number_after(text, "cancelled_write_bytes:");
    }
}

/* Seconds that threads waited for a core: the second number of each thread's schedstat. */
static double delayed(const char *proc)
{
    const yk_path path = yk_path_of("%s/self/task", proc);
    double sum = 0.0;
    bool any = false;
    DIR *d = opendir(path.s);
    if (!d)
        return (double)NAN;
    for (struct dirent *e; (e = readdir(d));) {
        char text[128];
        uint64_t waited;
        if (e->d_name[0] != '.' && yk_file_text(text, sizeof text, "%s/%s/schedstat", path.s, e->d_name) &&
            yk_word_digits(text, 1, &waited)) {
            sum += (double)waited * 1e-9;
            any = true;
        }
    }
    closedir(d);
    return any ? sum : (double)NAN;
}

/* ---- the host */

/* cpu  user nice system idle iowait irq softirq steal guest guest_nice, in hundredths of a second; user includes guest.
 * Steal is time that another virtual machine used: it counts as busy. */
static void read_cpus(const char *text, yk_proc_sample *out)
{
    uint64_t t[8] = {0}; /* old kernels have only the first four */
    for (int i = 0; i < 8; i++)
        if (!yk_word_digits(text, i + 1, &t[i]) && i < 4)
            return;
    out->host_busy = (double)(t[0] + t[1] + t[2] + t[5] + t[6] + t[7]) / (double)sysconf(_SC_CLK_TCK);
    double cores = 0.0;
    for (const char *at = strchr(text, '\n'); at && strncmp(at + 1, "cpu", 3) == 0; at = strchr(at + 1, '\n'))
        cores += 1.0;
    if (cores > 0.0)
        out->host_cores = cores;
}

static void read_memory(const char *text, yk_proc_sample *out)
{
    const double total = number_after(text, "MemTotal:") * 1024.0;
    double available = number_after(text, "MemAvailable:") * 1024.0;
    if (!isfinite(available))
        available = number_after(text, "MemFree:") * 1024.0;
    out->host_memory = total;
    out->host_used = total - available;
}

/* Major, minor, name, then at least 11 numbers. The tenth is the milliseconds with I/O in progress. */
static void read_disks(const char *text, yk_proc_sample *out)
{
    for (const char *at = text; at && *at; at = strchr(at, '\n') ? strchr(at, '\n') + 1 : NULL) {
        const char *name = yk_word(at, 2);
        uint64_t ms;
        if (yk_word_digits(name, 10, &ms) && strncmp(name, "loop", 4) && strncmp(name, "ram", 3) &&
            out->ndisks < YK_MAX_DISKS) {
            yk_disk *d = &out->disk[out->ndisks++];
            snprintf(d->name, sizeof d->name, "%.*s", (int)strcspn(name, " "), name);
            d->busy = (double)ms * 1e-3;
        }
    }
}

/* From SYS/class/net/NAME/speed in megabits per second; -1 or missing if the driver does not know. */
static double link_rate(const char *sys, const char *name, const yk_proc_sample *before)
{
    for (int i = 0; before && i < before->nnics; i++)
        if (strcmp(before->nic[i].name, name) == 0)
            return before->nic[i].rate;
    char text[32];
    uint64_t megabits = 0;
    yk_file_text(text, sizeof text, "%s/class/net/%s/speed", sys, name);
    yk_word_digits(text, 0, &megabits);
    return (double)megabits * 125000.0;
}

/* "  eth0: IN packets errors drop fifo frame compressed multicast OUT ..." */
static void read_net(const char *text, const char *sys, const yk_proc_sample *before, yk_proc_sample *out)
{
    for (const char *at = text; at && *at; at = strchr(at, '\n') ? strchr(at, '\n') + 1 : NULL) {
        const char *name = yk_word(at, 0);
        const int length = name ? (int)strcspn(name, ": \n") : 0;
        uint64_t in, sent;
        if (!length || name[length] != ':' || !yk_word_digits(name + length + 1, 0, &in) ||
            !yk_word_digits(name + length + 1, 8, &sent))
            continue;
        if (strncmp(name, "lo:", 3) == 0) {
            out->lo_in = (double)in;
            out->lo_out = (double)sent;
        } else if (out->nnics < YK_MAX_NICS && (in || sent)) { /* others are unused */
            yk_nic *n = &out->nic[out->nnics++];
            snprintf(n->name, sizeof n->name, "%.*s", length, name);
            n->in = (double)in;
            n->out = (double)sent;
            n->rate = link_rate(sys, n->name, before);
        }
    }
}

void yk_proc_read(const char *proc, const char *sys, const yk_proc_sample *before, yk_proc_sample *out)
{
    char text[TEXT];
    *out = (yk_proc_sample){0};
    for (size_t i = 0; i < offsetof(yk_proc_sample, nnics) / sizeof(double); i++)
        ((double *)out)[i] = (double)NAN; /* not known */
    out->at = yk_now();
    if (!yk_clock_is_real()) /* a simulation must not depend on the real host */
        return;
    read_self(proc, text, out);
    out->delayed = delayed(proc);
    if (contents(text, proc, "stat"))
        read_cpus(text, out);
    if (contents(text, proc, "meminfo"))
        read_memory(text, out);
    if (contents(text, proc, "net/dev"))
        read_net(text, sys, before, out);
    if (contents(text, proc, "diskstats"))
        read_disks(text, out);
    if (contents(text, proc, "pressure/memory"))
        out->memory_stall = number_after(text, "total=") * 1e-6;
}
