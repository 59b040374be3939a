#include "observe/observation.h"

#include <stdlib.h>
#include <string.h>

void yk_observation_fini(yk_observation *w)
{
    free(w->process);
    free(w->measured);
    for (int i = 0; i < w->nwarnings; i++)
        free(w->warning[i].text);
    free(w->warning);
    *w = (yk_observation){0};
}

static void bottleneck(yk_json *j, const yk_verdict *v)
{
    YK_JSON(j, YK_OBJECT("bottleneck"), YK_TEXT("kind", yk_verdict_name(v->kind)), YK_REAL("share", v->share),
            YK_TEXT("text", v->text), YK_TEXT("advice", v->advice[0] ? v->advice : NULL),
            YK_IF(v->host[0], YK_TEXT("host", v->host)), YK_OBJECT("numbers"));
    for (int i = 0; i < v->nnumbers; i++)
        yk_json_real(j, v->number[i].name, v->number[i].value);
    YK_JSON(j, YK_END, YK_END);
}

static void mean_peak(yk_json *j, const char *name, yk_mean_peak m, double of)
{
    YK_JSON(j, YK_OBJECT(name), YK_REAL("mean", m.mean), YK_REAL("peak", m.peak),
            YK_IF(of > 0.0, YK_REAL("of", of)), YK_END);
}

bool yk__first_of_host(const yk_process *p, int i)
{
    int k = 0;
    while (strcmp(p[k].usage.host, p[i].usage.host))
        k++;
    return k == i;
}

/* The same for network interfaces: several network namespaces may share a host. */
static bool first_of_network(const yk_observation *w, int i)
{
    const yk_usage *u = &w->process[i].usage;
    for (int k = 0; u->network && k < i; k++)
        if (w->process[k].usage.network == u->network)
            return false;
    return u->network || yk__first_of_host(w->process, i);
}

/* Network interfaces, with the traffic of all programs. */
static void interfaces(yk_json *j, const yk_observation *w)
{
    yk_json_array(j, "interfaces");
    for (int i = 0; i < w->nprocesses; i++) {
        const yk_usage *u = &w->process[i].usage;
        for (int k = 0; k < u->nnics && first_of_network(w, i); k++) {
            YK_JSON(j, YK_OBJECT(NULL), YK_TEXT("host", u->host), YK_TEXT("name", u->nic[k].name));
            mean_peak(j, "in", u->nic[k].in, u->nic[k].rate);
            mean_peak(j, "out", u->nic[k].out, u->nic[k].rate);
            yk_json_end(j);
        }
    }
    yk_json_end(j);
}

/* Bytes of messages from the processes on the host of process i to the ranks on that of process k; 0: not known. */
static uint64_t bytes_between(const yk_observation *w, int i, int k)
{
    uint64_t sum = 0;
    const int to = w->process[k].host;
    for (int a = 0; a < w->nprocesses && to >= 0 && to < YK_MAX_HOSTS; a++)
        if (!strcmp(w->process[a].usage.host, w->process[i].usage.host))
            sum += w->process[a].sent_to[to];
    return sum;
}

static void hosts(yk_json *j, const yk_observation *w)
{
    yk_json_array(j, "hosts");
    for (int i = 0; i < w->nprocesses; i++) {
        const yk_usage *u = &w->process[i].usage;
        const yk_machine *m = &u->machine;
        if (!u->host[0] || !yk__first_of_host(w->process, i))
            continue;
        YK_JSON(j, YK_OBJECT(NULL), YK_TEXT("host", u->host), YK_TEXT("cpu", m->cpu), YK_TEXT("os", m->os),
                YK_TEXT("kernel", m->kernel), YK_TEXT("compiler", m->compiler), YK_TEXT("yoke", m->yoke),
                YK_TEXT("transport", m->transport[0] ? m->transport : NULL), YK_REAL("cores", u->host_cores),
                YK_REAL("usable_cores", u->cores), YK_REAL("memory_bytes", m->memory), YK_OBJECT("sent_to"));
        for (int k = 0; w->job && k < w->nprocesses; k++)
            if (k != i && w->process[k].usage.host[0] && yk__first_of_host(w->process, k))
                yk_json_int(j, w->process[k].usage.host, (int64_t)bytes_between(w, i, k));
        YK_JSON(j, YK_END, YK_END);
    }
    yk_json_end(j);
}

