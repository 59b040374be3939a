/* The tables of --dry-run and --profile. */
#include "lib/internal.h"

#include "base/json.h"
#include <string.h>

enum { WIDEST = 40 }; /* the column of layers */

/* ---- numbers ---- */

const char *yk_bytes_text(double bytes, char text[static 24])
{
    static const char *const unit[] = {"bytes", "kB", "MB", "GB", "TB"};
    size_t u = 0;
    for (; bytes >= 999.95 && u + 1 < sizeof unit / sizeof *unit; u++)
        bytes /= 1000.0;
    snprintf(text, 24, u ? "%.1f %s" : "%.0f %s", bytes, unit[u]);
    return text;
}

/* 61706 as 61,706. */
static const char *grouped(uint64_t n, char out[static 32])
{
    char digits[24];
    const int length = snprintf(digits, sizeof digits, "%llu", (unsigned long long)n);
    char *to = out;
    for (int i = 0; i < length; i++) {
        if (i && (length - i) % 3 == 0)
            *to++ = ',';
        *to++ = digits[i];
    }
    *to = '\0';
    return out;
}

/* 842520 as 0.843 M. */
static const char *counted(double flops, char out[static 32])
{
    static const char *const unit[] = {"M", "G", "T"};
    int u = 0;
    for (flops /= 1e6; flops >= 1000.0 && u < 2; u++)
        flops /= 1000.0;
    snprintf(out, 32, "%.3g %s", flops, unit[u]);
    return out;
}

static const char *shaped(int rank, const size_t *shape, char out[static 64])
{
    int n = snprintf(out, 64, "%zu", shape[0]);
    for (int i = 1; i < rank; i++)
        n += snprintf(out + n, (size_t)(64 - n), " x %zu", shape[i]);
    return out;
}

/* ---- before training ---- */

static void show_totals(yk_text *t, const yk_description *d)
{
    char a[32], b[32], c[32], e[32];
    const double workers = (double)d->workers, both = d->flops + d->flops_back;
    const double once = (double)(d->weight_bytes + d->state_bytes),
                 each = (double)(d->gradient_bytes + d->activation_bytes);
    yk_text_print(t, "parameters    %s\n", grouped(d->params, a));
    if (d->flops > 0.0) {
        yk_text_print(t, "FLOPs         per %s: forward %s, backward %s\n", d->unit, counted(d->flops, a),
                      counted(d->flops_back, b));
        yk_text_print(t, "              per step: %s (%llu %s%s",
                      counted(both * (double)d->batch * workers, a), (unsigned long long)d->batch, d->unit,
                      yk_plural(d->batch));
        yk_text_print(t, d->workers > 1 ? " for each of %d workers)\n" : ")\n", d->workers);
    }
    if (d->flops > 0.0 && d->examples)
        yk_text_print(t, "              per epoch: %s (%s %s%s)\n", counted(both * (double)d->examples, a),
                      grouped(d->examples, b), d->unit, yk_plural(d->examples));
    yk_text_print(t, "memory        %s: weights %s, gradient %s, ", yk_bytes_text(once + each, a),
                  yk_bytes_text((double)d->weight_bytes, b), yk_bytes_text((double)d->gradient_bytes, c));
    yk_text_print(t, "state of %s %s, activations %s\n", d->optimizer,
                  yk_bytes_text((double)d->state_bytes, a), yk_bytes_text((double)d->activation_bytes, e));
    if (d->workers > 1)
        yk_text_print(t, "              %s with %d workers; each has its own gradient and activations\n",
                      yk_bytes_text(once + each * workers, a), d->workers);
}

void yk_show_model(yk_text *t, const char *name, const yk_description *d)
{
    const bool has_input = d->nlines > 1; /* it has no number: layers have the numbers of their tensors */
    yk_text rows = {0};
    yk_text_print(t, *d->list ? "%s: %s\n\n" : "%s\n\n", name, d->list);
    yk_text_add(&rows, "#\tlayer\toutput\tparameters\tMFLOP forward\tactivations\n-\n");
    for (int i = 0; i < d->nlines; i++) {
        const yk_layer_line *l = &d->line[i];
        char text[64];
        if (i || !has_input)
            yk_text_print(&rows, "%d", has_input ? i - 1 : i);
        yk_text_print(&rows, "\t%.*s\t%s\t%s", WIDEST, l->text, shaped(l->rank, l->shape, text),
                      l->params ? grouped(l->params, (char[32]){0}) : "");
        yk_text_print(&rows, l->flops > 0.0 ? "\t%.3f" : "\t", l->flops * 1e-6);
        yk_text_print(&rows, "\t%s\n", l->bytes ? yk_bytes_text((double)l->bytes, text) : "");
    }
    yk_text_add(&rows, "-\n");
    yk_text_columns(t, &rows, "><<>>>");
    show_totals(t, d);
}

