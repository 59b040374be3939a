/* --lr auto: searches for the learning rate before training.
 *
 * Candidates are multiples of the default rates of all groups whose rate is searched. Each trains a model from the start of the
 * run, in one thread, with steps as in the run, on shuffled rows of the training data; other rows are held back to measure the
 * loss. After each round, the best candidates continue (successive halving):
 *
 *     round      0          1                 2
 *     steps      h          4 h               16 h
 *     trials     9          4 to 6            2
 *
 * As many trials run at the same time as there are cores: each core is a lane. The cost is planned in steps, not in seconds, so the
 * same run on the same host chooses the same rate: a lane trains for a share of the steps that a worker of the run takes. The
 * time of a step is measured only to shorten a search that would take more than 30 s. There is no search if there are no steps for
 * one, because the run is too short, or the set-up of the trials takes too long.
 *
 * A short run favors large rates. The longer a run, the less of its loss is the initial error, which decreases faster at a large
 * rate, and the more is noise, which is smaller at a small rate. So most steps are those of the last round, and in all rounds, the rate
 * with the smallest loss does not win if one nearer to the default is nearly as good. If the step size does not
 * depend on the gradient (adam), the best rate falls with the square root of the number of steps, so a winner above the default is lowered.
 */
#include "train/setup.h"

#include "base/cgroup.h"
#include "base/moments.h"
#include "train/loop.h"
#include <math.h>
#include <stdlib.h>

enum {
    CANDIDATES = YK_LR_CANDIDATES,
    DEFAULT = CANDIDATES / 2,
    ROUNDS = YK_LR_ROUNDS,
    GROWTH = 4,                    /* of the number of steps, from round to round */
    MIN_HELD = 2 * YK__EVAL_BATCH, /* fewer batches do not show the noise */
    MAX_HELD = 4096,
    MAX_ROWS = 1 << 18 /* that are read of a stream */
};

static const double factors[CANDIDATES] = {0.01, 0.03, 0.1, 0.3, 1.0, 3.0, 10.0, 30.0, 100.0};

#define MAX_SECONDS 30.0
#define MAX_SHARE   0.1  /* of the time of the run */
#define PLANNED     0.7  /* of both: rows are read for the first time, and cores share memory */
#define MAX_MEMORY  0.25 /* of the available memory */
#define SMALL       0.05 /* of the smallest loss */

typedef struct {
    yk_local *store;
    bool ended;                                 /* it diverged, or its rate is not possible */
    double loss[MAX_HELD / YK__EVAL_BATCH + 1]; /* by batch: sums over the examples that are held back */
} trial;

typedef struct {
    yk__trainer *t;
    yk_lr_search *out;
    yk_rows read; /* of a stream */
    const yk_rows *rows;
    yk_perm order;
    size_t unit, nrows,
        held;           /* neighbors that stay together; rows, a multiple of that; of these, held back */
    uint64_t batch;     /* examples of a step of the run */
    uint64_t run_steps; /* at least, if the length is not known */
    int lanes;
    double held_weight;   /* of the examples that are held back */
    double started;       /* base/clock.h */
    double step;          /* CPU seconds */
    uint64_t first, last; /* steps of the first and of the last round */
    trial trial[CANDIDATES];
    /* the current round */
    uint64_t from, to;
    int active[CANDIDATES], n;
    atomic_int next;
} search;

typedef struct {
    search *s;
    yk_workspace *work;
    uint32_t *pick;
    float *p;
} lane;

/* ---- rates ---- */

/* Three digits: 0.3, not 0.30000000000000004. */
static double rounded(double x)
{
    const double scale = x > 0.0 ? pow(10.0, 2.0 - floor(log10(x))) : 1.0;
    return round(x * scale) / scale;
}

