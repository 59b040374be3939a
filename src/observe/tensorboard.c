/* TensorBoard: a folder per worker, under the names that people know from TensorFlow.
 *
 *     worker-0/   loss, accuracy, global_step/sec, examples/sec, learning_rate, cpu/, memory/, network/, disk/, phases/,
 *                 staleness (a histogram), test/, the graph of the model's layers
 *     worker-1/   examples/sec, phases/, staleness of this worker
 *
 * In a cluster each rank writes its own folder, with the resources of its process, where it can reach the run directory.
 *
 * phases/ are shares of the time since the last event, so that they add up to 1 in each.
 */
#include "observe/observer_internal.h"

#include "base/fs.h"
#include "format/events.h"
#include <ctype.h>
#include <fcntl.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { MOST_SCALARS = 32, MOST_FOLDERS = 64 };

struct yk__tensorboard {
    int n;                    /* folders: of more workers than these, the rest is left out */
    bool used;                /* there is more in them than the graph */
    yk_events **events;       /* [n] */
    yk_phases_sample *before; /* [n] as of the last event */
};

/* ---- the graph of the layers ---- */

/* "conv 6 5x5 same" is called conv_1: names are for addressing, and the text says all. */
static void name_node(const yk_layer_line *line, int number, char name[48], char op[24])
{
    size_t n = 0;
    for (; isalnum((unsigned char)line->text[n]) && n + 1 < 24; n++)
        op[n] = line->text[n];
    if (n == 0)
        n = (size_t)snprintf(op, 24, "layer");
    op[n] = '\0';
    snprintf(name, 48, "%s_%d", op, number);
}

static yk_status write_graph(yk_observer *o, yk_events *e)
{
    yk_layer_line *line = calloc(YK_MAX_LINES, sizeof *line);
    yk_graph_node *node = calloc(YK_MAX_LINES + 2, sizeof *node);
    char(*name)[48] = calloc(YK_MAX_LINES, sizeof *name), (*op)[24] = calloc(YK_MAX_LINES, sizeof *op);
    yk_status st = YK_OK;
    if (!line || !node || !name || !op) {
        st = yk_fail_memory(YK_MAX_LINES * sizeof *node, "the model's graph");
        goto free_all;
    }
    const yk_model_shape *s = &o->c.model->shape;
    int n = yk_model_describe(o->c.model, o->c.plan->batch, line, YK_MAX_LINES), first = 0;
    if (n > 0 && strcmp(line[0].text, "input") == 0) /* a network lists it as its first layer */
        first = 1;
    node[0] = (yk_graph_node){.name = "input", .op = "input", .rank = 1, .shape = {s->dim}};
    if (s->height && s->width)
        node[0] = (yk_graph_node){
            .name = "input", .op = "input", .rank = 3, .shape = {s->channels, s->height, s->width}};
    n -= first;
    for (int i = 0; i < n; i++) {
        const yk_layer_line *l = &line[i + first];
        name_node(l, i + 1, name[i], op[i]);
        node[i + 1] = (yk_graph_node){.name = name[i],
                                      .op = op[i],
                                      .text = l->text,
                                      .input = node[i].name,
                                      .rank = l->rank,
                                      .shape = {l->shape[0], l->shape[1], l->shape[2]},
                                      .params = l->params};
    }
    node[n + 1] = (yk_graph_node){.name = "loss", .op = "loss", .input = node[n].name};
    st = yk_events_graph(e, 0, node, (size_t)n + 2);
free_all:
    free(line);
    free(node);
    free(name);
    free(op);
    return st;
}

/* ---- beginning and end ---- */

yk_status yk__tensorboard_open(yk_observer *o, const char *run_dir)
{
    if (!run_dir)
        return YK_OK;
    yk__tensorboard *b = calloc(1, sizeof *b);
    if (!b)
        return yk_fail_memory(sizeof *b, "TensorBoard's logs");
    o->tensorboard = b;
    const int n = o->c.workers < MOST_FOLDERS ? o->c.workers : MOST_FOLDERS;
    b->events = calloc((size_t)n, sizeof *b->events);
    b->before = calloc((size_t)n, sizeof *b->before);
    if (!b->events || !b->before)
        return yk_fail_memory((size_t)n * sizeof *b->before, "TensorBoard's logs");
    yk_status st = YK_OK;
    for (; !st && b->n < n; b->n += !st) {
        char name[32];
        if (o->alone || n == 1)
            snprintf(name, sizeof name, "worker-%d", o->number + b->n);
        else
            snprintf(name, sizeof name, "worker-%d-%d", o->number, b->n);
        st = yk_events_create(run_dir, name, &b->events[b->n]);
    }
    return st || o->c.rank ? st : write_graph(o, b->events[0]);
}

yk_status yk__tensorboard_close(yk_observer *o, yk_status so_far)
{
    const double nan = (double)NAN;
    yk__tensorboard *b = o->tensorboard;
    yk_status st = so_far;
    if (!b)
        return st;
    /* what came since the last event; of a short run it is all there is */
    if (!o->unchanged)
        yk__tensorboard_progress(o, o->c.rank ? o->self.look.steps : o->steps,
                                 &(yk__progress){nan, nan, nan, nan, nan, nan});
    for (int i = 0; i < b->n; i++) {
        if (o->unchanged && !b->used)
            yk_fs_remove(AT_FDCWD, yk_events_path(b->events[i]), 0);
        st = yk_events_close(b->events[i], st);
    }
    free(b->events);
    free(b->before);
    free(b);
    o->tensorboard = NULL;
    return st;
}

