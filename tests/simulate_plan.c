/* What a schedule is: drawn from its seed, and in words. */
#include "simulate.h"

#include "base/rng.h"
#include "config/config.h"
#include <stdarg.h>
#include <stdio.h>

const char run_dir[] = "run", other_file[] = "other/file";

/* ---- data ---- */

enum { SIDE = 4 };

static bool write_file(const char *dir, const char *name, const void *data, size_t n)
{
    char path[4096];
    snprintf(path, sizeof path, "%s/%s", dir, name);
    FILE *f = fopen(path, "wb");
    const bool ok = f && fwrite(data, 1, n, f) == n;
    return f && fclose(f) == 0 && ok;
}

/* One example on each line: with a feature of its own, or with random features, which have fields or not; with weights of the
 * examples or not. */
static bool write_text(const char *dir, const char *name, bool own, bool fields, bool weights)
{
    char text[8192];
    size_t n = 0;
    yk_rng rng = yk_rng_seed(1, 0);
    for (int i = 0; i < (own ? OWN_EXAMPLES : KEYED_EXAMPLES); i++) {
        n += (size_t)snprintf(text + n, sizeof text - n, weights ? "%d:%d" : "%d", i % 2, own + i % 3);
        if (own)
            n += (size_t)snprintf(text + n, sizeof text - n, " %d:1", i + 1);
        for (unsigned k = 1; !own && k < 30; k += 1 + yk_rng_below(&rng, 9)) {
            if (fields)
                n += (size_t)snprintf(text + n, sizeof text - n, " %u:%u:", k / 10, k);
            else
                n += (size_t)snprintf(text + n, sizeof text - n, " %u:", k);
            n += (size_t)snprintf(text + n, sizeof text - n, "%d", 1 + (int)yk_rng_below(&rng, 3));
        }
        n += (size_t)snprintf(text + n, sizeof text - n, "\n");
    }
    return write_file(dir, name, text, n);
}

static bool write_images(const char *dir, const char *images, const char *labels, unsigned n)
{
    unsigned char pixels[16 + DENSE_EXAMPLES * SIDE * SIDE] = {0, 0, 8, 3,    0, 0, 0, (unsigned char)n,
                                                               0, 0, 0, SIDE, 0, 0, 0, SIDE};
    unsigned char label[8 + DENSE_EXAMPLES] = {0, 0, 8, 1, 0, 0, 0, (unsigned char)n};
    yk_rng rng = yk_rng_seed(2, n);
    for (unsigned i = 0; i < n; i++) {
        label[8 + i] = (unsigned char)(i % CLASSES);
        for (unsigned k = 0; k < SIDE * SIDE; k++)
            pixels[16 + i * SIDE * SIDE + k] =
                (unsigned char)(yk_rng_below(&rng, 100) + (k % 3 == i % 3 ? 100 : 0));
    }
    return write_file(dir, images, pixels, 16 + (size_t)n * SIDE * SIDE) &&
           write_file(dir, labels, label, 8 + (size_t)n);
}

/* Example i is pixel i. */
static bool write_pixels(const char *dir, const char *images, const char *labels)
{
    enum { N = OWN_EXAMPLES };
    static unsigned char pixels[16 + N * N] = {0, 0, 8, 3, 0, 0, 0, N, 0, 0, 0, 6, 0, 0, 0, N / 6};
    unsigned char label[8 + N] = {0, 0, 8, 1, 0, 0, 0, N};
    for (unsigned i = 0; i < N; i++) {
        label[8 + i] = (unsigned char)(i % CLASSES);
        pixels[16 + i * N + i] = 255;
    }
    return write_file(dir, images, pixels, sizeof pixels) && write_file(dir, labels, label, sizeof label);
}

yk_status write_data(const char *dir)
{
    char directory[1024];
    snprintf(directory, sizeof directory, "%s/pixels", dir);
    return !mkdir(directory, 0700) &&
                   write_pixels(directory, "train-images-idx3-ubyte", "train-labels-idx1-ubyte") &&
                   write_pixels(directory, "t10k-images-idx3-ubyte", "t10k-labels-idx1-ubyte") &&
                   write_text(dir, "own.libsvm", true, false, false) &&
                   write_text(dir, "own.libsvm.weights", true, false, true) &&
                   write_text(dir, "keyed.libsvm", false, false, false) &&
                   write_text(dir, "keyed.libsvm.weights", false, false, true) &&
                   write_text(dir, "clicks.libffm", false, true, false) &&
                   write_images(dir, "train-images-idx3-ubyte", "train-labels-idx1-ubyte", DENSE_EXAMPLES) &&
                   write_images(dir, "t10k-images-idx3-ubyte", "t10k-labels-idx1-ubyte", 12)
               ? YK_OK
               : yk_fail(YK_ESYSTEM, "cannot write the data of the simulation to %s", dir);
}

