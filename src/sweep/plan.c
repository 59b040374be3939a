#include "sweep/plan.h"

#include "base/team.h"
#include "base/text.h"
#include "config/hosts.h"
#include <ctype.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { MAX_RUNS = 20000, MAX_IN_NAME = 24, MAX_DIRECTORY = 200 };

/* ---- one run */

/* "--batch=100"; a flag has no value, and is left out if it is false. */
static yk_status add_argument(yk_arena *a, yk_sweep_run *r, const char *name, const char *value)
{
    const yk_option *o = yk_option_find(name);
    const yk_status st = yk_config_set(&r->config, name, value);
    if (st)
        return st;
    if (o->kind != YK_OPT_FLAG)
        r->argument[r->arguments++] = yk_arena_print(a, "--%s=%s", name, value);
    else if (*(const bool *)((const char *)&r->config + o->offset))
        r->argument[r->arguments++] = yk_arena_print(a, "--%s", name);
    return a->status;
}

static yk_status add_number(yk_arena *a, yk_sweep_run *r, const char *name, int64_t value)
{
    char text[32];
    snprintf(text, sizeof text, "%lld", (long long)value);
    return add_argument(a, r, name, text);
}

/* 0: unknown. A hostfile that cannot be read is not an error here: it may be written before the run starts. If it is
 * not, yoke train reports it. */
static yk_status count_processes(const yk_config *c, int *out)
{
    int64_t n = 0;
    const yk_status st = yk_job_processes(c, &n);
    *out = st ? 0 : (int)n;
    return c->hostfile ? YK_OK : st;
}

double yk_sweep_examples_per_step(const yk_sweep_run *r)
{
    return (double)r->plan.batch * (double)r->plan.gradients_per_step;
}

/* The number of steps for this many examples, at least 1. */
static int64_t steps_of(const yk_sweep_run *r, int64_t examples)
{
    double steps = round((double)examples / yk_sweep_examples_per_step(r));
    return steps < 1.0 ? 1 : (int64_t)steps;
}

/* Checks that the number of examples per step is known. */
static yk_status check_step_size(const yk_config *c, int processes)
{
    if (!processes)
        return yk_fail(YK_EUSAGE,
                       "%s: the number of processes (and so of examples per step) is unknown: set launch too",
                       c->hostfile);
    if (c->workers == YK_AUTO && yk_names_hosts(c))
        return yk_fail(
            YK_EUSAGE,
            "with hosts or hostfile and workers = auto, the number of examples per step is unknown: "
            "set workers to a number");
    return YK_OK;
}

static yk_status add_amounts(yk_sweep_file *f, yk_sweep_run *r)
{
    yk_arena *a = &f->arena;
    const yk_config *c = &r->config;
    int processes;
    yk_status st = count_processes(c, &processes);
    if (!st && (f->fixed == YK_SWEEP_EXAMPLES || f->eval_examples))
        st = check_step_size(c, processes);
    if (st)
        return st;
    const yk_topology job = {.processes = processes, .cores = yk_cores_per_process(processes)};
    (void)yk_plan_options(c, &job, &r->plan);
    if (f->fixed == YK_SWEEP_EXAMPLES)
        st = add_number(a, r, "steps", steps_of(r, f->amount));
    else if (f->fixed != YK_SWEEP_DEFAULT)
        st = add_number(a, r, f->fixed == YK_SWEEP_STEPS ? "steps" : "epochs", f->amount);
    if (!st && f->eval_examples)
        st = add_number(a, r, "eval-every", steps_of(r, f->eval_examples));
    if (!st && f->repeats > 1)
        st = add_number(a, r, "seed", c->seed + r->repeat);
    return st;
}

/* Checks the run and makes its plan as yoke train will. */
static yk_status plan_run(yk_sweep_run *r)
{
    const yk_config *c = &r->config;
    int processes;
    yk_status st = yk_config_check(c);
    if (!st)
        st = count_processes(c, &processes);
    if (st)
        return st;
    const bool starts = yk_config_starts_job(c);
    const yk_topology job = {.processes = starts ? processes : 1,
                             .cores = yk_cores_per_process(starts ? processes : 1),
                             .single = !starts};
    st = yk_plan_options(c, &job, &r->plan);
    r->steps = r->plan.steps == UINT64_MAX ? 0 : (int64_t)r->plan.steps;
    r->epochs = r->plan.epochs == UINT64_MAX ? 0 : (int64_t)r->plan.epochs;
    return st;
}