/* The option --lr for a candidate. *shown_out: the rate of the first group whose rate is searched. */
static yk_by_group rates(const yk__trainer *t, double factor, double *shown_out)
{
    yk_by_group lr = {0};
    bool same = true;
    for (int g = t->model->ngroups - 1; g >= 0; g--) {
        const yk_group *group = &t->model->group[g];
        const bool searched = yk_by_group_of(&t->config->lr, group->name, group->keyed, 0.0) == YK_ALL;
        const double usual = t->plan->group[g].optim.lr, rate = searched ? rounded(usual * factor) : usual;
        snprintf(lr.part[YK_GROUP_NAMED + g].name, YK_GROUP_NAME, "%s", group->name);
        lr.part[YK_GROUP_NAMED + g].value = rate;
        same &= rate == lr.part[YK_GROUP_NAMED + t->model->ngroups - 1].value;
        *shown_out = searched ? rate : *shown_out;
    }
    return same ? (yk_by_group){.part[YK_GROUP_EVERY] = {"every", lr.part[YK_GROUP_NAMED].value}} : lr;
}

/* ---- one trial ---- */

static yk_status start_trial(search *s, int candidate)
{
    yk__trainer *t = s->t;
    const double part = (double)s->last / (double)s->run_steps;
    double shown;
    yk_config c = *t->config;
    yk_plan plan;
    c.lr = rates(t, factors[candidate], &shown);
    if (yk_plan_make(&c, &t->description, &t->facts, &t->topology, &plan)) {
        s->trial[candidate].ended = true; /* for example, its product with --l2 is too large */
        return YK_OK;
    }
    yk_local_config store = yk__store_config(t);
    store.team = NULL;
    store.phases = NULL;
    store.workers = 1;
    store.batch = s->batch;
    store.stale_rules = store.staggered = false;
    for (int g = 0; g < store.ngroups; g++) {
        yk_optim_config *o = &store.group[g].optim;
        *o = plan.group[g].optim;
        o->length = s->last;
        o->warm_up = (uint64_t)(part * (double)o->warm_up);
        o->lr_decay_every = (uint64_t)fmax(1.0, part * (double)o->lr_decay_every);
        store.group[g].staleness = 0;
    }
    yk_status st = yk_local_create(&store, &s->trial[candidate].store);
    if (!st)
        st = yk__set_initial(t, store.group, s->trial[candidate].store);
    return st ? st : yk__warm_start_load(t, store.group, s->trial[candidate].store, false);
}

/* Row i of a random order. Rows that are already in random order stay next to their neighbors, which is faster. */
static uint32_t row_at(const search *s, uint64_t i)
{
    return (uint32_t)(yk_perm_at(&s->order, i / s->unit) * s->unit + i % s->unit);
}

static yk_status step(lane *l, trial *r, uint64_t number)
{
    const search *s = l->s;
    const yk__trainer *t = s->t;
    yk_view view[YK_MAX_GROUPS];
    yk_step_result result;
    yk_grad grad = {0};
    for (uint64_t i = 0; i < s->batch; i++) /* over and over again */
        l->pick[i] = row_at(s, s->held + (number * s->batch + i) % (s->nrows - s->held));
    yk_batch batch = {
        .rows = s->rows, .pick = l->pick, .n = s->batch, .noise = number, .class_weight = t->class_weight};
    yk_store *store = yk_local_store(r->store);
    yk_status st = store->ops->announce(store, 0, &batch, NULL);
    if (st || (st = store->ops->pull(store, 0, &batch, view)))
        return st;
    t->model->ops->grad(t->model, l->work, view, &batch, &grad);
    if (grad.status)
        return grad.status;
    yk__add_weights(&batch, &grad);
    r->ended = !(grad.loss <= yk__max_loss(t) * ((double)grad.examples + grad.extra_weight));
    if (r->ended || (st = store->ops->push(store, 0, &grad)))
        return st;
    return store->ops->clock(store, 0, YK_ACTION_CONTINUE, &result);
}