/* ---- the job ---- */

__attribute__((format(printf, 2, 3))) static void add(schedule *s, const char *format, ...)
{
    const size_t n = strlen(s->options);
    va_list args;
    va_start(args, format);
    vsnprintf(s->options + n, sizeof s->options - n, format, args);
    va_end(args);
}

static bool one_in(yk_rng *rng, uint32_t n)
{
    return yk_rng_below(rng, n) == 0;
}

/* Sometimes replicates the network or the keyed parameters of a job with servers: the last --servers counts. */
static void draw_placement(schedule *s, yk_rng *rng)
{
    const bool one = strstr(s->options, "servers=1"), two = strstr(s->options, "servers=2");
    const int servers = two ? 2 : 1;
    if ((one || two) && strstr(s->options, "embed") && one_in(rng, 2)) {
        const bool network = one_in(rng, 2);
        add(s, " servers=keyed=%d,dense=%d", network ? servers : 0, network ? 0 : servers);
        if (one_in(rng, 2))
            add(s, ",linear=%d", network ? 0 : servers);
    }
}

static void draw_sparse(schedule *s, yk_rng *rng, const char *dir)
{
    static const char *const model[] = {"logreg", "fm:2",
                                        "linear_+_fm_2_name=v_+_(embed_2_name=v,_dense_3,_relu,_dense_1)"};
    const uint32_t which = s->data == KEYED ? yk_rng_below(rng, 3) : 0;
    const bool weights = !which && s->seed % 2;
    if (which)
        snprintf(s->spec, sizeof s->spec, "libffm:%s/clicks.libffm", dir);
    else
        snprintf(s->spec, sizeof s->spec, "libsvm:%s/%s.libsvm%s", dir, s->data == OWN ? "own" : "keyed",
                 weights ? ".weights?weight=1" : "");
    add(s, " model=%s%s", model[which], which ? " lr=0.01" : ""); /* with the default some diverge */
    if (!one_in(rng, 4))
        add(s, " test=%s", s->spec);
}

static void draw_data(schedule *s, yk_rng *rng, const char *dir, bool sync)
{
    static const char *const any[] = {"sgd", "momentum", "adagrad", "ftrl", "adam"};
    const uint32_t kind = yk_rng_below(rng, 9);
    s->data = kind < (sync ? 1 : 4) ? OWN : kind < (sync ? 2 : 7) ? OWN_PIXELS : kind < 8 ? KEYED : DENSE;
    const bool own = s->data == OWN || s->data == OWN_PIXELS;
    s->examples = own ? OWN_EXAMPLES : s->data == KEYED ? KEYED_EXAMPLES : DENSE_EXAMPLES;
    const char *optimizer = own ? "sgd" : any[yk_rng_below(rng, 5)];
    snprintf(s->spec, sizeof s->spec, "idx:%s%s", dir, s->data == DENSE ? "" : "/pixels");
    if (s->data == OWN_PIXELS)
        add(s, " model=softmax lr=%g", OWN_RATE);
    else if (s->data == DENSE)
        add(s, " model=%s", one_in(rng, 3) ? "dense_4,relu,dense_3" : "softmax");
    else
        draw_sparse(s, rng, dir);
    add(s, " data=%s", s->spec);
    if (!own &&
        s->seed % 3 == 0) /* a mean of different weights does not show how often each example was used */
        add(s, " class-weight=0=2,1=0.5");
    if (s->data == OWN)
        add(s, " no-bias=true lr=%g", OWN_RATE);
    /* one example in a step: otherwise the last, smaller batch of a worker changes its weights more */
    add(s, " optimizer=%s batch=%u", optimizer, own ? 1 : 1 + yk_rng_below(rng, 5));
    s->streamed = one_in(rng, 2);
    add(s, " stream=%s", s->streamed ? "always" : "never");
}

static void draw_mode(schedule *s, yk_rng *rng, bool *sync)
{
    const uint32_t mode = yk_rng_below(rng, 6);
    *sync = mode < 3;
    s->ranks = 1 + (int)yk_rng_below(rng, MAX_RANKS);
    s->ranks = s->ranks == 1 && !one_in(rng, 3) ? 2 : s->ranks;
    if (mode == 3)
        add(s, " mode=async");
    else if (mode > 3)
        add(s, " staleness=%u", 1 + yk_rng_below(rng, 6));
    if (s->ranks == 1)
        return;
    const uint32_t place = yk_rng_below(rng, 4);
    if (place == 0)
        add(s, " servers=all");
    else if (place == 1 && *sync)
        add(s, " servers=0");
    else if (s->ranks > 2 && one_in(rng, 2))
        add(s, " servers=2");
    else
        add(s, " servers=1");
    if (one_in(rng, 4))
        add(s, " local-steps=%u", 2 + yk_rng_below(rng, 3));
    if (*sync && one_in(rng, 4))
        add(s, " quorum=%u", 1 + yk_rng_below(rng, 3));
    if (!*sync && one_in(rng, 3))
        add(s, " prefetch=%u", yk_rng_below(rng, 3));
}