static void resources(yk_json *j, const yk_observation *w)
{
    enum { CPU, MEMORY, SENT, RECEIVED, NET_IN, NET_OUT, READ, WRITTEN, FIELDS };
    static const char *const names[FIELDS] = {"cpu",    "memory",  "sent",      "received",
                                              "net_in", "net_out", "disk_read", "disk_written"};
    yk_mean_peak sum[FIELDS] = {{0}};
    double of[FIELDS] = {0};
    for (int i = 0; i < w->nprocesses; i++) {
        const yk_usage *u = &w->process[i].usage;
        const bool first = yk__first_of_host(w->process, i), network = first_of_network(w, i);
        const yk_mean_peak *part[FIELDS] = {&u->cpu,    &u->memory,  &u->sent,      &u->received,
                                            &u->net_in, &u->net_out, &u->disk_read, &u->disk_written};
        for (int k = 0; k < FIELDS; k++)
            if (network || (k != NET_IN && k != NET_OUT)) {
                sum[k].mean += part[k]->mean;
                sum[k].peak += part[k]->peak;
            }
        of[CPU] += first ? u->cores : 0.0;
        of[MEMORY] += first ? u->memory_limit : 0.0;
        of[NET_IN] += network ? u->link_rate : 0.0;
        of[NET_OUT] += network ? u->link_rate : 0.0;
    }
    yk_json_object(j, "resources");
    for (int k = 0; k < FIELDS; k++)
        mean_peak(j, names[k], sum[k], of[k]);
    yk_json_end(j);
}

static void workers_of(yk_json *j, const yk_observation *w, const yk_process *p)
{
    yk_json_array(j, "workers");
    for (int i = 0; i < w->nmeasured; i++) {
        const yk_process_evidence *one = &w->measured[i];
        if (one->rank != p->rank || one->worker < 0)
            continue;
        YK_JSON(j, YK_OBJECT(NULL), YK_INT("worker", one->worker), YK_INT("steps", one->phases.steps),
                YK_INT("examples", one->phases.examples), YK_REAL("step_seconds", one->phases.step_mean),
                YK_REAL("step_deviation", one->phases.step_deviation),
                YK_INT("barriers", one->phases.barriers), YK_INT("came_last", one->phases.last));
        yk_phases_json(j, one->phases.phase, one->phases.seconds, false);
        yk_json_end(j);
    }
    yk_json_end(j);
}

void yk_traffic_json(yk_json *j, const char *name, const yk_traffic *t)
{
    yk_json_object(j, name);
    for (int p = 0; p < YK_PURPOSES; p++)
        YK_JSON(j, YK_OBJECT(yk_purpose_name[p]), YK_INT("sent", t[p].sent),
                YK_INT("received", t[p].received), YK_INT("messages", t[p].messages_sent),
                YK_INT("messages_received", t[p].messages_received), YK_END);
    yk_json_end(j);
}

void yk__process_phases_json(yk_json *j, const yk_process *p, bool server)
{
    yk_phases_json(j, p->phases.phase, p->phases.seconds, server);
    if (!(p->serving.seconds > 0.0))
        return;
    yk_json_object(j, "serving");
    yk_phases_json(j, p->serving.phase, p->serving.seconds, true);
    yk_json_end(j);
}