/* The losses of the examples that are held back. */
static yk_status judge(lane *l, trial *r)
{
    const search *s = l->s;
    const yk_model *m = s->t->model;
    yk_view view[YK_MAX_GROUPS];
    yk_status st = yk_local_quiesce(r->store, 0);
    if (st)
        return st;
    yk_local_tables(r->store, view);
    for (size_t at = 0; at < s->held; at += YK__EVAL_BATCH) {
        const size_t n = s->held - at < YK__EVAL_BATCH ? s->held - at : YK__EVAL_BATCH;
        double *loss = &r->loss[at / YK__EVAL_BATCH];
        for (size_t i = 0; i < n; i++)
            l->pick[i] = row_at(s, at + i);
        *loss = 0.0;
        m->ops->predict(m, l->work, view, &(yk_batch){.rows = s->rows, .pick = l->pick, .n = n}, l->p, loss);
        r->ended |= !isfinite(*loss);
    }
    return yk_local_resume(r->store, 0);
}

static yk_status run_trial(lane *l, int candidate)
{
    search *s = l->s;
    trial *r = &s->trial[candidate];
    yk_status st = r->store || r->ended ? YK_OK : start_trial(s, candidate);
    for (uint64_t k = s->from; !st && !r->ended && k < s->to; k++) {
        if (yk__is_stopped(s->t) || yk_now() > s->started + MAX_SECONDS)
            return YK_ESTOP;
        st = step(l, r, k);
    }
    return st || r->ended ? st : judge(l, r);
}

/* ---- lanes ---- */

static yk_status lane_init(lane *l, search *s)
{
    const yk_model *m = s->t->model;
    const size_t max = s->batch > YK__EVAL_BATCH ? s->batch : YK__EVAL_BATCH;
    *l = (lane){.s = s,
                .pick = yk_alloc(max, sizeof *l->pick, "a batch"),
                .p = yk_alloc(YK__EVAL_BATCH * m->outputs, sizeof *l->p, "an evaluation")};
    return l->pick && l->p ? yk_workspace_create(m, max, &l->work) : YK_ESYSTEM;
}

static void lane_fini(lane *l)
{
    yk_workspace_free(l->s->t->model, l->work);
    yk_free(l->pick);
    yk_free(l->p);
}

static yk_status run_lane(void *context, int me)
{
    (void)me;
    search *s = context;
    lane l;
    yk_status st = lane_init(&l, s);
    for (int i; !st && (i = atomic_fetch_add(&s->next, 1)) < s->n;)
        st = run_trial(&l, s->active[i]);
    lane_fini(&l);
    return st;
}

/* Trains the active trials until step `to`. */
static yk_status run_round(search *s, uint64_t to)
{
    s->to = to;
    atomic_store(&s->next, 0);
    const yk_status st = yk_team_once(s->n < s->lanes ? s->n : s->lanes, run_lane, s);
    s->from = to;
    return st;
}

/* ---- comparison ---- */

static double mean_loss(const search *s, int candidate)
{
    const trial *r = &s->trial[candidate];
    double sum = 0.0;
    for (size_t i = 0; i * YK__EVAL_BATCH < s->held; i++)
        sum += r->loss[i];
    return r->ended ? (double)INFINITY : sum / s->held_weight;
}

/* By how much the loss of candidate a is certainly larger than that of b: the mean difference of their batches, less twice its standard
 * error. */
static double excess(const search *s, int a, int b)
{
    const trial *x = &s->trial[a], *y = &s->trial[b];
    yk_moments difference = {0};
    if (x->ended || y->ended)
        return x->ended && !y->ended ? (double)INFINITY : 0.0;
    for (size_t i = 0; i * YK__EVAL_BATCH < s->held; i++)
        yk_moments_add(&difference, x->loss[i] - y->loss[i]);
    const double error = yk_moments_deviation(&difference, 2) / sqrt(difference.n);
    return (yk_moments_mean(&difference) - 2.0 * error) * difference.n / s->held_weight;
}

static int best_of(const search *s)
{
    int best = s->active[0];
    for (int i = 1; i < s->n; i++)
        if (mean_loss(s, s->active[i]) < mean_loss(s, best))
            best = s->active[i];
    return best;
}