char *yk_model_json(const char *name, const yk_description *d)
{
    yk_json all = {0}, *j = &all;
    yk_json_object(j, NULL);
    yk_json_text(j, "model", name);
    if (*d->list)
        yk_json_text(j, "list", d->list);
    yk_json_bool(j, "dry_run", true);
    yk_json_array(j, "layers");
    for (const yk_layer_line *l = d->line; l < d->line + d->nlines; l++) {
        yk_json_object(j, NULL);
        yk_json_text(j, "layer", l->text);
        yk_json_array(j, "output");
        for (int i = 0; i < l->rank; i++)
            yk_json_int(j, NULL, (int64_t)l->shape[i]);
        yk_json_end(j);
        yk_json_int(j, "parameters", (int64_t)l->params);
        YK_JSON_REALS(j, {"flops_forward", l->flops}, {"flops_backward", l->flops_back});
        yk_json_int(j, "activation_bytes", (int64_t)l->bytes);
        yk_json_end(j);
    }
    yk_json_end(j);
    yk_json_int(j, "parameters", (int64_t)d->params);
    yk_json_real(j, "flops_per_image", d->flops + d->flops_back);
    yk_json_real(j, "flops_per_step", (d->flops + d->flops_back) * (double)d->batch * (double)d->workers);
    YK_JSON_INTS(j, {"weight_bytes", d->weight_bytes}, {"gradient_bytes", d->gradient_bytes},
                 {"state_bytes", d->state_bytes}, {"activation_bytes", d->activation_bytes});
    yk_json_end(j);
    return yk_json_take(j);
}

/* ---- after training ---- */

static void show_layers(yk_text *t, const yk_result *r)
{
    const yk_profile *p = r->profile;
    yk_text rows = {0};
    double sum = 0.0;
    for (int i = 0; i < p->nlines; i++)
        sum += p->line[i].seconds;
    const double all = r->train_seconds > sum ? r->train_seconds : sum,
                 peak = p->peak * (double)r->threads_used, percent = all > 0.0 ? 100.0 / all : 0.0;
    yk_text_print(t, "\ntime of worker 0 by layer and pass (%d thread%s)\n", r->threads_used,
                  yk_plural((uint64_t)r->threads_used));
    yk_text_add(&rows, "layer\tpass\toutput\tcalls\tms\tshare\tGFLOP/s\t% peak\tmoved\n-\n");
    for (int i = 0; i < p->nlines; i++) {
        const yk_profile_line *l = &p->line[i];
        const double rate = l->flops > 0.0 && l->seconds > 0.0 ? l->flops / l->seconds : 0.0;
        char text[64];
        yk_text_print(&rows, "%.*s\t%s\t%s\t%llu\t%.2f\t%.1f %%", WIDEST, l->text, l->pass,
                      shaped(l->rank, l->shape, text), (unsigned long long)l->calls, l->seconds * 1e3,
                      l->seconds * percent);
        yk_text_print(&rows, rate > 0.0 ? "\t%.1f" : "\t", rate * 1e-9);
        yk_text_print(&rows, rate > 0.0 && peak > 0.0 ? "\t%.1f" : "\t", 100.0 * rate / peak);
        yk_text_print(&rows, "\t%s\n", yk_bytes_text(l->bytes, text));
    }
    yk_text_print(&rows, "other\t\t\t\t%.2f\t%.1f %%\n", (all - sum) * 1e3, (all - sum) * percent);
    yk_text_columns(t, &rows, "<<<>>>>>>");
    yk_text_add(t, "other: updating the weights, waiting for data and for other workers\n");
    if (p->peak > 0.0)
        yk_text_print(
            t, "peak: %.1f GFLOP/s per thread, measured before training with matrix products in the cache\n",
            p->peak * 1e-9);
}

/* One line: the phases of a worker, a process or a server, in descending order. */
static void show_phases(yk_text *t, const char *kind, int number, const yk_phases_sample *s)
{
    double rest[YK_PHASES];
    char name[48];
    memcpy(rest, s->phase, sizeof rest);
    snprintf(name, sizeof name, "%s %d", kind, number);
    yk_text_print(t, "%-16s %9.3f s ", name, s->seconds);
    for (int n = 0; n < YK_PHASES && s->seconds > 0.0; n++) {
        int max = 0;
        for (int k = 1; k < YK_PHASES; k++)
            max = rest[k] > rest[max] ? k : max;
        if (rest[max] < 0.0005 * s->seconds)
            break;
        yk_text_print(t, "  %s %.1f %%", yk_phase_name((yk_phase)max), 100.0 * rest[max] / s->seconds);
        rest[max] = 0.0;
    }
    yk_text_add(t, "\n");
}

void yk_show_profile(yk_text *t, const yk_result *r)
{
    const yk_observation *w = &r->observation;
    const yk_process *end = w->process + w->nprocesses;
    if (r->profile->nlines > 0)
        show_layers(t, r);
    yk_text_add(t, "\ntime by phase\n");
    for (int i = 0; w->nprocesses == 1 && i < w->nmeasured; i++)
        show_phases(t, "worker", w->measured[i].worker, &w->measured[i].phases);
    for (const yk_process *p = w->process; w->nprocesses > 1 && p != end; p++)
        show_phases(t, p->workers ? "worker" : "server", p->rank, &p->phases);
    for (const yk_process *p = w->process; p != end; p++) /* threads that serve a shard beside the workers */
        if (p->serving.seconds > 0.0)
            show_phases(t, "server", p->rank, &p->serving);
}
