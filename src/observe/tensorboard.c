/* TensorBoard: one run per job. Its events are in the run directory itself, written by the chief:
 *
 *     train/loss, train/learning_rate
 *     train/dense_learning_rate                             if it differs from that of the keyed parameters
 *     train/learning_rate_2, _3, _4                         that of the second, third and fourth keyed group, if it differs
 *     train/mean_loss                                       at evaluations: since the evaluation before
 *     test/loss, test/accuracy, test/majority_accuracy, test/auc                                            at evaluations
 *     train/staleness                                       a histogram, at evaluations
 *     speed/examples_per_second, speed/global_step_per_second                                  of all workers, recently
 *     phases/input, phases/compute, ...                     shares of all workers' time since the last event; their sum is 1
 *     rankN/cpu, rankN/memory, rankN/disk_read, rankN/disk_written      process of rank N: cores; bytes; bytes per second
 *     rankN/sent, rankN/received                            messages of the process, bytes per second
 *     rankN/host_cpu, rankN/host_memory                     its host, all programs
 *     host/HOST/eth0_sent, host/HOST/eth0_received          an interface of a host, all programs, bytes per second
 *
 * and the graph of the layers and the hyperparameters. With --tensorboard-workers, each worker (in a job, each
 * process) also has a directory worker-N/, a run of its own, with speed/examples_per_second and phases/..., and rankN/... of its
 * process. The ranks of a job write them, if they can reach the run directory.
 */
#include "observe/observe_internal.h"

#include "base/number.h"
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>

/* ---- the hyperparameters of the run, for the tab "HParams", which has a row per run ---- */

enum { MAX = 96, TEXT = 512 };

static bool has(const yk_hyperparameter *list, size_t n, const char *name)
{
    for (size_t i = 0; i < n; i++)
        if (!strcmp(list[i].name, name))
            return true;
    return false;
}

/* TensorBoard takes the names of the columns from one of the runs, so all runs have these, even if the options were not given. */
static size_t list_common(const yk_observer *o, yk_hyperparameter *list)
{
    const yk_config *c = o->c.config;
    const yk_plan *p = o->c.plan;
    const yk_optim_config *optim = o->c.optim[0];
    const yk_hyperparameter common[] = {
        {"model", c->model, NAN},
        {"data", c->data, NAN},
        {"mode", p->mode, NAN},
        {"optimizer", optim ? yk_optim_rule_of(optim->kind)->name : NULL, NAN},
        {"lr", NULL, optim ? optim->lr : NAN},
        {"batch", NULL, (double)p->batch},
        {"global batch", NULL, (double)p->global_batch},
        {"workers", NULL, p->workers},
        {"processes", NULL, o->c.ranks},
        {"servers", NULL, p->servers},
        {"threads", NULL, p->threads},
        {"seed", NULL, (double)c->seed}};
    size_t n = 0;
    for (size_t i = 0; i < sizeof common / sizeof *common; i++)
        if (common[i].text || isfinite(common[i].number))
            list[n++] = common[i];
    return n;
}

static yk_status write_parameters(const yk_observer *o, yk_events *e)
{
    static const char *const metrics[] = {
        "test/accuracy", "test/auc", "test/loss", "train/mean_loss", "speed/examples_per_second", NULL};
    yk_hyperparameter list[MAX];
    char(*texts)[TEXT] = calloc(MAX, sizeof *texts);
    if (!texts)
        return yk_fail_memory(MAX * sizeof *texts, "the hyperparameters");
    size_t n = list_common(o, list);
    for (const yk_option *k = yk_options; k->name && n < MAX; k++) {
        if (!(k->flags & YK_OPT_CHANGES_RESULTS) || has(list, n, k->name))
            continue;
        const char *text = yk_config_changed(o->c.config, k, texts[n]);
        double x = (double)NAN;
        if (*text && yk_option_is_number(k) && !yk_number_real(text, -HUGE_VAL, HUGE_VAL, &x))
            text = NULL;
        if (!text || *text)
            list[n++] = (yk_hyperparameter){k->name, text, x};
    }
    const yk_status st = yk_events_session_begin(e, list, n, metrics);
    free(texts);
    return st;
}

enum { MAX_SCALARS = 64, MAX_DIRECTORIES = 64 };