static void draw_steps(schedule *s, yk_rng *rng)
{
    s->epochs = one_in(rng, 5) ? 0 : 1 + yk_rng_below(rng, 3);
    if (s->epochs)
        add(s, " epochs=%d", (int)s->epochs);
    else
        add(s, " steps=%u", 1 + yk_rng_below(rng, 60));
    if (!one_in(rng, 4))
        add(s, " checkpoint-every=%u", 1 + yk_rng_below(rng, 20));
    if (one_in(rng, 2))
        add(s, " eval-every=%u", 1 + yk_rng_below(rng, 12));
    add(s, " workers=%u deadline=%u seed=%u", 1 + yk_rng_below(rng, 2), 2 + yk_rng_below(rng, 3),
        yk_rng_below(rng, 1000));
}

/* Validation data selects the best model and may end the run early; --clip-norm needs the norm of all parts of a gradient. */
static void draw_validation(schedule *s, yk_rng *rng)
{
    const bool own = s->data == OWN || s->data == OWN_PIXELS;
    if (one_in(rng, 3) && strstr(s->options, "eval-every")) {
        s->validates = true;
        add(s, " validation=%s", s->spec);
        if (!own && one_in(rng, 2))
            add(s, " patience=%u", 1 + yk_rng_below(rng, 2));
    }
    if (one_in(rng, 4)) /* the gradient of an example with a feature of its own must not change */
        add(s, " clip-norm=%g", own ? 100.0 : 0.3);
}

yk_status schedule_config(const schedule *s, yk_config *out)
{
    char *copy = strdup(s->options), *rest = NULL;
    yk_status st = copy ? YK_OK : yk_fail_memory(sizeof s->options, "options");
    yk_config_init(out);
    for (char *word = strtok_r(copy, " ", &rest); !st && word; word = strtok_r(NULL, " ", &rest)) {
        char *equals = strchr(word, '=');
        *equals = '\0';
        for (char *c = equals + 1; strcmp(word, "model") == 0 && *c; c++)
            *c = *c == '_' ? ' ' : *c;
        st = yk_config_set(out, word, equals + 1);
    }
    free(copy);
    return st;
}

static bool is_valid(schedule *s)
{
    yk_config c;
    yk_status st = schedule_config(s, &c);
    if (!st)
        st = yk_config_check(&c);
    if (!st)
        st = yk_plan_options(&c, &(yk_topology){.processes = s->ranks, .cores = 1}, &s->plan);
    s->joinable = !st && !yk_plan_join_obstacle(&c, &s->plan);
    yk_config_fini(&c);
    return !st;
}

/* ---- faults ---- */

/* Fast, slow or very different delays. */
static void draw_delays(yk_rng *rng, double *min_out, double *max_out)
{
    static const double limit[][2] = {{1e-5, 1e-3}, {1e-6, 1e-5}, {1e-4, 2e-2}, {1e-3, 2e-3}, {1e-5, 4e-2}};
    const double *l = limit[one_in(rng, 3) ? yk_rng_below(rng, 5) : 0];
    *min_out = l[0];
    *max_out = l[1];
}

static int by_time(const void *a, const void *b)
{
    const double x = ((const yk_sim_event *)a)->at, y = ((const yk_sim_event *)b)->at;
    return x < y ? -1 : x > y;
}

/* A rank that is often paused for a short time. */
static void draw_slow_rank(const schedule *s, yk_rng *rng, attempt_plan *p)
{
    const int rank = (int)yk_rng_below(rng, (uint32_t)s->ranks);
    p->events = MAX_EVENTS;
    for (int i = 0; i < MAX_EVENTS; i++)
        p->event[i] = (yk_sim_event){.at = 1.0 + (double)i / MAX_EVENTS,
                                     .action = YK_SIM_PAUSE,
                                     .rank = rank,
                                     .seconds = 0.03 * yk_rng_unit(rng)};
}

/* Workers that join, some of which are killed, paused, or leave after a signal. */
static void draw_joiners(const schedule *s, yk_rng *rng, attempt_plan *p)
{
    for (; s->joinable && p->joiners < MAX_JOINERS && one_in(rng, 2); p->joiners++) {
        p->join_at[p->joiners] = one_in(rng, 4) ? 0.0 : 1.1 * yk_rng_unit(rng);
        if (p->events < MAX_EVENTS && one_in(rng, 3))
            p->event[p->events++] = (yk_sim_event){.at = 1.0 + yk_rng_unit(rng),
                                                   .action = (yk_sim_action)yk_rng_below(rng, 3),
                                                   .rank = s->ranks + p->joiners,
                                                   .seconds = yk_rng_unit(rng)};
    }
    qsort(p->event, (size_t)p->events, sizeof *p->event, by_time);
}