/* ---- while it goes on ---- */

typedef struct {
    yk_scalar scalar[MOST_SCALARS];
    size_t n;
} scalars;

static void add(scalars *s, const char *tag, double value)
{
    if (s->n < MOST_SCALARS && isfinite(value))
        s->scalar[s->n++] = (yk_scalar){tag, (float)value};
}

static void add_resources(yk_observer *o, scalars *s)
{
    yk_sample now;
    if (!yk__observer_sample(o, &now))
        return;
    add(s, "cpu/process", now.cpu_user + now.cpu_system);
    add(s, "cpu/host", now.cpu_host);
    add(s, "memory/resident", now.rss);
    add(s, "memory/host", now.host_memory);
    add(s, "network/in", now.net_in);
    add(s, "network/out", now.net_out);
    add(s, "disk/read", now.disk_read);
    add(s, "disk/written", now.disk_written);
}

/* A worker's rate and phases since its last event. */
static void add_worker(yk_observer *o, int worker, scalars *s)
{
    static const char *const tags[YK_PHASES] = {
#define TAG(name, text) "phases/" text,
        YK_PHASE_LIST(TAG)
#undef TAG
    };
    yk_phases_sample now, *before = &o->tensorboard->before[worker];
    yk_phases_read(&o->c.phases[worker], &now);
    double part[YK_PHASES], sum = 0.0;
    for (int k = 0; k < YK_PHASES; k++) {
        part[k] =
            fmax(now.phase[k] - before->phase[k], 0.0); /* the open phase is an estimate and may shrink */
        sum += part[k];
    }
    if (!(sum > 0.0))
        return;
    add(s, "examples/sec", (double)(now.examples - before->examples) / sum);
    for (int k = 0; k < YK_PHASES; k++)
        add(s, tags[k], part[k] / sum);
    *before = now;
}

void yk__tensorboard_progress(yk_observer *o, uint64_t step, const yk__progress *p)
{
    yk__tensorboard *b = o->tensorboard;
    for (int i = 0; b && i < b->n; i++) {
        scalars s = {.n = 0};
        if (i == 0) {
            add(&s, "loss", p->loss);
            add(&s, "global_step/sec", p->step_rate);
            add(&s, "learning_rate", p->lr);
            add_resources(o, &s);
        }
        add_worker(o, i, &s);
        if (i == 0) /* the chief's is that of all together */
            for (size_t k = 0; k < s.n; k++)
                if (strcmp(s.scalar[k].tag, "examples/sec") == 0 && isfinite(p->rate))
                    s.scalar[k].value = (float)p->rate;
        if (s.n)
            yk_events_scalars(b->events[i], 0, (int64_t)step, s.scalar, s.n);
        b->used = true;
        yk_events_flush(b->events[i]); /* the first error is kept and told at the end */
    }
}

/* TensorBoard wants buckets by their upper limits. */
static yk_status write_staleness(yk_events *e, uint64_t step, const yk_staleness_histogram *s)
{
    double limit[YK_STALENESS_POWERS], count[YK_STALENESS_POWERS], squares = 0.0;
    size_t n = 0;
    if (!s->observed)
        return YK_OK;
    for (int b = 0; b < YK_STALENESS_POWERS; b++) {
        const double low = b < 2 ? b : ldexp(1.0, b - 1), high = b < 2 ? b : ldexp(1.0, b) - 1.0;
        if (b > 0 && low > s->max)
            break;
        limit[n] = high;
        count[n++] = (double)s->count[b];
        squares += (double)s->count[b] * (low + high) * (low + high) / 4.0;
    }
    const yk_histogram h = {.max = s->max,
                            .num = (double)s->observed,
                            .sum = s->mean * (double)s->observed,
                            .sum_squares = squares,
                            .n = n,
                            .limit = limit,
                            .count = count};
    return yk_events_histogram(e, 0, (int64_t)step, "staleness", &h);
}

yk_status yk__tensorboard_evaluated(yk_observer *o, const yk_evaluation *e)
{
    yk__tensorboard *b = o->tensorboard;
    scalars s = {.n = 0};
    yk_status st = YK_OK;
    if (!b)
        return YK_OK;
    add(&s, "train_loss", e->train_loss);
    if (e->tested) {
        add(&s, "accuracy", e->accuracy);
        add(&s, "test/loss", e->test_loss);
        add(&s, "test/majority_accuracy", e->majority_accuracy);
        add(&s, "test/auc", e->auc);
    }
    if (s.n)
        st = yk_events_scalars(b->events[0], 0, (int64_t)e->at.step, s.scalar, s.n);
    b->used = true;
    for (int i = 0; !st && i < b->n; i++) {
        yk_staleness_histogram seen = {0};
        o->c.staleness(o->c.context, i, &seen);
        if (!(st = write_staleness(b->events[i], e->at.step, &seen)))
            st = yk_events_flush(b->events[i]);
    }
    return st;
}
