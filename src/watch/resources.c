#include "watch/resources.h"

#include "base/cgroup.h"
#include "base/clock.h"
#include "base/number.h"
#include "base/sync.h"
#include <math.h>
#include <sched.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/utsname.h>
#include <unistd.h>

/* The value of the first "NAME...: VALUE" or NAME="VALUE" in a text; "": none. */
static void value_of(const char *text, const char *name, char *out, size_t size)
{
    const char *at = strstr(text, name);
    at = at ? strpbrk(at, ":=\n") : NULL;
    if (!at || *at == '\n')
        return;
    at += 1 + strspn(at + 1, " \t\"");
    snprintf(out, size, "%.*s", (int)strcspn(at, "\"\n"), at);
}

void yk__machine_read(const char *proc, yk_machine *out)
{
    struct utsname u;
    char text[8192];
    *out = (yk_machine){.yoke = YK_VERSION};
#ifdef __clang__
    snprintf(out->compiler, sizeof out->compiler, "clang %s", __clang_version__);
#else
    snprintf(out->compiler, sizeof out->compiler, "gcc %s", __VERSION__);
#endif
    if (!uname(&u)) {
        snprintf(out->kernel, sizeof out->kernel, "%.12s %.40s", u.sysname, u.release);
        snprintf(out->cpu, sizeof out->cpu, "%.60s", u.machine); /* unless its model is known */
    }
    if (yk_file_text(text, sizeof text, "%s/cpuinfo", proc))
        value_of(text, "model name", out->cpu, sizeof out->cpu);
    if (yk_file_text(text, sizeof text, "/etc/os-release"))
        value_of(text, "PRETTY_NAME", out->os, sizeof out->os);
}

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

/* The rates between two samples. `seconds` is not set. */
static yk_sample rates(const yk_proc_sample *now, const yk_proc_sample *before)
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

static const double alert_level = 0.9, alert_seconds = 1.0;

double yk_log_gap(double seconds, double every)
{
    enum { GAPS = 3600 }; /* in the time so far */
    return fmax(seconds / GAPS, every);
}

/* A period in which a resource was above the alert level. */
typedef struct {
    bool on;
    double begin, end, sum, weight;
} watch;

struct yk_resources {
    yk_resources_config config;
    yk_proc_sample first, last, logged; /* logged: the last one in the file */
    yk_file *file;
    yk_json line;
    watch watched[YK_ALERTS];
    yk_thread thread;
    bool started;
    yk_mutex lock; /* protects the rest */
    yk_cond wake;
    bool quit;
    yk_usage usage;
    double memory_seconds; /* sum of rss x seconds */
    double stopped;        /* seconds in which this process did not run, although it had a core */
    /* seconds in which the limit of its cgroup kept threads from running */
    double throttled, throttled_first;
    double thread_delayed; /* of the sampling thread: seconds without a core */
};

const char *yk_alert_name(yk_alert_kind what)
{
    static const char *const names[] = {"cpu", "memory", "network", "disk"};
    return names[what];
}

static void read_proc(const yk_resources *r, yk_proc_sample *out)
{
    yk_proc_read(r->config.proc, r->config.sys, &r->last, out);
    if (r->config.bytes)
        out->bytes = r->config.bytes(r->config.context);
}

static yk_sample sample_of(const yk_resources *r, const yk_proc_sample *now, const yk_proc_sample *before)
{
    yk_sample s = rates(now, before);
    yk_phases_sample all = {0};
    if (r->config.phases)
        yk_phases_read_all(r->config.phases, r->config.workers, &all);
    s.seconds = r->config.earlier + now->at - r->first.at;
    s.steps = all.steps;
    s.examples = all.examples;
    memcpy(s.phase, all.phase, sizeof s.phase);
    return s;
}

/* ---- the file */

static yk_json *begin_line(yk_resources *r, const char *kind)
{
    yk_json *j = &r->line;
    j->digits = 6;
    j->known_only = true;
    YK_JSON(j, YK_OBJECT(NULL), YK_TEXT("kind", kind));
    return j;
}