struct yk__tensorboard {
    int n;     /* files: on the chief, that of the run; then those of the first workers */
    int first; /* the file of worker 0: 1 on the chief, else 0 */
    bool used; /* they have more than the graph */
    yk_events *events[1 + MAX_DIRECTORIES];
    yk_phases_sample
        before[1 + MAX_DIRECTORIES]; /* at the last event; on the chief, [0] is the sum of all workers */
};

/* ---- the graph of the layers ---- */

/* Layer 0, "conv 6 5x5 same", is named conv_0, with the number that --dry-run prints and the weights have. The whole text is
 * an attribute of the node. */
static void name_node(const yk_layer_line *line, int number, char name[48], char op[24])
{
    snprintf(op, 24, "%.*s", (int)strcspn(line->text, " :"), line->text);
    snprintf(name, 48, "%s_%d", op, number);
}

static yk_status write_graph(yk_observer *o, yk_events *e)
{
    struct graph {
        yk_layer_line line[YK_MAX_LINES];
        yk_graph_node node[YK_MAX_LINES + 2];
        char name[YK_MAX_LINES][48], op[YK_MAX_LINES][24];
    } *g = calloc(1, sizeof *g);
    if (!g)
        return yk_fail_memory(sizeof *g, "the model's graph");
    const yk_model_shape *s = &o->c.model->shape;
    const int all = yk_model_describe(o->c.model, o->c.plan->batch, g->line);
    const int first = all > 0 && strcmp(g->line[0].text, "input") == 0; /* a network lists its input */
    const int n = all - first;
    g->node[0] = (yk_graph_node){.name = "input", .op = "input", .rank = 1, .shape = {s->dim}};
    if (s->height && s->width)
        g->node[0] = (yk_graph_node){
            .name = "input", .op = "input", .rank = 3, .shape = {s->channels, s->height, s->width}};
    for (int i = 0; i < n; i++) {
        const yk_layer_line *l = &g->line[i + first];
        name_node(l, i, g->name[i], g->op[i]);
        g->node[i + 1] = (yk_graph_node){.name = g->name[i],
                                         .op = g->op[i],
                                         .text = l->text,
                                         .input = g->node[i].name,
                                         .rank = l->rank,
                                         .shape = {l->shape[0], l->shape[1], l->shape[2]},
                                         .params = l->params};
    }
    g->node[n + 1] = (yk_graph_node){.name = "loss", .op = "loss", .input = g->node[n].name};
    const yk_status st = yk_events_graph(e, 0, g->node, (size_t)n + 2);
    free(g);
    return st;
}

/* ---- beginning and end ---- */

yk_status yk__tensorboard_open(yk_observer *o, const char *run_dir)
{
    const bool chief = o->c.rank == 0, workers = o->c.config->tensorboard_workers;
    if (!run_dir || (!chief && !workers))
        return YK_OK;
    yk__tensorboard *b = calloc(1, sizeof *b);
    if (!b)
        return yk_fail_memory(sizeof *b, "the TensorBoard events");
    o->tensorboard = b;
    b->first = chief;
    const int of_workers = !workers ? 0 : o->c.workers < MAX_DIRECTORIES ? o->c.workers : MAX_DIRECTORIES;
    const int n = b->first + of_workers;
    yk_status st = YK_OK;
    for (; !st && b->n < n; b->n += !st) {
        char name[32];
        const int worker = b->n - b->first;
        if (worker < 0)
            snprintf(name, sizeof name, ".");
        else if (o->single_process || of_workers == 1)
            snprintf(name, sizeof name, "worker-%d", o->base.rank + worker);
        else
            snprintf(name, sizeof name, "worker-%d-%d", o->base.rank, worker);
        st = yk_events_create(run_dir, name, &b->events[b->n]);
    }
    if (!st && chief)
        st = write_graph(o, b->events[0]);
    return st || !chief ? st : write_parameters(o, b->events[0]);
}

yk_status yk__tensorboard_close(yk_observer *o, yk_status so_far)
{
    yk__tensorboard *b = o->tensorboard;
    yk_status st = so_far;
    if (!b)
        return st;
    /* the time since the last event; of a short run, all of it */
    const yk_progress_report end = yk__progress_unknown(o->c.rank ? o->self.phases.steps : o->steps);
    if (o->started && !o->unchanged)
        yk__tensorboard_progress(o, &end, false);
    /* a run that was stopped may be resumed, but TensorBoard keeps the first end of a session */
    if (b->first && b->n && o->started && o->state && strcmp(o->state, "stopped"))
        yk_events_session_end(b->events[0], !strcmp(o->state, "done")); /* an error is kept */
    for (int i = 0; i < b->n; i++) {
        if (o->unchanged && !b->used)
            yk_sys->remove(AT_FDCWD, yk_events_path(b->events[i]), 0);
        st = yk_events_close(b->events[i], st);
    }
    free(b);
    o->tensorboard = NULL;
    return st;
}