static void processes(yk_json *j, const yk_observation *w)
{
    yk_json_array(j, "processes");
    for (int i = 0; i < w->nprocesses; i++) {
        const yk_process *p = &w->process[i];
        YK_JSON(j, YK_OBJECT(NULL), YK_INT("rank", p->rank), YK_TEXT("role", p->role),
                YK_BOOL("joined", p->joined), YK_BOOL("lost", p->lost), YK_TEXT("host", p->usage.host),
                YK_REAL("seconds", p->usage.seconds), YK_INT("steps", p->phases.steps),
                YK_INT("examples", p->phases.examples),
                YK_REAL("train_loss", p->phases.loss / p->phases.weight), /* no examples: NaN */
                YK_INT("bytes_sent", p->bytes_sent), YK_INT("bytes_received", p->bytes_received));
        if (w->job)
            yk_traffic_json(j, "traffic", p->traffic);
        YK_JSON(j, YK_REAL("sent_rate", p->usage.sent.mean), YK_REAL("sent_rate_peak", p->usage.sent.peak),
                YK_REAL("received_rate", p->usage.received.mean),
                YK_REAL("received_rate_peak", p->usage.received.peak),
                YK_REAL("disk_rate", p->usage.disk_read.mean + p->usage.disk_written.mean),
                YK_REAL("disk_rate_peak", p->usage.disk_read.peak + p->usage.disk_written.peak),
                YK_REAL("cpu_seconds", p->usage.cpu.mean * p->usage.seconds),
                YK_REAL("cpu_mean", p->usage.cpu.mean), YK_REAL("cpu_peak", p->usage.cpu.peak),
                YK_REAL("rss_mean", p->usage.memory.mean), YK_REAL("rss_peak", p->usage.memory.peak),
                YK_REAL("disk_read_bytes", p->usage.disk_read.mean * p->usage.seconds),
                YK_REAL("disk_written_bytes", p->usage.disk_written.mean * p->usage.seconds));
        yk__process_phases_json(j, p, p->workers == 0);
        workers_of(j, w, p);
        yk_json_end(j);
    }
    yk_json_end(j);
}

static void alerts(yk_json *j, const yk_observation *w)
{
    yk_json_array(j, "alerts");
    for (int i = 0; i < w->nprocesses; i++)
        for (int k = 0; k < w->process[i].usage.nalerts; k++) {
            const yk_alert *a = &w->process[i].usage.alert[k];
            YK_JSON(j, YK_OBJECT(NULL), YK_INT("rank", w->process[i].rank),
                    YK_TEXT("what", yk_alert_name(a->what)), YK_REAL("begin", a->begin),
                    YK_REAL("seconds", a->seconds), YK_REAL("level", a->level), YK_END);
        }
    yk_json_end(j);
}

static void warnings(yk_json *j, const yk_observation *w)
{
    yk_json_array(j, "warnings");
    for (int i = 0; i < w->nwarnings; i++)
        YK_JSON(j, YK_OBJECT(NULL), YK_TEXT("kind", yk_warning_texts[w->warning[i].kind].name),
                YK_TEXT("text", w->warning[i].text), YK_END);
    yk_json_end(j);
}

/* Shares of the time in the forward and the backward pass. */
static void passes(yk_json *j, const yk_observation *w)
{
    double forward = 0.0, backward = 0.0;
    for (int i = 0; i < w->nprocesses; i++) {
        forward += w->process[i].forward;
        backward += w->process[i].backward;
    }
    const double both = forward + backward;
    if (both > 0.0)
        YK_JSON(j, YK_OBJECT("passes"), YK_REAL("forward", forward / both),
                YK_REAL("backward", backward / both), YK_END);
    else
        yk_json_null(j, "passes");
}

/* What was not measured is null. */
void yk_observation_json(yk_json *j, const yk_observation *w)
{
    const bool seen = w->measured, judged = w->verdict.text[0];
    double phase[YK_PHASES];
    yk_verdict_shares(w->measured, w->nmeasured, phase);
    yk_json_text(j, "verdict", judged ? w->verdict.text : NULL);
    judged ? bottleneck(j, &w->verdict) : yk_json_null(j, "bottleneck");
    seen ? yk_phases_json(j, phase, 1.0, false) : yk_json_null(j, "phases");
    passes(j, w);
    seen ? resources(j, w) : yk_json_null(j, "resources");
    hosts(j, w);
    interfaces(j, w);
    seen ? processes(j, w) : yk_json_null(j, "processes");
    alerts(j, w);
    warnings(j, w);
}