static void end_line(yk_resources *r)
{
    yk_json_end(&r->line);
    yk_json_write(&r->line, r->file);
    yk_file_flush(r->file); /* the first error is kept and reported at the end */
}

static void write_host(yk_resources *r)
{
    if (!r->file)
        return;
    const yk_usage *u = &r->usage;
    yk_json *j = begin_line(r, "host");
    YK_JSON(j, YK_INT("rank", r->config.rank), YK_TEXT("role", r->config.role ? r->config.role : "worker"),
            YK_TEXT("host", u->host), YK_INT("pid", getpid()), YK_REAL("cores", u->cores),
            YK_FIXED("memory_bytes", u->memory_limit, 0), YK_OBJECT("nic"));
    for (const yk_nic *n = r->first.nic; n < r->first.nic + r->first.nnics; n++)
        YK_JSON(j, n->rate > 0.0 ? YK_FIXED(n->name, n->rate, 0) : YK_RAW(n->name, NULL));
    YK_JSON(j, YK_END, YK_IF(u->network, YK_INT("network", u->network)), YK_REAL("interval", r->config.every),
            YK_FIXED("began", yk_wall(), 3));
    end_line(r);
}

/* The traffic of all programs on the host. */
static void write_interfaces(yk_json *j, const yk_sample *s)
{
    YK_JSON(j, YK_REAL("net_in", s->net_in), YK_REAL("net_out", s->net_out), YK_REAL("lo_in", s->lo_in),
            YK_REAL("lo_out", s->lo_out), YK_OBJECT("interfaces"));
    for (const yk_nic *n = s->nic; n < s->nic + s->nnics; n++)
        YK_JSON(j, YK_OBJECT(n->name), YK_REAL("in", n->in), YK_REAL("out", n->out), YK_END);
    yk_json_end(j);
}

static void write_sample(yk_resources *r, const yk_sample *s)
{
    if (!r->file)
        return;
    yk_json *j = begin_line(r, "sample");
    YK_JSON(j, YK_FIXED("seconds", s->seconds, 3), YK_REAL("cpu_user", s->cpu_user),
            YK_REAL("cpu_system", s->cpu_system), YK_REAL("cpu_host", s->cpu_host),
            YK_FIXED("rss", s->rss, 0), YK_FIXED("rss_peak", s->rss_peak, 0),
            YK_FIXED("host_memory", s->host_memory, 0));
    if (!r->config.other_writes_host)
        write_interfaces(j, s);
    if (r->config.bytes)
        YK_JSON(j, YK_INT("sent", s->bytes.sent), YK_INT("received", s->bytes.received),
                YK_REAL("sent_rate", s->sent), YK_REAL("received_rate", s->received));
    YK_JSON(j, YK_REAL("disk_read", s->disk_read), YK_REAL("disk_written", s->disk_written),
            YK_REAL("switches", s->switches), YK_REAL("switches_forced", s->switches_forced));
    if (r->config.phases) {
        yk_json_int(j, "steps", (int64_t)s->steps);
        yk_phases_json(j, s->phase, 1.0, r->config.server);
    }
    end_line(r);
}

/* ---- alerts */

/* Under the lock. */
static void end_alert(yk_resources *r, yk_alert_kind what)
{
    watch *w = &r->watched[what];
    if (w->on && w->end - w->begin >= alert_seconds) {
        const yk_alert a = {what, w->begin, w->end - w->begin, w->sum / w->weight};
        if (r->usage.nalerts < YK_MAX_ALERTS)
            r->usage.alert[r->usage.nalerts++] = a;
        if (r->file && a.seconds >= yk_log_gap(w->end, r->config.every)) {
            YK_JSON(begin_line(r, "alert"), YK_TEXT("what", yk_alert_name(what)),
                    YK_FIXED("begin", a.begin, 3), YK_FIXED("seconds", a.seconds, 3),
                    YK_FIXED("level", a.level, 3));
            end_line(r);
        }
    }
    *w = (watch){0};
}

static void watch_level(yk_resources *r, yk_alert_kind what, const yk_sample *s, double level)
{
    watch *w = &r->watched[what];
    if (!(level > alert_level)) {
        end_alert(r, what);
        return;
    }
    if (!w->on)
        *w = (watch){.on = true, .begin = s->seconds - s->interval};
    w->end = s->seconds;
    w->sum += level * s->interval;
    w->weight += s->interval;
}

