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
    yk_json_object(j, "bottleneck");
    yk_json_text(j, "kind", yk_verdict_name(v->kind));
    yk_json_real(j, "share", v->share);
    YK_JSON_TEXTS(j, {"text", v->text}, {"advice", v->advice[0] ? v->advice : NULL});
    if (v->host[0])
        yk_json_text(j, "host", v->host);
    yk_json_object(j, "numbers");
    for (int i = 0; i < v->nnumbers; i++)
        yk_json_real(j, v->number[i].name, v->number[i].value);
    yk_json_end(j);
    yk_json_end(j);
}

static void mean_peak(yk_json *j, const char *name, yk_mean_peak m, double of)
{
    yk_json_object(j, name);
    YK_JSON_REALS(j, {"mean", m.mean}, {"peak", m.peak});
    if (of > 0.0)
        yk_json_real(j, "of", of);
    yk_json_end(j);
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
            yk_json_object(j, NULL);
            YK_JSON_TEXTS(j, {"host", u->host}, {"name", u->nic[k].name});
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
        yk_json_object(j, NULL);
        YK_JSON_TEXTS(j, {"host", u->host}, {"cpu", m->cpu}, {"os", m->os}, {"kernel", m->kernel},
                      {"compiler", m->compiler}, {"yoke", m->yoke},
                      {"transport", m->transport[0] ? m->transport : NULL});
        YK_JSON_REALS(j, {"cores", u->host_cores}, {"usable_cores", u->cores}, {"memory_bytes", m->memory});
        yk_json_object(j, "sent_to");
        for (int k = 0; w->job && k < w->nprocesses; k++)
            if (k != i && w->process[k].usage.host[0] && yk__first_of_host(w->process, k))
                yk_json_int(j, w->process[k].usage.host, (int64_t)bytes_between(w, i, k));
        yk_json_end(j);
        yk_json_end(j);
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
        yk_json_object(j, NULL);
        YK_JSON_INTS(j, {"worker", one->worker}, {"steps", one->phases.steps},
                     {"examples", one->phases.examples});
        YK_JSON_REALS(j, {"step_seconds", one->phases.step_mean},
                      {"step_deviation", one->phases.step_deviation});
        YK_JSON_INTS(j, {"barriers", one->phases.barriers}, {"came_last", one->phases.last});
        yk_phases_json(j, one->phases.phase, one->phases.seconds, false);
        yk_json_end(j);
    }
    yk_json_end(j);
}

void yk_traffic_json(yk_json *j, const char *name, const yk_traffic *t)
{
    yk_json_object(j, name);
    for (int p = 0; p < YK_PURPOSES; p++) {
        yk_json_object(j, yk_purpose_name[p]);
        YK_JSON_INTS(j, {"sent", t[p].sent}, {"received", t[p].received}, {"messages", t[p].messages_sent},
                     {"messages_received", t[p].messages_received});
        yk_json_end(j);
    }
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
        yk_json_object(j, NULL);
        yk_json_int(j, "rank", p->rank);
        yk_json_text(j, "role", p->role);
        yk_json_bool(j, "joined", p->joined);
        yk_json_bool(j, "lost", p->lost);
        yk_json_text(j, "host", p->usage.host);
        yk_json_real(j, "seconds", p->usage.seconds);
        YK_JSON_INTS(j, {"steps", p->phases.steps}, {"examples", p->phases.examples});
        yk_json_real(j, "train_loss", p->phases.loss / p->phases.weight); /* no examples: NaN */
        YK_JSON_INTS(j, {"bytes_sent", p->bytes_sent}, {"bytes_received", p->bytes_received});
        if (w->job)
            yk_traffic_json(j, "traffic", p->traffic);
        YK_JSON_REALS(j, {"sent_rate", p->usage.sent.mean}, {"sent_rate_peak", p->usage.sent.peak},
                      {"received_rate", p->usage.received.mean},
                      {"received_rate_peak", p->usage.received.peak},
                      {"disk_rate", p->usage.disk_read.mean + p->usage.disk_written.mean},
                      {"disk_rate_peak", p->usage.disk_read.peak + p->usage.disk_written.peak},
                      {"cpu_seconds", p->usage.cpu.mean * p->usage.seconds}, {"cpu_mean", p->usage.cpu.mean},
                      {"cpu_peak", p->usage.cpu.peak}, {"rss_mean", p->usage.memory.mean},
                      {"rss_peak", p->usage.memory.peak},
                      {"disk_read_bytes", p->usage.disk_read.mean * p->usage.seconds},
                      {"disk_written_bytes", p->usage.disk_written.mean * p->usage.seconds});
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
            yk_json_object(j, NULL);
            yk_json_int(j, "rank", w->process[i].rank);
            yk_json_text(j, "what", yk_alert_name(a->what));
            YK_JSON_REALS(j, {"begin", a->begin}, {"seconds", a->seconds}, {"level", a->level});
            yk_json_end(j);
        }
    yk_json_end(j);
}

static void warnings(yk_json *j, const yk_observation *w)
{
    yk_json_array(j, "warnings");
    for (int i = 0; i < w->nwarnings; i++) {
        yk_json_object(j, NULL);
        YK_JSON_TEXTS(j, {"kind", yk_warning_texts[w->warning[i].kind].name}, {"text", w->warning[i].text});
        yk_json_end(j);
    }
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
    if (!(both > 0.0)) {
        yk_json_null(j, "passes");
        return;
    }
    yk_json_object(j, "passes");
    YK_JSON_REALS(j, {"forward", forward / both}, {"backward", backward / both});
    yk_json_end(j);
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
