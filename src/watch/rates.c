/* Rates from two samples of the counters of a process and its host, and the means and peaks of these rates. */
#include "watch/resources.h"

#include <math.h>
#include <stddef.h>
#include <stdio.h>
#include <string.h>

/* Counters go backwards when threads end: the rate is 0 then. */
static double rate(double now, double before, double seconds)
{
    const double d = now - before;
    return seconds > 0.0 ? (d > 0.0 || isnan(d) ? d : 0.0) / seconds : (double)NAN;
}

static void net_rates(const yk_proc_sample *now, const yk_proc_sample *before, double seconds, yk_sample *out)
{
    out->net_in = out->net_out = 0.0;
    out->net_busy = (double)NAN;
    for (int i = 0; i < now->nnics; i++) {
        yk_nic n = now->nic[i];
        n.in = n.out = 0.0;
        for (int k = 0; k < before->nnics; k++)
            if (strcmp(n.name, before->nic[k].name) == 0) {
                n.in = rate(now->nic[i].in, before->nic[k].in, seconds);
                n.out = rate(now->nic[i].out, before->nic[k].out, seconds);
            }
        out->net_in += n.in;
        out->net_out += n.out;
        if (n.rate > 0.0)
            out->net_busy = fmax(out->net_busy, fmax(n.in, n.out) / n.rate); /* fmax ignores NaN */
        if (out->nnics < YK_MAX_SHOWN_NICS)
            out->nic[out->nnics++] = n;
    }
}

static double disk_rate(const yk_proc_sample *now, const yk_proc_sample *before, double seconds)
{
    double max = (double)NAN;
    for (int i = 0; i < now->ndisks; i++)
        for (int k = 0; k < before->ndisks; k++)
            if (strcmp(now->disk[i].name, before->disk[k].name) == 0)
                max = fmax(max, fmin(rate(now->disk[i].busy, before->disk[k].busy, seconds), 1.0));
    return max;
}

yk_sample yk__rates(const yk_proc_sample *now, const yk_proc_sample *before)
{
    const double s = now->at - before->at;
    yk_sample out = {
        .interval = s,
        .cpu_user = rate(now->user, before->user, s),
        .cpu_system = rate(now->system, before->system, s),
        .cpu = rate(now->user, before->user, s) + rate(now->system, before->system, s),
        /* counted in hundredths of a second: in a short interval the rate may exceed the number of cores */
        .cpu_host = fmin(rate(now->host_busy, before->host_busy, s), now->host_cores),
        .rss = now->rss,
        .rss_peak = now->rss_peak,
        .host_memory = now->host_used,
        .lo_in = rate(now->lo_in, before->lo_in, s),
        .lo_out = rate(now->lo_out, before->lo_out, s),
        .disk_read = rate(now->read, before->read, s),
        .disk_written = rate(now->written, before->written, s),
        .switches = rate(now->voluntary_switches, before->voluntary_switches, s),
        .switches_forced = rate(now->involuntary_switches, before->involuntary_switches, s),
        .major_faults = rate(now->major_faults, before->major_faults, s),
        .delayed = rate(now->delayed, before->delayed, s),
        .disk_busy = disk_rate(now, before, s),
        .memory_stall = rate(now->memory_stall, before->memory_stall, s),
        .sent = rate((double)now->bytes.sent, (double)before->bytes.sent, s),
        .received = rate((double)now->bytes.received, (double)before->bytes.received, s),
        .bytes = now->bytes};
    net_rates(now, before, s, &out);
    return out;
}

/* The fields of yk_usage with a mean and a peak, except memory. */
static const struct {
    size_t usage, sample;
} measured[] = {
#define MEASURED(name)                                                                                       \
    {                                                                                                        \
        offsetof(yk_usage, name), offsetof(yk_sample, name)                                                  \
    }
    MEASURED(cpu),       MEASURED(cpu_host),     MEASURED(net_in),       MEASURED(net_out),
    MEASURED(disk_read), MEASURED(disk_written), MEASURED(disk_busy),    MEASURED(net_busy),
    MEASURED(delayed),   MEASURED(memory_stall), MEASURED(major_faults), MEASURED(sent),
    MEASURED(received)
#undef MEASURED
};

/* Finds an interface, or adds it; NULL: there are too many. */
static yk_nic_usage *nic_usage(yk_usage *u, const char *name)
{
    int i = 0;
    while (i < u->nnics && strcmp(u->nic[i].name, name) != 0)
        i++;
    if (i == YK_MAX_SHOWN_NICS)
        return NULL;
    if (i == u->nnics)
        snprintf(u->nic[u->nnics++].name, sizeof u->nic->name, "%s", name);
    return &u->nic[i];
}

void yk__usage_update(yk_usage *u, const yk_sample *all, const yk_sample *latest)
{
    if (!latest)
        latest = all; /* a peak is at least the mean */
    for (size_t i = 0; i < sizeof measured / sizeof *measured; i++) {
        yk_mean_peak *m = (yk_mean_peak *)((char *)u + measured[i].usage);
        m->mean = *(const double *)((const char *)all + measured[i].sample);
        m->peak = fmax(m->peak, *(const double *)((const char *)latest + measured[i].sample));
    }
    for (int i = 0; i < all->nnics; i++) {
        yk_nic_usage *n = nic_usage(u, all->nic[i].name);
        if (!n)
            return;
        n->rate = all->nic[i].rate;
        n->in.mean = all->nic[i].in;
        n->out.mean = all->nic[i].out;
        n->in.peak = fmax(n->in.peak, latest->nic[i].in);
        n->out.peak = fmax(n->out.peak, latest->nic[i].out);
    }
}