static void watch_all(yk_resources *r, const yk_sample *s, const yk_proc_sample *now)
{
    const yk_usage *u = &r->usage;
    watch_level(r, YK_ALERT_CPU, s, fmax(s->cpu / u->cores, s->cpu_host / u->host_cores));
    watch_level(r, YK_ALERT_MEMORY, s, fmax(s->rss / u->memory_limit, now->host_used / now->host_memory));
    watch_level(r, YK_ALERT_NETWORK, s, s->net_busy);
    watch_level(r, YK_ALERT_DISK, s, s->disk_busy);
}

/* Writes a line, with rates since the line before, if it is time for one. */
static void log_sample(yk_resources *r, const yk_proc_sample *now, bool last)
{
    yk_sample s = sample_of(r, now, &r->logged);
    const double early = r->config.every / 2.0; /* the times of samples vary a little */
    if (!last && s.interval < yk_log_gap(s.seconds, r->config.every) - early)
        return;
    write_sample(r, &s);
    r->logged = *now;
}

/* The last sample may follow the one before at once: then its rates mean little. */
static void take_sample(yk_resources *r, bool last)
{
    yk_proc_sample now;
    read_proc(r, &now);
    yk_sample s = sample_of(r, &now, &r->last), all = sample_of(r, &now, &r->first);
    const bool brief = last && r->usage.samples > 0 && s.interval < r->config.every / 10.0;
    if (!(s.interval > 0.0))
        return;
    if (!brief || r->logged.at < r->last.at)
        log_sample(r, &now, last);
    if (brief)
        return;
    if (last || r->usage.samples % 4 == 0) {
        yk_limits limits;
        yk_cgroup_limits(r->config.proc, r->config.sys, &limits);
        r->throttled = limits.throttled;
    }
    yk_mutex_lock(&r->lock);
    yk_usage *u = &r->usage;
    u->seconds = all.interval;
    const double throttled = (r->throttled - r->throttled_first) / fmax(r->config.workers, 1);
    u->stopped = all.interval > 0.0 ? fmin(fmax(r->stopped, throttled) / all.interval, 1.0) : 0.0;
    u->samples++;
    r->memory_seconds += now.rss * s.interval;
    u->memory.mean = r->memory_seconds / (now.at - r->first.at);
    const bool long_enough = !last || s.interval > r->config.every / 2.0 || u->samples == 1;
    yk__usage_update(u, &all, long_enough ? &s : NULL);
    u->memory.peak = fmax(u->memory.peak, now.rss_peak);
    watch_all(r, &s, &now);
    yk_mutex_unlock(&r->lock);
    r->last = now;
    if (r->config.each)
        r->config.each(r->config.context, &s);
}

/* ---- the thread */

/* Seconds that the calling thread was runnable but had no core; 0: not known. */
static double own_delay(void)
{
    char text[128];
    uint64_t waited = 0;
    if (yk_clock_is_real() && yk_file_text(text, sizeof text, "/proc/thread-self/schedstat"))
        yk_word_digits(text, 1, &waited);
    return (double)waited * 1e-9;
}

/* Waits until `next`, in short turns: a turn that takes much longer shows that the process was stopped (SIGSTOP, a debugger,
 * a suspended virtual machine). Holds the lock. */
static void wait_until(yk_resources *r, uint64_t next)
{
    const uint64_t interval = 20000000, late = 10000000;
    for (uint64_t now = yk_now_ns(); !r->quit && now < next;) {
        const uint64_t until = next - now < interval ? next : now + interval;
        while (!r->quit && yk_cond_wait_until(&r->wake, &r->lock, until))
            ;
        now = yk_now_ns();
        if (now < until + late || r->quit)
            continue;
        const double delayed = own_delay(), own = delayed - r->thread_delayed;
        r->thread_delayed = delayed;
        r->stopped += fmax((double)(now - until) * 1e-9 - own, 0.0);
    }
}