static void draw_attempt(const schedule *s, yk_rng *rng, attempt_plan *p)
{
    *p = (attempt_plan){.seed = s->seed, .no_abort = one_in(rng, 3)};
    draw_delays(rng, &p->min_delay, &p->max_delay);
    const uint32_t kind = yk_rng_below(rng, 18);
    const int n = kind < 10 ? 1 + (int)(one_in(rng, 3) ? yk_rng_below(rng, 4) : 0) : 0;
    if (kind == 17)
        draw_slow_rank(s, rng, p);
    for (int i = 0; i < n; i++, p->events++) {
        yk_sim_event *e = &p->event[i];
        *e = (yk_sim_event){.at = (one_in(rng, 3) ? 1.0 : 2.0) * yk_rng_unit(rng),
                            .rank = (int)yk_rng_below(rng, (uint32_t)s->ranks)};
        const uint32_t what = yk_rng_below(rng, 10);
        e->action = what < 5 ? YK_SIM_KILL : what < 9 ? YK_SIM_PAUSE : YK_SIM_SIGNAL;
        e->seconds = one_in(rng, 2) ? yk_rng_unit(rng) : 20.0 * yk_rng_unit(rng);
        if (e->action == YK_SIM_SIGNAL || (e->action == YK_SIM_KILL && one_in(rng, 6)))
            e->rank = -1; /* the launcher forwards a signal to all; all are killed */
    }
    if (kind >= 10 && kind < 16) {
        p->disk = kind < 12 ? POWER_FAILURE : kind == 12 ? DISK_FULL : DISK_ERROR;
        p->disk_at = 1.05 * yk_rng_unit(rng);
        p->disk_error = one_in(rng, 2) ? EIO : ENOSPC;
    }
}

void schedule_make(uint64_t seed, const char *data_dir, schedule *out)
{
    yk_rng rng = yk_rng_seed(seed, 1);
    do {
        bool sync;
        *out = (schedule){.seed = seed};
        add(out, "bind=none sample-every=1");
        draw_mode(out, &rng, &sync);
        draw_data(out, &rng, data_dir, sync);
        draw_placement(out, &rng);
        draw_steps(out, &rng);
        draw_validation(out, &rng);
    } while (!is_valid(out));
    out->bits = out->plan.lockstep;
    out->uses =
        (out->data == OWN || out->data == OWN_PIXELS) && !out->plan.synchronous && !out->plan.local_steps;
    out->eager = one_in(&rng, 2) ? 0 : one_in(&rng, 2) ? 1 : 64;
    draw_delays(&rng, &out->min_delay, &out->max_delay);
    out->attempts = 1 + (int)(one_in(&rng, 3) ? yk_rng_below(&rng, MAX_ATTEMPTS) : 0);
    yk_rng joins = yk_rng_seed(seed, 3);
    for (int i = 0; i < out->attempts; i++) {
        draw_attempt(out, &rng, &out->attempt[i]);
        draw_joiners(out, &joins, &out->attempt[i]);
    }
}

/* ---- in words ---- */

void attempt_print(const attempt_plan *p, FILE *out)
{
    static const char *const action[] = {"is killed", "is paused", "receives a signal"};
    fprintf(out, "messages take %g to %g s", p->min_delay, p->max_delay);
    for (int i = 0; i < p->joiners; i++)
        fprintf(out, "; a worker joins at %.6f s", p->join_at[i]);
    for (int i = 0; i < p->events; i++) {
        const yk_sim_event *e = &p->event[i];
        fprintf(out, "; ");
        if (e->rank < 0)
            fprintf(out, "every rank");
        else
            fprintf(out, "rank %d", e->rank);
        fprintf(out, " %s at %.6f s", action[e->action], e->at);
        if (e->action == YK_SIM_PAUSE)
            fprintf(out, " for %.3f s", e->seconds);
    }
    if (p->disk == DISK_FULL)
        fprintf(out, "; the disk is full from change %.0f on", p->disk_at);
    else if (p->disk == DISK_ERROR)
        fprintf(out, "; change %.0f of the disk fails: %s", p->disk_at, strerror(p->disk_error));
    else if (p->disk == POWER_FAILURE)
        fprintf(out, "; the power fails at change %.0f of the disk", p->disk_at);
    fprintf(out, "%s\n", p->no_abort ? "; a rank that fails does not end the others" : "");
}

void schedule_print(const schedule *s, FILE *out)
{
    fprintf(out, "%d rank%s, messages above %zu bytes wait for the receiver: %s\n", s->ranks,
            s->ranks == 1 ? "" : "s", s->eager ? s->eager : 4096, s->options);
}