/* The nearest rate to the default that is nearly as good as the best one, as far as the noise can tell. */
static int winner(const search *s)
{
    const int best = best_of(s);
    int chosen = best;
    for (int i = 0; i < s->n; i++) {
        const int k = s->active[i];
        if (excess(s, k, best) <= SMALL * mean_loss(s, best) && abs(k - DEFAULT) < abs(chosen - DEFAULT))
            chosen = k;
    }
    return chosen;
}

/* If the step size of every searched group depends only on its rate, the best rate falls with the square root of the number of steps:
 * lowers a winner above the default accordingly, to a rate that is not below the default. */
static int rate_for_whole_run(const search *s, int won)
{
    const yk__trainer *t = s->t;
    const double enough = factors[won] * sqrt((double)s->from / (double)s->run_steps);
    for (int g = 0; g < t->model->ngroups; g++) {
        const yk_group *group = &t->model->group[g];
        if (yk_by_group_of(&t->config->lr, group->name, group->keyed, 0.0) == YK_ALL &&
            !yk_optim_rule_of(t->group[g].optim.kind)->scale_free)
            return won;
    }
    while (won > DEFAULT && factors[won - 1] >= enough)
        won--;
    return won;
}

/* Records the round, and keeps the best rates: losses have one minimum as a function of the rate, so they are around the best one,
 * more of them on the side of the default. The winner is always kept, and so is the default in the first round. */
static void halve(search *s)
{
    yk_lr_search *out = s->out;
    const bool first = !out->rounds;
    const int best = best_of(s), won = winner(s), side = best > DEFAULT ? -1 : 1, half = first ? 4 : 2;
    int kept = 0;
    out->chosen = rate_for_whole_run(s, won);
    out->steps[out->rounds] = s->to;
    for (int i = 0; i < s->n; i++) {
        const int k = s->active[i], from = (k - best) * side;
        const bool near = from >= 0 ? from <= half / 2 : -from <= (half - 1) / 2;
        out->loss[out->rounds][k] = mean_loss(s, k);
        if (k == won || (first && k == DEFAULT) || (near && (k == best || first || best == won)))
            s->active[kept++] = k;
    }
    s->n = kept;
    out->rounds++;
}

/* ---- the rows ---- */

/* Those in memory, or a sample of a stream. */
static yk_status read_rows(search *s)
{
    yk__trainer *t = s->t;
    const yk_dataset *d = &t->train;
    yk_status st = d->rows ? YK_OK : yk_dataset_sample(&t->train, MAX_ROWS, &s->read);
    s->rows = d->rows ? d->rows : &s->read;
    if (!st && !d->rows && !s->read.n)
        return yk_fail(
            YK_EUSAGE,
            "--lr auto: %s can be read only once, so there is no sample of it: use a file, or give "
            "the learning rate, --lr X",
            t->config->data);
    if (!st && !d->rows)
        st = yk_dataset_check(d, &s->read);
    if (!st && !d->rows && t->remap)
        st = yk_keymap_rows(t->remap, &s->read);
    s->unit = d->rows && d->shuffled && d->rows->n > 100 * YK__EVAL_BATCH ? YK__EVAL_BATCH : 1;
    s->nrows = s->rows->n / s->unit * s->unit;
    s->order = yk_perm_make(s->nrows ? s->nrows / s->unit : 1, yk_mix64((uint64_t)t->config->seed));
    return st;
}

/* Holds rows back: a 32nd of the examples of a lane, so that evaluations take at most two fifths of the time. */
static void hold_back(search *s, double steps)
{
    const double wanted = fmin(steps * (double)s->batch / 32.0, (double)s->nrows / 5.0);
    s->held = (size_t)fmin(wanted, MAX_HELD) / YK__EVAL_BATCH * YK__EVAL_BATCH;
    s->held_weight = 0.0;
    for (size_t i = 0; i < s->held; i++)
        s->held_weight += (double)yk_rows_weight(s->rows, row_at(s, i));
}

/* ---- the search ---- */

/* How often all lanes train in a round with n trials. */
static uint64_t turns(const search *s, int n)
{
    return (uint64_t)((n + s->lanes - 1) / s->lanes);
}