static void *sampling_thread(void *arg)
{
    yk_resources *r = arg;
    const uint64_t every = (uint64_t)(r->config.every * 1e9);
    uint64_t next = yk_now_ns();
    r->thread_delayed = own_delay();
    yk_mutex_lock(&r->lock);
    for (;;) {
        next += every;
        wait_until(r, next);
        if (r->quit)
            break;
        yk_mutex_unlock(&r->lock);
        take_sample(r, false);
        const uint64_t now = yk_now_ns();
        if (now > next + every / 2) /* late: skips samples instead of taking several at once */
            next = now;
        yk_mutex_lock(&r->lock);
    }
    yk_mutex_unlock(&r->lock);
    return NULL;
}

static void read_capacity(yk_resources *r)
{
    yk_usage *u = &r->usage;
    yk_limits limits;
    cpu_set_t set;
    yk_cgroup_limits(r->config.proc, r->config.sys, &limits);
    r->throttled_first = limits.throttled;
    u->host_cores =
        isfinite(r->first.host_cores) ? r->first.host_cores : (double)sysconf(_SC_NPROCESSORS_ONLN);
    u->cores = sched_getaffinity(0, sizeof set, &set) == 0 ? (double)CPU_COUNT(&set) : u->host_cores;
    if (limits.cores > 0.0 && limits.cores < u->cores)
        u->cores = limits.cores;
    yk__machine_read(r->config.proc, &u->machine);
    u->memory_limit = u->machine.memory = r->first.host_memory;
    if (limits.memory > 0.0 && !(limits.memory >= u->memory_limit))
        u->memory_limit = limits.memory;
    u->network = yk_network_id(r->config.proc);
    for (int i = 0; i < r->first.nnics; i++)
        u->link_rate = fmax(u->link_rate, r->first.nic[i].rate);
    if (gethostname(u->host, sizeof u->host - 1) || !u->host[0])
        strcpy(u->host, "localhost");
}

static void destroy(yk_resources *r)
{
    yk_json_fini(&r->line);
    yk_mutex_destroy(&r->lock);
    yk_cond_destroy(&r->wake);
    free(r);
}

yk_status yk_resources_start(const yk_resources_config *config, yk_resources **out)
{
    *out = NULL;
    yk_resources *r = calloc(1, sizeof *r);
    if (!r)
        return yk_fail_memory(sizeof *r, "sampling");
    r->config = *config;
    r->config.proc = config->proc ? config->proc : "/proc";
    r->config.sys = config->sys ? config->sys : "/sys";
    yk_cond_init(&r->wake);
    yk_mutex_init(&r->lock);
    yk_status st = YK_OK;
    if (config->dir && config->every > 0.0)
        st = yk_file_append_in(config->dir, config->name, &r->file);
    if (!st) {
        read_proc(r, &r->first);
        r->last = r->logged = r->first;
        read_capacity(r);
        write_host(r);
    }
    if (!st && config->every > 0.0) {
        const int error = yk_thread_start(&r->thread, sampling_thread, r);
        r->started = !error;
        if (error)
            st = yk_fail(YK_ESYSTEM, "cannot start the sampling thread: %s; use --sample-every 0",
                         strerror(error));
    }
    if (st) {
        st = yk_file_close(r->file, st);
        destroy(r);
        return st;
    }
    *out = r;
    return YK_OK;
}

void yk_resources_usage(yk_resources *r, yk_usage *out)
{
    yk_mutex_lock(&r->lock);
    *out = r->usage;
    yk_mutex_unlock(&r->lock);
}

yk_status yk_resources_stop(yk_resources *r, yk_status so_far, yk_usage *out)
{
    if (!r)
        return so_far;
    if (r->started) {
        yk_mutex_lock(&r->lock);
        r->quit = true;
        yk_cond_broadcast(&r->wake);
        yk_mutex_unlock(&r->lock);
        yk_thread_join(&r->thread);
    }
    take_sample(r, true);
    for (int i = 0; i < YK_ALERTS; i++)
        end_alert(r, (yk_alert_kind)i);
    *out = r->usage;
    yk_status st = yk_file_close(r->file, so_far);
    destroy(r);
    return st;
}