/* A value as part of a directory name. If characters are replaced, the number of the choice makes it unique. */
static void name_value(char *out, size_t size, const char *value, size_t choice)
{
    size_t n = 0;
    bool whole = true;
    for (const char *p = value ? value : "none"; *p; p++) {
        bool plain = isalnum((unsigned char)*p) || *p == '.' || *p == '+' || *p == '-';
        whole &= plain && n < MAX_IN_NAME;
        if (n < MAX_IN_NAME && (plain || (n > 0 && out[n - 1] != '-')))
            out[n++] = plain ? *p : '-';
    }
    out[n] = '\0';
    if (!whole)
        snprintf(out + n, size - n, "-%zu", choice + 1);
}

static yk_status name_run(yk_sweep_plan *p, const size_t *choice, yk_sweep_run *r)
{
    yk_text directory = {0}, label = {0};
    size_t k = 0;
    for (size_t i = 0; i < p->file.naxes; i++) {
        const yk_sweep_axis *a = &p->file.axis[i];
        for (size_t j = 0; a->grid && j < a->nnames; j++, k++) {
            const char *value = a->value[choice[i] * a->nnames + j];
            char part[MAX_IN_NAME + 24];
            name_value(part, sizeof part, value, choice[i]);
            r->shown[k] = value ? value : "-";
            yk_text_print(&directory, "%s%s-%s", k ? "_" : "", a->name[j], part);
            yk_text_print(&label, "%s%s=%s", k ? " " : "", a->name[j], r->shown[k]);
        }
    }
    if (p->file.repeats > 1 || !k) {
        yk_text_print(&directory, "%sseed-%lld", k ? "_" : "", (long long)r->config.seed);
        yk_text_print(&label, "%sseed=%lld", k ? " " : "", (long long)r->config.seed);
    }
    if (directory.n > MAX_DIRECTORY) {
        yk_text_fini(&directory);
        yk_text_print(&directory, "point-%zu_seed-%lld", r->point + 1, (long long)r->config.seed);
    }
    yk_arena *a = &p->file.arena;
    const yk_status st = directory.status ? directory.status : label.status;
    if (!st) {
        r->path = yk_arena_print(a, "%s/%s", p->path, directory.s);
        r->label = yk_arena_print(a, "%s", label.s);
        r->directory = r->path ? r->path + strlen(p->path) + 1 : NULL;
    }
    yk_text_fini(&directory);
    yk_text_fini(&label);
    return st ? st : a->status;
}

/* choice[i]: the choice of axis i. */
static yk_status make_run(yk_sweep_plan *p, const size_t *choice, yk_sweep_run *r)
{
    yk_sweep_file *f = &p->file;
    size_t max = 4; /* steps, eval-every, seed, and the end */
    for (size_t i = 0; i < f->naxes; i++)
        max += f->axis[i].nnames;
    yk_config_init(&r->config);
    r->argument = yk_arena_alloc(&f->arena, max, sizeof *r->argument, "the runs");
    r->shown = yk_arena_alloc(&f->arena, p->nshown + 1, sizeof *r->shown, "the runs");
    yk_status st = f->arena.status;
    for (size_t i = 0; !st && i < f->naxes; i++) {
        const yk_sweep_axis *a = &f->axis[i];
        for (size_t j = 0; !st && j < a->nnames; j++) {
            const char *value = a->value[choice[i] * a->nnames + j];
            bool seed = f->repeats > 1 &&
                        strcmp(a->name[j], "seed") == 0; /* added last, plus the number of the repeat */
            if (value)
                st = seed ? yk_config_set(&r->config, "seed", value)
                          : add_argument(&f->arena, r, a->name[j], value);
        }
    }
    if (!st && (st = add_amounts(f, r)))
        yk_fail(st, "%s: %s", f->path, yk_error());
    if (!st)
        st = name_run(p, choice, r);
    if (!st && (st = plan_run(r)))
        yk_fail(st, "%s: the run %s: %s", f->path, r->label, yk_error());
    return st;
}

/* ---- all runs */

static int by_directory(const void *a, const void *b)
{
    return strcmp((*(const yk_sweep_run *const *)a)->directory, (*(const yk_sweep_run *const *)b)->directory);
}

static yk_status check_directories(yk_sweep_plan *p)
{
    const yk_sweep_run **sorted = yk_arena_alloc(&p->file.arena, p->nruns, sizeof *sorted, "the runs");
    if (!sorted)
        return YK_ESYSTEM;
    for (size_t i = 0; i < p->nruns; i++)
        sorted[i] = &p->run[i];
    qsort(sorted, p->nruns, sizeof *sorted, by_directory);
    for (size_t i = 1; i < p->nruns; i++)
        if (strcmp(sorted[i - 1]->directory, sorted[i]->directory) == 0)
            return yk_fail(YK_EUSAGE, "%s: the run %s occurs twice: a value is repeated in [grid]",
                           p->file.path, sorted[i]->label);
    return YK_OK;
}