/* ---- during training ---- */

typedef struct {
    yk_scalar scalar[MAX_SCALARS];
    char tag[MAX_SCALARS][112];
    size_t n;
} scalars;

__attribute__((format(printf, 3, 4))) static void add(scalars *s, double value, const char *format, ...)
{
    va_list args;
    if (s->n == MAX_SCALARS || !isfinite(value))
        return;
    va_start(args, format);
    vsnprintf(s->tag[s->n], sizeof *s->tag, format, args);
    va_end(args);
    s->scalar[s->n] = (yk_scalar){s->tag[s->n], (float)value};
    s->n++;
}

/* Writes the scalars and removes them from the list. */
static yk_status write_all(yk_events *e, uint64_t step, scalars *s)
{
    const size_t n = s->n;
    s->n = 0;
    return n ? yk_events_scalars(e, 0, (int64_t)step, s->scalar, n) : YK_OK;
}

static void add_progress(scalars *s, const yk_progress_report *p)
{
    add(s, p->now.loss, "train/loss");
    for (int g = 0; g < YK_RATES; g++)
        add(s, p->rate[g], "train/%s", yk__rate_names[g]);
    add(s, p->now.steps_per_second, "speed/global_step_per_second");
    add(s, p->now.examples_per_second, "speed/examples_per_second");
}

/* Of the process of a rank; `host`: it also writes the interfaces of this host; NULL: it does not. */
static void add_resources(int rank, const char *host, const yk_sample *now, scalars *s)
{
    if (!(now->seconds > 0.0))
        return;
    add(s, now->cpu, "rank%d/cpu", rank);
    add(s, now->rss, "rank%d/memory", rank);
    add(s, now->sent, "rank%d/sent", rank);
    add(s, now->received, "rank%d/received", rank);
    add(s, now->disk_read, "rank%d/disk_read", rank);
    add(s, now->disk_written, "rank%d/disk_written", rank);
    add(s, now->cpu_host, "rank%d/host_cpu", rank);
    add(s, now->host_memory, "rank%d/host_memory", rank);
    for (int i = 0; host && i < now->nnics; i++) {
        add(s, now->nic[i].in, "host/%s/%s_received", host, now->nic[i].name);
        add(s, now->nic[i].out, "host/%s/%s_sent", host, now->nic[i].name);
    }
}

static void add_own_resources(yk_observer *o, scalars *s)
{
    const yk_usage u = yk__observer_usage(o);
    yk_mutex_lock(&o->lock);
    const yk_sample now = o->history.sample;
    yk_mutex_unlock(&o->lock);
    add_resources(o->base.rank, o->first_of_host ? u.host : NULL, &now, s);
}

/* The shares of the phases since the last event; returns their sum in seconds. */
static double add_phases(const yk_phases_sample *now, const yk_phases_sample *before, bool server, scalars *s)
{
    double part[YK_PHASES], sum = 0.0;
    for (int k = 0; k < YK_PHASES; k++) {
        /* the current phase is an estimate and may shrink */
        part[k] = fmax(now->phase[k] - before->phase[k], 0.0);
        sum += part[k];
    }
    for (int k = 0; sum > 0.0 && k < YK_PHASES; k++)
        if (yk_phase_applies((yk_phase)k, server))
            add(s, part[k] / sum, "phases/%s", yk_phase_name((yk_phase)k));
    return sum;
}

/* The phases of a worker, and its rate. */
static void add_worker(yk_observer *o, int worker, scalars *s)
{
    yk__tensorboard *b = o->tensorboard;
    yk_phases_sample now, *before = &b->before[b->first + worker];
    yk_phases_read(&o->c.phases[worker], &now);
    const double sum = add_phases(&now, before, !o->base.workers, s);
    if (!(sum > 0.0))
        return;
    const double paused = now.phase[YK_PHASE_EVAL] - before->phase[YK_PHASE_EVAL] +
                          now.phase[YK_PHASE_CHECKPOINT] - before->phase[YK_PHASE_CHECKPOINT];
    if (o->resources || now.examples > before->examples) /* no speed after the last step */
        add(s, (double)(now.examples - before->examples) / (sum - paused), "speed/examples_per_second");
    *before = now;
}

