/* Means and peaks of the samples of a run; the gaps between lines of its log. */
#include "watch/resources.h"

#include <stddef.h>
#include <stdio.h>
#include <string.h>

double yk_log_gap(double seconds, double every)
{
    enum { GAPS = 3600 }; /* in the time so far */
    return seconds / GAPS > every ? seconds / GAPS : every;
}

static void peak(yk_mean_peak *m, double value)
{
    if (value > m->peak)
        m->peak = value;
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

void yk__usage_update(yk_usage *u, const yk_sample *s, bool mean)
{
    for (size_t i = 0; i < sizeof measured / sizeof *measured; i++) {
        yk_mean_peak *m = (yk_mean_peak *)((char *)u + measured[i].usage);
        const double value = *(const double *)((const char *)s + measured[i].sample);
        if (mean)
            m->mean = value;
        else
            peak(m, value);
    }
    for (int i = 0; i < s->nnics; i++) {
        yk_nic_usage *n = nic_usage(u, s->nic[i].name);
        if (!n)
            return;
        n->rate = s->nic[i].rate;
        n->in.mean = mean ? s->nic[i].in : n->in.mean;
        n->out.mean = mean ? s->nic[i].out : n->out.mean;
        if (!mean) {
            peak(&n->in, s->nic[i].in);
            peak(&n->out, s->nic[i].out);
        }
    }
}
