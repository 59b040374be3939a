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

static int width_of(int so_far, const char *text)
{
    const int n = (int)strlen(text);
    return n > WIDEST ? WIDEST : n > so_far ? n : so_far;
}

static void rule(FILE *to, int n)
{
    while (n-- > 0)
        fputc('-', to);
    fputc('\n', to);
}

/* ---- before training ---- */

static void show_totals(FILE *to, const yk_description *d)
{
    char a[32], b[32], c[32], e[32];
    const double workers = (double)d->workers, both = d->flops + d->flops_back;
    const double once = (double)(d->weight_bytes + d->state_bytes),
                 each = (double)(d->gradient_bytes + d->activation_bytes);
    fprintf(to, "parameters    %s\n", grouped(d->params, a));
    if (d->flops > 0.0) {
        fprintf(to, "FLOPs         per %s: forward %s, backward %s\n", d->unit, counted(d->flops, a),
                counted(d->flops_back, b));
        fprintf(to, "              per step: %s (%llu %s%s", counted(both * (double)d->batch * workers, a),
                (unsigned long long)d->batch, d->unit, yk_plural(d->batch));
        fprintf(to, d->workers > 1 ? " for each of %d workers)\n" : ")\n", d->workers);
    }
    if (d->flops > 0.0 && d->examples)
        fprintf(to, "              per epoch: %s (%s %s%s)\n", counted(both * (double)d->examples, a),
                grouped(d->examples, b), d->unit, yk_plural(d->examples));
    fprintf(to, "memory        %s: weights %s, gradient %s, ", yk_bytes_text(once + each, a),
            yk_bytes_text((double)d->weight_bytes, b), yk_bytes_text((double)d->gradient_bytes, c));
    fprintf(to, "state of %s %s, activations %s\n", d->optimizer, yk_bytes_text((double)d->state_bytes, a),
            yk_bytes_text((double)d->activation_bytes, e));
    if (d->workers > 1)
        fprintf(to, "              %s with %d workers; each has its own gradient and activations\n",
                yk_bytes_text(once + each * workers, a), d->workers);
}

void yk_show_model(FILE *to, const char *name, const yk_description *d)
{
    int text = 5, shape = 6;
    char buffer[64], a[32], b[32];
    for (int i = 0; i < d->nlines; i++) {
        text = width_of(text, d->line[i].text);
        shape = width_of(shape, shaped(d->line[i].rank, d->line[i].shape, buffer));
    }
    const int all = 4 + text + 2 + shape + 2 + 12 + 2 + 14 + 2 + 11;
    fprintf(to, *d->list ? "%s: %s\n\n" : "%s\n\n", name, d->list);
    fprintf(to, "%2s  %-*s  %-*s  %12s  %14s  %11s\n", "#", text, "layer", shape, "output", "parameters",
            "MFLOP forward", "activations");
    rule(to, all);
    const bool has_input = d->nlines > 1; /* it has no number: layers have the numbers of their tensors */
    for (int i = 0; i < d->nlines; i++) {
        const yk_layer_line *l = &d->line[i];
        char number[16] = "", flops[32] = "";
        if (i || !has_input)
            snprintf(number, sizeof number, "%d", has_input ? i - 1 : i);
        if (l->flops > 0.0)
            snprintf(flops, sizeof flops, "%.3f", l->flops * 1e-6);
        fprintf(to, "%2s  %-*.*s  %-*s  %12s  %14s  %11s\n", number, text, text, l->text, shape,
                shaped(l->rank, l->shape, buffer), l->params ? grouped(l->params, a) : "", flops,
                l->bytes ? yk_bytes_text((double)l->bytes, b) : "");
    }
    rule(to, all);
    show_totals(to, d);
}

