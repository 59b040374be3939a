/* One look at what this process and its host have used so far, from /proc and getrusage(). Differences of two looks are
 * rates (watch/resources.h).
 *
 *     yk_proc *p;
 *     st = yk_proc_open("/proc", "/sys", &p);      // tests plant files of their own
 *     yk_proc_sample now;
 *     yk_proc_read(p, &now);                       // some 100 microseconds
 *     yk_proc_close(p);
 *
 * Numbers of the process itself (CPU, switches, faults) come from getrusage(), which knows all of its threads to the
 * microsecond; PROC/self/stat only knows hundredths of a second. What cannot be read is NaN. One thread at a time.
 */
#ifndef YK_WATCH_PROC_H
#define YK_WATCH_PROC_H

#include "base/status.h"
#include <stddef.h>
#include <stdint.h>

enum { YK_MAX_NICS = 16, YK_MAX_DISKS = 32 };

typedef struct {
    char name[16];
    double in, out; /* bytes so far */
    double rate;    /* bytes per second that the link can do, each way; 0: not known */
} yk_nic;

typedef struct {
    char name[32];
    double busy; /* seconds so far with something to do */
} yk_disk;

/* Numbers that are not known are NaN. The doubles come first: proc.c relies on it. */
typedef struct {
    double at; /* seconds, base/clock.h */
    /* this process, all of its threads */
    double user, system; /* CPU seconds */
    double rss, rss_peak;
    double read, written;    /* bytes of disk */
    double switches, forced; /* context switches: gave the core away, lost it */
    double major_faults;     /* pages that had to come from a disk */
    double delayed;          /* seconds that threads were ready to run and had no core; NaN: not known */
    /* its host */
    double host_busy, host_cores;  /* CPU seconds; processors */
    double host_used, host_memory; /* bytes */
    double memory_stall;           /* seconds that some process waited for memory; NaN: not known */
    double lo_in, lo_out;
    int nnics; /* all but loopback */
    yk_nic nic[YK_MAX_NICS];
    int ndisks;
    yk_disk disk[YK_MAX_DISKS];
} yk_proc_sample;

typedef struct yk_proc yk_proc;

yk_status yk_proc_open(const char *proc, const char *sys, yk_proc **out);
void yk_proc_read(yk_proc *p, yk_proc_sample *out);
void yk_proc_close(yk_proc *p); /* NULL is fine */

#endif