static yk_status count_runs(yk_sweep_plan *p)
{
    p->npoints = 1;
    for (size_t i = 0; i < p->file.naxes; i++) {
        p->npoints *= p->file.axis[i].nchoices;
        if (p->npoints * (size_t)p->file.repeats > MAX_RUNS)
            return yk_fail(YK_EUSAGE, "%s: more than %d runs; split it into several sweeps", p->file.path,
                           MAX_RUNS);
        p->nshown += p->file.axis[i].grid ? p->file.axis[i].nnames : 0;
    }
    p->nruns = p->npoints * (size_t)p->file.repeats;
    p->run = yk_arena_alloc(&p->file.arena, p->nruns, sizeof *p->run, "the runs");
    p->shown = yk_arena_alloc(&p->file.arena, p->nshown + 1, sizeof *p->shown, "the runs");
    if (p->file.arena.status)
        return p->file.arena.status;
    for (size_t i = 0, k = 0; i < p->file.naxes; i++)
        for (size_t j = 0; p->file.axis[i].grid && j < p->file.axis[i].nnames; j++)
            p->shown[k++] = p->file.axis[i].name[j];
    return YK_OK;
}

static bool is_same(const char *a, const char *b)
{
    return a && b ? strcmp(a, b) == 0 : a == b;
}

static yk_status find_monitor(yk_sweep_plan *p)
{
    const yk_config *first = &p->run[0].config;
    bool same = true;
    for (size_t i = 1; i < p->nruns; i++)
        same &= is_same(p->run[i].config.validation, first->validation) &&
                is_same(p->run[i].config.monitor, first->monitor);
    if (!same && p->file.halving)
        return yk_fail(YK_EUSAGE,
                       "%s: search = halving compares runs by their validation data: move validation and "
                       "monitor from [grid] to [train]",
                       p->file.path);
    if (same && yk_config_validation(first))
        p->monitor = yk_metric_find(first->monitor ? first->monitor : "loss");
    return YK_OK;
}

yk_status yk_sweep_plan_make(const char *path, bool quick, const char *const *sets, size_t nsets,
                             const char *directory, yk_sweep_plan *out)
{
    *out = (yk_sweep_plan){0};
    yk_status st = yk_sweep_file_load(path, quick, sets, nsets, &out->file);
    if (st)
        return st;
    yk_arena *a = &out->file.arena;
    out->path = directory ? yk_arena_print(a, "%s", directory)
                          : yk_arena_print(a, "runs/%s%s", out->file.name, quick ? "-quick" : "");
    size_t *choice = yk_arena_alloc(a, out->file.naxes + 1, sizeof *choice, "the runs");
    st = a->status ? a->status : count_runs(out);
    for (size_t i = 0; !st && i < out->nruns; i++) {
        yk_sweep_run *r = &out->run[i];
        r->point = i % out->npoints;
        r->repeat = (int64_t)(i / out->npoints);
        size_t rest = r->point; /* the last axis changes fastest */
        for (size_t k = out->file.naxes; k-- > 0; rest /= out->file.axis[k].nchoices)
            choice[k] = rest % out->file.axis[k].nchoices;
        st = make_run(out, choice, r);
    }
    if (!st)
        st = find_monitor(out);
    return st ? st : check_directories(out);
}

void yk_sweep_plan_fini(yk_sweep_plan *p)
{
    for (size_t i = 0; p->run && i < p->nruns; i++) {
        free(p->run[i].problem);
        json_decref(p->run[i].summary);
        yk_config_fini(&p->run[i].config);
    }
    yk_sweep_file_fini(&p->file);
    *p = (yk_sweep_plan){0};
}

char *yk_sweep_plan_text(const yk_sweep_plan *p)
{
    yk_text text = {0};
    for (size_t i = 0; i < p->nruns; i++) {
        yk_text_print(&text, "%s:", p->run[i].directory);
        for (char **a = p->run[i].argument; *a; a++)
            yk_text_print(&text, strpbrk(*a, " \t") ? " \"%s\"" : " %s", *a);
        yk_text_add(&text, "\n");
    }
    return yk_text_take(&text);
}

int64_t yk_sweep_run_steps(const yk_sweep_run *r, uint64_t examples)
{
    return r->steps || !examples ? r->steps : r->epochs * (int64_t)yk_plan_epoch_steps(&r->plan, examples);
}