/* The set-up of a trial as a number of steps, by the parameters that each of them writes. A random initial value counts twice. */
static double setup_steps(const search *s)
{
    const yk__trainer *t = s->t;
    double all = 0.0, written = 0.0;
    for (int g = 0; g < t->model->ngroups; g++) {
        const yk_group *group = &t->model->group[g];
        const double floats = (double)yk_group_floats(group),
                     each = 1.0 + yk_optim_rule_of(t->group[g].optim.kind)->slots;
        const bool sparse = group->keyed && s->rows->start;
        const double entries = sparse ? (double)s->rows->start[s->rows->n] / (double)s->rows->n : 0.0;
        all += (each + (t->model->ops->init != NULL)) * floats;
        written += each * (sparse ? fmin(floats, (double)s->batch * entries * (double)group->width) : floats);
    }
    return all / written;
}

/* Chooses the steps of the rounds, if a lane may train for this many. */
static void plan_rounds(search *s, double steps)
{
    static const int trials[ROUNDS] = {CANDIDATES, 6, 2};     /* at most */
    uint64_t parts = 1, evaluations = 0, before = 0, now = 1; /* 1: measure() */
    hold_back(s, steps);
    for (int k = 0; k < ROUNDS; k++) {
        parts += turns(s, trials[k]) * (now - before);
        evaluations += turns(s, trials[k]);
        before = now;
        now *= GROWTH;
    }
    steps -= setup_steps(s) * (double)(1 + turns(s, CANDIDATES));
    steps -= 0.7 * (double)(evaluations * s->held) / (double)s->batch; /* a prediction: 0.7 of a gradient */
    s->first = steps > 0.0 ? (uint64_t)steps / parts : 0;
    s->last = s->first * before;
}

/* Times the steps of a trial of the default. */
static yk_status measure(search *s)
{
    trial *r = &s->trial[DEFAULT];
    uint64_t k = 0;
    lane l;
    yk_status st = lane_init(&l, s);
    if (!st)
        st = start_trial(s, DEFAULT);
    const double begin = yk_thread_seconds(), end = yk_now() + MAX_SECONDS / 10.0;
    for (; !st && !r->ended && (!k || (k < s->first && yk_now() < end)); k++)
        st = step(&l, r, k);
    s->step = (yk_thread_seconds() - begin) / (double)(k ? k : 1);
    lane_fini(&l);
    yk_local_free(r->store);
    *r = (trial){0};
    return st;
}

static yk_status run_rounds(search *s)
{
    yk_status st = YK_OK;
    uint64_t to = s->first;
    s->n = CANDIDATES;
    for (int i = 0; i < s->n; i++)
        s->active[i] = i;
    for (int k = 0; !st && k < ROUNDS && s->n > 1; k++, to *= GROWTH)
        if (!(st = run_round(s, to)))
            halve(s);
    return st;
}

static yk_status find(search *s)
{
    const yk_plan *p = s->t->plan;
    yk_status st = read_rows(s);
    if (st)
        return st;
    const uint64_t known = (s->nrows / s->batch) * (p->epochs == UINT64_MAX ? 1 : p->epochs);
    s->run_steps = p->run_steps == UINT64_MAX ? known : p->run_steps;
    const double each = (double)s->run_steps / p->workers; /* steps, if a lane trained as much as a worker */
    plan_rounds(s, PLANNED * MAX_SHARE * each);
    if (!s->first || s->held < MIN_HELD || (st = measure(s)))
        return st;
    plan_rounds(s, PLANNED * fmin(MAX_SHARE * each, MAX_SECONDS / s->step));
    if (!s->first)
        return YK_OK;
    st = run_rounds(s);
    return st == YK_ESTOP && !yk__is_stopped(s->t) ? YK_OK : st; /* late: the complete rounds decide */
}

