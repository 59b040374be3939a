/* One sample of what this process and its host have used so far, from /proc and getrusage(). Differences between two samples
 * give rates (watch/resources.h).
 *
 * Example:
 *     yk_proc_sample before, now;
 *     yk_proc_read("/proc", "/sys", NULL, &before); // takes about 100 microseconds; tests pass their own directories
 *     yk_proc_read("/proc", "/sys", &before, &now);
 *
 * CPU time, context switches and page faults of the process come from getrusage(), which has a resolution of microseconds
 * and includes all threads; PROC/self/stat has only hundredths of a second. Values that cannot be read are NaN; in a simulation
 * (tests/sim.h), all are.
 * Thread-safe.
 */
#ifndef YK_WATCH_PROC_H
#define YK_WATCH_PROC_H

#include "base/status.h"

enum { YK_MAX_NICS = 16, YK_MAX_DISKS = 32 };

typedef struct {
    char name[16];
    double in, out; /* bytes so far */
    double rate;    /* capacity of the link in bytes per second, each way; 0: not known */
} yk_nic;

typedef struct {
    char name[32];
    double busy; /* seconds so far with I/O in progress */
} yk_disk;

/* Bytes that the program itself sent and received so far. */
typedef struct {
    uint64_t sent, received;
} yk_bytes;

/* NaN: not known. The doubles come first: proc.c relies on this. */
typedef struct {
    double at; /* seconds, base/clock.h */
    /* this process, all threads */
    double user, system; /* CPU seconds */
    double rss, rss_peak;
    double read, written;                            /* bytes of disk I/O */
    double voluntary_switches, involuntary_switches; /* context switches */
    double major_faults;                             /* page faults that needed I/O */
    double delayed;                                  /* seconds that threads were runnable but had no core */
    /* the host */
    double host_busy, host_cores;  /* CPU seconds; processors */
    double host_used, host_memory; /* bytes */
    double memory_stall;           /* seconds in which some process waited for memory */
    double lo_in, lo_out;
    int nnics; /* without loopback */
    yk_nic nic[YK_MAX_NICS];
    int ndisks;
    yk_disk disk[YK_MAX_DISKS];
    yk_bytes bytes; /* set by the caller */
} yk_proc_sample;

/* before: an earlier sample, which has the capacities of its links; NULL: none. */
void yk_proc_read(const char *proc, const char *sys, const yk_proc_sample *before, yk_proc_sample *out);

/* Identifies the network interfaces that this process sees: by boot ID and network namespace. Processes with the same
 * number share them. At most 53 bits; 0: not known. */
uint64_t yk_network_id(const char *proc);

#endif
