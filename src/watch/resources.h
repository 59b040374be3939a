/* What a run uses: a thread looks a few times a second at CPU, memory, network and disk of this process and its host.
 *
 *     yk_resources_config c = {.every = 0.25, .dir = "run", .name = "worker-0/resources.jsonl", .phases = p, .workers = 2};
 *     yk_resources *r;
 *     st = yk_resources_start(&c, &r);
 *     ...
 *     yk_usage u;
 *     yk_resources_usage(r, &u);                // mean and peak so far; from any thread
 *     st = yk_resources_stop(r, st, &u);        // takes r; the last look, the rest of the file
 *
 * With every = 0 there is no thread and no file: only the first and the last look, which give means. The file has one JSON
 * object per line; what is not known is left out:
 *
 *     {"kind":"host","rank":0,"role":"chief","host":"name","pid":1,"cores":2,"memory_bytes":N,"nic":{"eth0":125000000},"interval":0.25,"began":UNIX}
 *     {"kind":"sample","seconds":1.25,"cpu_user":1.02,...,"steps":N,"phases":{"input":s,...}}        rates are per second
 *     {"kind":"alert","what":"cpu","begin":s,"seconds":s,"level":0.97}
 *
 * An alert is a resource that stayed above 90 % of what there is for a second and more. What there is: the cores that
 * affinity and cgroups leave us (or all of the host, if others use them up), the cgroup's or the host's memory, the link's rate
 * where the system knows it, a disk that has always something to do.
 */
#ifndef YK_WATCH_RESOURCES_H
#define YK_WATCH_RESOURCES_H

#include "base/status.h"
#include "watch/phase.h"
#include <stdbool.h>
#include <stdint.h>

/* The program's own bytes so far, where it talks to others. */
typedef struct {
    uint64_t sent, received;
} yk_bytes;

/* One line of the file. Rates per second since the one before; NaN: not known. */
typedef struct {
    double seconds, interval;          /* since the run began; since the sample before */
    double cpu_user, cpu_system, cpu;  /* cores used by this process; both together */
    double cpu_host;                   /* busy cores of the host */
    double rss, rss_peak, host_memory; /* bytes */
    double net_in, net_out;            /* all interfaces but loopback */
    double lo_in, lo_out;
    double disk_read, disk_written;
    double switches, switches_forced;
    double major_faults;
    double delayed; /* threads that were ready and had no core */
    double disk_busy,
        net_busy;        /* share of the busiest disk's time; of the busiest link's rate, NaN: not known */
    double memory_stall; /* share of the time in which somebody on this host waited for memory */
    yk_bytes bytes;
    uint64_t steps, examples; /* of all workers of this process */
    double phase[YK_PHASES];  /* seconds so far, mean over the workers */
} yk_sample;

typedef struct {
    double mean, peak;
} yk_mean_peak;

typedef enum { YK_ALERT_CPU, YK_ALERT_MEMORY, YK_ALERT_NETWORK, YK_ALERT_DISK, YK_ALERTS } yk_alert_kind;

typedef struct {
    yk_alert_kind what;
    double begin, seconds, level;
} yk_alert;

enum { YK_MAX_ALERTS = 64 };

typedef struct {
    char host[64];
    double cores, host_cores; /* what it may use; what there is */
    double memory_limit;      /* bytes that it may use */
    double link_rate;         /* of the fastest link in use, bytes per second; 0: not known */
    double seconds;           /* that it looked */
    uint64_t samples;
    yk_mean_peak cpu, cpu_host, memory, net_in, net_out, lo_in, lo_out, disk_read, disk_written, disk_busy,
        net_busy, delayed, memory_stall, major_faults;
    double host_memory; /* share of the host's memory in use, at most */
    double forced;      /* switches per second */
    int nalerts;
    yk_alert alert[YK_MAX_ALERTS];
} yk_usage;

typedef struct {
    const char *proc, *sys; /* NULL: /proc, /sys */
    double every;           /* seconds; 0: no thread */
    const char *dir, *name; /* the file to append to, as in base/dir.h; NULL: none */
    int rank;
    const char *role;  /* "chief", "worker" or "server" */
    double earlier;    /* seconds that the run had before this process resumed it */
    yk_phases *phases; /* [workers] of this process, or NULL. Borrowed */
    int workers;
    yk_bytes (*bytes)(void *context);                  /* NULL: nothing is sent */
    void (*each)(void *context, const yk_sample *now); /* after each look, on the sampling thread; NULL */
    void *context;
} yk_resources_config;

typedef struct yk_resources yk_resources;

yk_status yk_resources_start(const yk_resources_config *config, yk_resources **out);
void yk_resources_rest(yk_resources *r, bool rest); /* no looks for a while */
void yk_resources_usage(yk_resources *r, yk_usage *out);
yk_status yk_resources_stop(yk_resources *r, yk_status so_far, yk_usage *out); /* NULL returns so_far */

const char *yk_alert_name(yk_alert_kind what);

#endif