/* Lanes for which there is memory; 0: none, because the stores of all trials are too large. */
static int usable_lanes(const search *s)
{
    const yk__trainer *t = s->t;
    yk_layer_line line[YK_MAX_LINES];
    const int n = yk_model_describe(t->model, s->batch, line);
    double memory = MAX_MEMORY * yk_memory_available("/proc", "/sys"), activations = 1.0;
    memory -= CANDIDATES * (double)yk__parameter_bytes(t);
    for (int i = 0; i < n; i++)
        activations += (double)line[i].bytes;
    const double fit = memory > 0.0 ? memory / activations : 0.0, threads = t->result->threads_used;
    return (int)fmin(fmin(fit, CANDIDATES), fmax(1.0, floor(yk_cores() / threads)));
}

/* ---- output ---- */

static void print_search(const yk__trainer *t)
{
    const yk_lr_search *s = &t->result->search;
    yk_text line = {0};
    if (!s->rounds) {
        yk_note("--lr auto: the run is too short, its data too small, or its model too large, for a search: "
                "the default, %g, is used",
                s->lr[DEFAULT]);
        return;
    }
    for (int k = 0; k < s->rounds; k++)
        yk_text_print(&line, "%12llu", (unsigned long long)s->steps[k]);
    yk_note("--lr auto: searched for %.3g s; validation loss after\n%10s%s steps", s->seconds, "",
            line.s ? line.s : "");
    for (int i = 0; i < CANDIDATES; i++) {
        yk_text_fini(&line);
        yk_text_print(&line, "%10.4g", s->lr[i]);
        for (int k = 0; k < s->rounds && !isnan(s->loss[k][i]); k++)
            if (isfinite(s->loss[k][i]))
                yk_text_print(&line, "%12.4f", s->loss[k][i]);
            else
                yk_text_print(&line, "    diverged");
        if (line.s)
            yk_note("%s%s%s", line.s, i == DEFAULT ? "  default" : "", i == s->chosen ? "  chosen" : "");
    }
    yk_text_fini(&line);
}

/* ---- in the run ---- */

static yk_status search_here(yk__trainer *t)
{
    yk_lr_search *out = &t->result->search;
    search s = {
        .t = t, .out = out, .started = yk_now(), .batch = t->plan->batch * t->plan->gradients_per_step};
    yk_status st = YK_OK;
    yk_startup_enter(t->cluster.startup, YK_STARTUP_BUSY);
    s.lanes = usable_lanes(&s);
    if (s.lanes)
        st = find(&s);
    for (int i = 0; i < CANDIDATES; i++)
        yk_local_free(s.trial[i].store);
    yk_rows_fini(&s.read);
    out->seconds = yk_now() - s.started;
    yk_startup_enter(t->cluster.startup, YK_STARTUP_WAITING);
    return st;
}

yk_status yk__lr_search(yk__trainer *t)
{
    yk_lr_search *out = &t->result->search;
    yk_status st = YK_OK;
    if (!yk_by_group_has(&t->config->lr, YK_ALL))
        return YK_OK;
    if (t->cluster.joined)
        return yk_fail(
            YK_EUSAGE,
            "--lr auto: a worker that joins needs the learning rate that the job found: give it with --lr X");
    out->chosen = DEFAULT;
    for (int i = 0; i < CANDIDATES; i++) {
        rates(t, factors[i], &out->lr[i]);
        for (int k = 0; k < ROUNDS; k++)
            out->loss[k][i] = (double)NAN;
    }
    if (t->cluster.rank == t->plan->first_client)
        st = search_here(t);
    if (!st && !t->plan->alone)
        st = yk_comm_broadcast_range(t->cluster.comm, t->plan->first_client, 0, t->cluster.ranks, out,
                                     sizeof *out, t->plan->startup_timeout, "the learning rate");
    if (st)
        return st;
    if (t->cluster.rank == 0)
        print_search(t);
    t->searched = *t->config;
    t->searched.lr = rates(t, factors[out->chosen], &out->lr[out->chosen]);
    t->config = &t->searched;
    if ((st = yk__plan(t)))
        return st;
    for (int g = 0; g < t->model->ngroups; g++)
        t->group[g].optim = t->plan->group[g].optim;
    t->result->lr = t->group[0].optim.lr;
    return YK_OK;
}