/* On the chief: of all processes. */
static void write_run(yk_observer *o, const yk_progress_report *p, bool brief)
{
    yk__tensorboard *b = o->tensorboard;
    scalars s = {.n = 0};
    yk_phases_sample sum = {0};
    int n;
    add_progress(&s, p);
    if (brief) {
        write_all(b->events[0], p->now.step, &s);
        return;
    }
    const yk_usage usage = yk__observer_usage(o);
    const yk_process self = yk__self_so_far(o, &usage);
    yk_process *all = yk__processes(o, &self, &n);
    for (int i = 0; i < n; i++) {
        for (int k = 0; k < YK_PHASES; k++)
            sum.phase[k] += all[i].workers > 0 ? all[i].phases.phase[k] : 0.0;
        /* one process of a host writes its interfaces */
        add_resources(all[i].rank, yk__first_of_host(all, i) ? all[i].usage.host : NULL, &all[i].sample, &s);
        write_all(b->events[0], p->now.step, &s);
    }
    if (add_phases(&sum, &b->before[0], false, &s) > 0.0)
        b->before[0] = sum;
    write_all(b->events[0], p->now.step, &s);
    free(all);
}

void yk__tensorboard_progress(yk_observer *o, const yk_progress_report *p, bool brief)
{
    yk__tensorboard *b = o->tensorboard;
    if (!b)
        return;
    b->used = true;
    if (b->first)
        write_run(o, p, brief);
    if (brief)
        return;
    for (int i = 0; i < b->n - b->first; i++) {
        scalars s = {.n = 0};
        if (i == 0 && !b->first)
            add_own_resources(o, &s);
        add_worker(o, i, &s);
        write_all(b->events[b->first + i], p->now.step, &s);
    }
    for (int i = 0; i < b->n; i++)
        yk_events_flush(b->events[i]); /* the first error is kept and reported at the end */
}

/* TensorBoard defines buckets by their upper limits. */
static yk_status write_staleness(yk_events *e, uint64_t step, const yk_staleness *s)
{
    double limit[YK_STALENESS_BUCKETS], count[YK_STALENESS_BUCKETS], squares = 0.0;
    size_t n = 0;
    if (!s->observed)
        return YK_OK;
    for (int b = 0; b < YK_STALENESS_BUCKETS; b++) {
        const double low = b < 2 ? b : ldexp(1.0, b - 1), high = b < 2 ? b : ldexp(1.0, b) - 1.0;
        if (b > 0 && low > s->max)
            break;
        limit[n] = high;
        count[n++] = (double)s->bucket[b];
        squares += (double)s->bucket[b] * (low + high) * (low + high) / 4.0;
    }
    const yk_histogram h = {.max = s->max,
                            .num = (double)s->observed,
                            .sum = s->mean * (double)s->observed,
                            .sum_squares = squares,
                            .n = n,
                            .limit = limit,
                            .count = count};
    return yk_events_histogram(e, 0, (int64_t)step, "train/staleness", &h);
}

yk_status yk__tensorboard_evaluated(yk_observer *o, const yk_evaluation *e, bool late)
{
    static const char *const tags[] = {
        "train/mean_loss",        "test/loss",       "test/accuracy",       "test/auc",
        "test/majority_accuracy", "validation/loss", "validation/accuracy", "validation/auc"};
    yk__tensorboard *b = o->tensorboard;
    scalars s = {.n = 0};
    if (!b)
        return YK_OK;
    for (int k = YK__TRAIN_LOSS; k < YK__METRICS; k++)
        add(&s, yk__metrics_of(e)[k], "%s", tags[k - YK__TRAIN_LOSS]);
    yk_status st = write_all(b->events[0], e->m.step, &s);
    b->used = true;
    for (int i = 0; !st && !late && i < b->n; i++) {
        yk_staleness seen = {0};
        o->c.staleness(o->c.context, i > b->first ? i - b->first : 0, &seen); /* 0: of all workers */
        if (!(st = write_staleness(b->events[i], e->m.step, &seen)))
            st = yk_events_flush(b->events[i]);
    }
    return st;
}
