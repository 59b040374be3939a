/* The resources that a run uses: a thread samples CPU, memory, network and disk of this process and its host a few times
 * per second.
 *
 * Example:
 *     yk_resources_config c = {.every = 0.25, .dir = "run", .name = "worker-0/resources.jsonl", .phases = p, .workers = 2};
 *     yk_resources *r;
 *     yk_status st = yk_resources_start(&c, &r);
 *     yk_usage u;
 *     if (!st)
 *         yk_resources_usage(r, &u);     // mean and peak so far; any thread
 *     st = yk_resources_stop(r, st, &u); // takes r; writes the last sample
 *
 * With every = 0 there is no thread and no file: only a first and a last sample, which give means. The file has one JSON
 * object per line (the first is wrapped here); unknown values are left out:
 *
 *     {"kind":"host","rank":0,"role":"chief","host":"name","pid":1,"cores":2,"memory_bytes":N,
 *      "nic":{"eth0":125000000},"interval":0.25,"began":UNIX}
 *     {"kind":"sample","seconds":1.25,"cpu_user":1.02,...,"steps":N,"phases":{"input":s,...}}        rates are per second
 *     {"kind":"alert","what":"cpu","begin":s,"seconds":s,"level":0.97}
 *
 * There is a line for each of the first 3,600 samples. Then the gaps grow with the run: they are 1/3,600 of its time so far,
 * and the rates of a line are means since the line before. A week takes 27,000 lines, about 20 MB. An alert that is shorter
 * than a gap has no line.
 *
 * The network traffic of the program itself comes from its own counters (yk_resources_config.bytes). The counters of the
 * host's interfaces include other programs, and exclude loopback and shared memory.
 *
 * An alert means that a resource was above 90 % of its capacity for at least a second. Capacities are the cores that affinity
 * and cgroups allow (or all cores of the host, if other programs use them), the memory of the cgroup or the host, the rate of
 * the link if the system knows it, and 100 % of the time of a disk.
 */
#ifndef YK_WATCH_RESOURCES_H
#define YK_WATCH_RESOURCES_H

#include "watch/phase.h"
#include "watch/proc.h"

/* Interfaces of a host that are shown individually; this limits a telemetry message to about 4 kB (observe/telemetry.c). */
enum { YK_MAX_SHOWN_NICS = 8 };

/* One line of the file. Rates are per second, since the previous sample; NaN: unknown. */
typedef struct {
    double seconds, interval;          /* since the run began; since the previous sample */
    double cpu_user, cpu_system, cpu;  /* cores used by this process; the sum */
    double cpu_host;                   /* busy cores of the host */
    double rss, rss_peak, host_memory; /* bytes */
    double net_in, net_out;            /* the host: all interfaces except loopback */
    double lo_in, lo_out;              /* the host */
    double disk_read, disk_written;
    double switches, switches_forced;
    double major_faults;
    double delayed;             /* threads that were runnable but had no core */
    double disk_busy, net_busy; /* the busiest disk, share of its time; the busiest link, share of its rate */
    double memory_stall;        /* share of the time in which some process of the host waited for memory */
    double sent, received;      /* by the program itself, in messages and through shared memory */
    yk_bytes bytes;             /* the same, so far */
    uint64_t steps, examples;   /* of all workers of this process */
    double phase[YK_PHASES];    /* seconds so far, mean over the workers */
    int nnics;                  /* interfaces of the host, except loopback */
    yk_nic nic[YK_MAX_SHOWN_NICS]; /* in, out: bytes per second */
} yk_sample;

typedef struct {
    double mean, peak;
} yk_mean_peak;

/* A network interface of the host: the traffic of all programs. */
typedef struct {
    char name[16];
    double rate; /* capacity, bytes per second; 0: not known */
    yk_mean_peak in, out;
} yk_nic_usage;

typedef enum { YK_ALERT_CPU, YK_ALERT_MEMORY, YK_ALERT_NETWORK, YK_ALERT_DISK, YK_ALERTS } yk_alert_kind;

typedef struct {
    yk_alert_kind what;
    double begin, seconds, level;
} yk_alert;

enum { YK_MAX_ALERTS = 64 };

/* The hardware and software of a host; "": not known. */
typedef struct {
    char cpu[64], os[64], kernel[64];
    char compiler[40], yoke[24]; /* of this program */
    char transport[64];          /* set by observe/ */
    double memory;               /* bytes */
} yk_machine;

typedef struct {
    char host[64];
    yk_machine machine;
    double cores, host_cores; /* cores that this process may use; cores of the host */
    double memory_limit;      /* bytes that this process may use */
    double link_rate;         /* of the fastest link in use, bytes per second; 0: not known */
    uint64_t network;         /* yk_network_id() */
    double seconds;           /* from the first sample to the last */
    /* Share of that time in which this process was stopped, or kept from running by its cgroup. */
    double stopped;
    uint64_t samples;
    yk_mean_peak cpu, cpu_host, memory, net_in, net_out, disk_read, disk_written, disk_busy, net_busy,
        delayed, memory_stall, major_faults;
    yk_mean_peak sent, received; /* by the program itself */
    int nnics;
    yk_nic_usage nic[YK_MAX_SHOWN_NICS];
    int nalerts;
    yk_alert alert[YK_MAX_ALERTS];
} yk_usage;

typedef struct {
    const char *proc, *sys; /* NULL: /proc, /sys */
    double every;           /* seconds; 0: no thread */
    const char *dir, *name; /* of the file to append to (base/dir.h); NULL: none */
    int rank;
    const char *role;  /* "chief", "worker" or "server" */
    double earlier;    /* seconds of the run before this process resumed it */
    yk_phases *phases; /* [workers] of this process, or NULL; borrowed */
    int workers;
    bool server;                      /* the phases are those of a parameter server */
    bool other_writes_host;           /* another process writes the interfaces of this host to its file */
    yk_bytes (*bytes)(void *context); /* NULL: the program sends nothing */
    /* Called after each sample, on the sampling thread; may be NULL. */
    void (*each)(void *context, const yk_sample *now);
    void *context;
} yk_resources_config;

typedef struct yk_resources yk_resources;

yk_status yk_resources_start(const yk_resources_config *config, yk_resources **out);
void yk_resources_usage(yk_resources *r, yk_usage *out);
yk_status yk_resources_stop(yk_resources *r, yk_status so_far, yk_usage *out); /* NULL returns so_far */

const char *yk_alert_name(yk_alert_kind what);

/* Seconds between lines of a log that has one every `every` seconds at first; `seconds`: of the run so far. */
double yk_log_gap(double seconds, double every);

/* Reads PROC/cpuinfo, /etc/os-release and uname(). */
void yk__machine_read(const char *proc, yk_machine *out);

/* Updates the means from `all`, the rates since the first sample, and the peaks from `latest`, those of the last interval;
 * NULL: too short for a peak, which is at least the mean. */
void yk__usage_update(yk_usage *u, const yk_sample *all, const yk_sample *latest);

#endif