static void line_json(yk_json *j, const yk_layer_line *l)
{
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

char *yk_model_json(const char *name, const yk_description *d)
{
    yk_json all = {0}, *j = &all;
    yk_json_object(j, NULL);
    yk_json_text(j, "model", name);
    if (*d->list)
        yk_json_text(j, "list", d->list);
    yk_json_bool(j, "dry_run", true);
    yk_json_array(j, "layers");
    for (int i = 0; i < d->nlines; i++)
        line_json(j, &d->line[i]);
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

static void show_layers(FILE *to, const yk_profile *p)
{
    int text = 5, shape = 6;
    char buffer[64], bytes[32];
    double sum = 0.0;
    for (int i = 0; i < p->nlines; i++) {
        text = width_of(text, p->line[i].text);
        shape = width_of(shape, shaped(p->line[i].rank, p->line[i].shape, buffer));
        sum += p->line[i].seconds;
    }
    const double all = p->train_seconds > sum ? p->train_seconds : sum, peak = p->peak * (double)p->threads;
    fprintf(to, "\ntime of worker 0 by layer and pass (%d thread%s)\n", p->threads, yk_plural(p->threads));
    fprintf(to, "%-*s  %-8s  %-*s  %9s  %10s  %7s  %8s  %6s  %9s\n", text, "layer", "pass", shape, "output",
            "calls", "ms", "share", "GFLOP/s", "% peak", "moved");
    rule(to, text + 2 + 8 + 2 + shape + 2 + 9 + 2 + 10 + 2 + 7 + 2 + 8 + 2 + 6 + 2 + 9);
    for (int i = 0; i < p->nlines; i++) {
        const yk_profile_line *l = &p->line[i];
        char rate[16] = "", percent[16] = "";
        if (l->flops > 0.0 && l->seconds > 0.0) {
            snprintf(rate, sizeof rate, "%.1f", l->flops / l->seconds * 1e-9);
            if (peak > 0.0)
                snprintf(percent, sizeof percent, "%.1f", 100.0 * l->flops / l->seconds / peak);
        }
        fprintf(to, "%-*.*s  %-8s  %-*s  %9llu  %10.2f  %5.1f %%  %8s  %6s  %9s\n", text, text, l->text,
                l->pass, shape, shaped(l->rank, l->shape, buffer), (unsigned long long)l->calls,
                l->seconds * 1e3, all > 0.0 ? 100.0 * l->seconds / all : 0.0, rate, percent,
                yk_bytes_text(l->bytes, bytes));
    }
    fprintf(to, "%-*s  %-8s  %-*s  %9s  %10.2f  %5.1f %%\n", text, "other", "", shape, "", "",
            (all - sum) * 1e3, all > 0.0 ? 100.0 * (all - sum) / all : 0.0);
    fprintf(to, "other: updating the weights, waiting for data and for other workers\n");
    if (p->peak > 0.0)
        fprintf(to,
                "peak: %.1f GFLOP/s per thread, measured before training with matrix products in the cache\n",
                p->peak * 1e-9);
}

/* One line: the phases of a worker, a process or a server, in descending order. */
static void show_phases(FILE *to, const char *name, const yk_phases_sample *s)
{
    double rest[YK_PHASES];
    memcpy(rest, s->phase, sizeof rest);
    fprintf(to, "%-16s %9.3f s ", name, s->seconds);
    for (int n = 0; n < YK_PHASES && s->seconds > 0.0; n++) {
        int max = 0;
        for (int k = 1; k < YK_PHASES; k++)
            max = rest[k] > rest[max] ? k : max;
        if (rest[max] < 0.0005 * s->seconds)
            break;
        fprintf(to, "  %s %.1f %%", yk_phase_name((yk_phase)max), 100.0 * rest[max] / s->seconds);
        rest[max] = 0.0;
    }
    fprintf(to, "\n");
}

void yk_show_profile(FILE *to, const yk_result *r)
{
    const yk_observation *w = &r->observation;
    char name[48];
    if (r->profile->nlines > 0)
        show_layers(to, r->profile);
    fprintf(to, "\ntime by phase\n");
    for (int i = 0; w->nprocesses == 1 && i < w->nmeasured; i++) {
        snprintf(name, sizeof name, "worker %d", w->measured[i].worker);
        show_phases(to, name, &w->measured[i].phases);
    }
    for (int i = 0; w->nprocesses > 1 && i < w->nprocesses; i++) {
        const yk_process *p = &w->process[i];
        snprintf(name, sizeof name, "%s %d", p->workers ? "worker" : "server", p->rank);
        show_phases(to, name, &p->phases);
    }
    for (int i = 0; i < w->nprocesses; i++) { /* threads that serve a shard beside the workers */
        const yk_process *p = &w->process[i];
        snprintf(name, sizeof name, "server %d", p->rank);
        if (p->serving.seconds > 0.0)
            show_phases(to, name, &p->serving);
    }
}
