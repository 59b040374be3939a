/* The invariants. */
#include "simulate.h"

#include "train/checkpoint.h"
#include <fnmatch.h>
#include <jansson.h>
#include <math.h>
#include <stdarg.h>
#include <stdio.h>

__attribute__((format(printf, 2, 3))) static const char *complain(complaint *why, const char *format, ...)
{
    va_list args;
    va_start(args, format);
    vsnprintf(why->text, sizeof why->text, format, args);
    va_end(args);
    return why->text;
}

/* ---- how the processes ended ---- */

static bool has(const attempt_plan *p, yk_sim_action action)
{
    for (int i = 0; p && i < p->events; i++)
        if (p->event[i].action == action)
            return true;
    return false;
}

/* Pauses that no timeout may be confused by. */
static bool only_short_pauses(const schedule *s, const attempt_plan *p)
{
    double all = 0.0;
    for (int i = 0; p && i < p->events; i++)
        all += p->event[i].action == YK_SIM_PAUSE ? p->event[i].seconds : HUGE_VAL;
    return (!p || p->disk == DISK_OK) && all < s->plan.heartbeat_timeout / 4.0;
}

static bool may_end_with(const attempt_plan *p, yk_status st)
{
    return st == YK_OK || st == YK_ELOST || st == YK_ESTOP ||
           (st == YK_EINTERRUPTED && has(p, YK_SIM_SIGNAL)) || (st == YK_ESYSTEM && p && p->disk != DISK_OK);
}

/* Whether rank 0 failed because a worker died after the last step, although the job no longer needed it. */
static bool failed_at_the_end(const schedule *s, const attempt_plan *p, const attempt *a)
{
    bool workers_only = s->plan.survives_loss && p && p->disk == DISK_OK;
    for (int i = 0; p && i < p->events; i++)
        workers_only &= p->event[i].action == YK_SIM_KILL && p->event[i].rank >= s->plan.servers;
    return workers_only && a->status[0] == YK_ELOST &&
           (strstr(a->error[0], "the reports") || strstr(a->error[0], "the last heartbeat to be received"));
}

const char *check_ends(const schedule *s, const attempt_plan *p, const attempt *a, complaint *why)
{
    const bool kills = has(p, YK_SIM_KILL) || (p && p->disk == POWER_FAILURE), calm = only_short_pauses(s, p);
    if (a->sim.timed_out)
        return complain(why,
                        "some ranks still ran after %.0f s: there is a livelock, or a timeout is missing",
                        a->sim.seconds);
    for (int i = 0; i < s->ranks + (p ? p->joiners : 0); i++) {
        const yk_sim_rank *r = &a->rank[i];
        const bool too_late = i >= s->ranks && a->status[i] == YK_ELOST; /* the job had ended */
        if (r->end == YK_SIM_STUCK)
            return complain(why, "all threads wait for each other: a deadlock");
        if (r->end == YK_SIM_KILLED && !kills && !a->gave_up[i])
            return complain(why, "rank %d was killed", i);
        if (!may_end_with(p, a->status[i]))
            return complain(why, "rank %d failed with status %d, which does not fit to the faults: %s", i,
                            (int)a->status[i], a->error[i]);
        if (calm && (r->end != YK_SIM_RETURNED || (a->status[i] && !too_late)))
            return complain(why, "rank %d did not succeed, although nothing had failed: %s", i, a->error[i]);
    }
    if (failed_at_the_end(s, p, a))
        return complain(why, "the job failed, although a worker was lost after its last step: %s",
                        a->error[0]);
    if (calm && a->too_far)
        return complain(
            why,
            "a gradient was sent by a worker that was %llu steps further ahead of another one than the "
            "staleness bound %llu allows",
            (unsigned long long)a->too_far, (unsigned long long)s->plan.staleness);
    if (calm && a->result[0].lost)
        return complain(why, "%d workers were declared lost, although nothing had failed", a->result[0].lost);
    return NULL;
}

/* ---- files ---- */

static bool is_known(const char *path)
{
    static const char *const patterns[] = {
        "config.ini",
        "metrics.jsonl",
        "summary.json",
        "lock",
        "checkpoints",
        "checkpoints/best",
        "checkpoints/step-[0-9]*",
        "checkpoints/step-[0-9]*/DONE",
        "checkpoints/step-[0-9]*/model.safetensors",
        "checkpoints/step-[0-9]*/state.safetensors",
        "worker-[0-9]*",
        "worker-[0-9]*/resources.jsonl",
        "events.out.tfevents.*",
        "worker-[0-9]*/events.out.tfevents.*",
    };
    for (size_t i = 0; i < sizeof patterns / sizeof *patterns; i++)
        if (!fnmatch(patterns[i], path, FNM_PATHNAME))
            return strstr(path, ".tmp") == NULL;
    return false;
}

static const char *check_names(const node *dir, const char *prefix, complaint *why)
{
    for (size_t i = 0; i < seen(dir)->n; i++) {
        const entry *e = &seen(dir)->entry[i];
        char path[512];
        snprintf(path, sizeof path, "%s%s", prefix, e->name);
        if (!is_known(path))
            return complain(why, "%s/%s was left behind", run_dir, path);
        strcat(path, "/");
        const char *wrong = e->node->is_dir ? check_names(e->node, path, why) : NULL;
        if (wrong)
            return wrong;
    }
    return NULL;
}

static const char *check_outside(yk_fs_memory *disk, complaint *why)
{
    size_t n;
    unsigned char *other = read_disk(disk, other_file, &n);
    const bool same = other && n == 5 && memcmp(other, "other", 5) == 0;
    free(other);
    return seen(disk->root)->n > 2 || !same ? complain(why, "files outside the run directory were changed")
                                            : NULL;
}

/* Entries of one kind have increasing steps: nothing was written twice. */
static const char *check_metrics(yk_fs_memory *disk, complaint *why)
{
    size_t n;
    char *all = (char *)read_disk(disk, "run/metrics.jsonl", &n), *rest = NULL;
    long long last_eval = -1, last_train = -1;
    const char *wrong = all ? NULL : complain(why, "there is no metrics.jsonl");
    if (all && n && all[n - 1] != '\n')
        wrong = complain(why, "the last line of metrics.jsonl is incomplete");
    for (char *line = all ? strtok_r(all, "\n", &rest) : NULL; line && !wrong;
         line = strtok_r(NULL, "\n", &rest)) {
        json_t *o = json_loads(line, 0, NULL);
        const char *kind = json_string_value(json_object_get(o, "kind"));
        const long long step = json_integer_value(json_object_get(o, "step"));
        long long *last = kind && !strcmp(kind, "eval")    ? &last_eval
                          : kind && !strcmp(kind, "train") ? &last_train
                                                           : NULL;
        if (!o || !kind)
            wrong = complain(why, "metrics.jsonl has a damaged line: %s", line);
        else if (last && step <= *last)
            wrong = complain(why, "metrics.jsonl has a %s entry of step %lld after one of step %lld", kind,
                             step, *last);
        else if (last)
            *last = step;
        json_decref(o);
    }
    free(all);
    return wrong;
}

static uint64_t newest_checkpoint(yk_fs_memory *disk)
{
    char *path = NULL;
    unsigned long long step = UINT64_MAX;
    yk_fs_set(yk_fs_memory_fs(disk));
    if (!yk_checkpoint_find(run_dir, &path) && path)
        sscanf(strrchr(path, '/'), "/step-%llu", &step);
    yk_fs_set(NULL);
    free(path);
    return step;
}

const char *check_disk(yk_fs_memory *disk, const attempt *a, complaint *why)
{
    const uint64_t step = newest_checkpoint(disk);
    if (a->saved != UINT64_MAX && (step == UINT64_MAX || step < a->saved))
        return complain(why, "checkpoint %llu was saved and is lost", (unsigned long long)a->saved);
    return check_outside(disk, why);
}

/* ---- results ---- */

static const char *check_counts(const schedule *s, const yk_result *r, complaint *why)
{
    const unsigned long long used = r->examples + r->late_examples, wanted = s->epochs * s->examples;
    if (r->waited) /* it ended early */
        return NULL;
    if (s->epochs && used != wanted)
        return complain(why, "%llu examples were used (%llu of them too late), not %llu", used,
                        (unsigned long long)r->late_examples, wanted);
    const yk_plan *p = &s->plan;
    const uint64_t spare =
        p->synchronous && !p->local_steps
            ? 0
            : p->steps / 4 + 2 * (uint64_t)(p->workers * p->depth) * (p->local_steps ? p->local_steps : 1);
    if (!s->epochs && (r->steps < p->steps || r->steps - p->steps > spare))
        return complain(why, "%llu steps were made, not %llu", (unsigned long long)r->steps,
                        (unsigned long long)p->steps);
    return NULL;
}

static const char *check_traffic(const yk_result *r, complaint *why)
{
    for (int p = 0; p < YK_PURPOSES; p++)
        if (r->traffic[p].sent != r->traffic[p].received ||
            r->traffic[p].messages_sent != r->traffic[p].messages_received)
            return complain(why, "%llu bytes were sent for purpose %d, and %llu received",
                            (unsigned long long)r->traffic[p].sent, p,
                            (unsigned long long)r->traffic[p].received);
    uint64_t sent = 0, values = 0;
    for (int p = 0; p < YK_PURPOSE_CONTROL; p++)
        sent += r->traffic[p].sent;
    for (int g = 0; g < r->ngroups; g++)
        values += r->group[g].values_sent;
    if (values > sent)
        return complain(why, "%llu bytes were sent, but values of all groups take %llu",
                        (unsigned long long)sent, (unsigned long long)values);
    return NULL;
}

static const char *check_bits(const attempt *a, const attempt *undisturbed, yk_fs_memory *disk,
                              yk_fs_memory *reference, complaint *why)
{
    char path[2][512];
    size_t n[2] = {0};
    unsigned char *data[2] = {0};
    const attempt *run[2] = {a, undisturbed};
    for (int i = 0; i < 2; i++) {
        snprintf(path[i], sizeof path[i], "%s/model.safetensors", run[i]->result[0].checkpoint);
        data[i] = read_disk(i ? reference : disk, path[i], &n[i]);
    }
    const bool same = data[0] && data[1] && n[0] == n[1] && memcmp(data[0], data[1], n[0]) == 0;
    const bool present = data[0] && data[1];
    free(data[0]);
    free(data[1]);
    return same ? NULL
                : complain(why, "%s %s", path[0],
                           present ? "differs from that of the undisturbed run" : "is missing");
}

/* The learning rate is so small that gradients are constant. A use of an example moves its weight by half of the learning rate
 * (logreg), or its CLASSES weights by 1 + (CLASSES - 2) / CLASSES of it together (softmax, at 1 / CLASSES each). */
static double uses_of(const schedule *s, const unsigned char *data, size_t example)
{
    const size_t weights = s->data == OWN ? 1 : CLASSES;
    double sum = 0.0;
    for (size_t i = 0; i < weights; i++) {
        float w;
        memcpy(&w, data + (i * s->examples + example) * sizeof w, sizeof w);
        sum += fabs((double)w);
    }
    return sum / (s->data == OWN ? 0.5 * OWN_RATE : (2.0 - 2.0 / CLASSES) * OWN_RATE);
}

static const char *check_uses(const schedule *s, const attempt *a, yk_fs_memory *disk, complaint *why)
{
    const yk_result *r = &a->result[0];
    /* with --steps, a worker may have begun the next epoch, and reads its own part of a stream as often as it can */
    const uint64_t max = s->epochs     ? s->epochs
                         : s->streamed ? UINT64_MAX
                                       : r->examples / s->examples + 2,
                   min = s->epochs;
    char path[512];
    size_t n;
    uint64_t header = 0, sum = 0;
    snprintf(path, sizeof path, "%s/model.safetensors", r->checkpoint);
    unsigned char *data = read_disk(disk, path, &n);
    if (data)
        memcpy(&header, data, sizeof header);
    const size_t begin = sizeof header + header, weights = s->examples * (s->data == OWN ? 1 : CLASSES);
    /* the biases of softmax come last */
    const size_t biases = s->data == OWN ? 0 : CLASSES;
    const char *wrong = data && n == begin + (weights + biases) * sizeof(float)
                            ? NULL
                            : complain(why, "%s does not have the weights of all examples", path);
    for (size_t i = 0; !wrong && i < s->examples; i++) {
        const double uses = uses_of(s, data + begin, i);
        const uint64_t whole = (uint64_t)(uses + 0.5);
        sum += whole;
        if (fabs(uses - (double)whole) > 0.01 || whole > max || whole < min)
            wrong = complain(why, "example %zu was used %g times in %g epochs", i, uses,
                             (double)r->examples / (double)s->examples);
    }
    free(data);
    if (!wrong && sum != r->examples)
        wrong = complain(why, "the weights show %llu uses of examples, not %llu", (unsigned long long)sum,
                         (unsigned long long)r->examples);
    return wrong;
}

/* The best model is that of the result, and complete; of a synchronous run, that of the undisturbed one, or a better one: a run that a
 * signal ends is evaluated at that step, too. */
static const char *check_best(const schedule *s, const yk_result *r, const yk_result *undisturbed,
                              yk_fs_memory *disk, complaint *why)
{
    char path[64], name[32];
    size_t n;
    char *best = (char *)read_disk(disk, "run/checkpoints/best", &n);
    snprintf(name, sizeof name, "step-%llu\n", (unsigned long long)r->selected.step);
    snprintf(path, sizeof path, "run/checkpoints/step-%llu/DONE", (unsigned long long)r->selected.step);
    const bool same = best && !strcmp(best, name) && find(disk, AT_FDCWD, path);
    free(best);
    if (!same)
        return complain(why, "checkpoints/best does not name %s, or that model is missing", name);
    const yk_best *a = &r->selected, *b = &undisturbed->selected;
    bool signal = false;
    for (int i = 0; i < s->attempts; i++)
        signal |= has(&s->attempt[i], YK_SIM_SIGNAL);
    const bool better = signal && a->best < b->best; /* the monitored value is the loss */
    if (s->bits && ((a->step != b->step && !better) || r->waited != undisturbed->waited))
        return complain(why, "step %llu was selected; without faults, step %llu",
                        (unsigned long long)r->selected.step, (unsigned long long)undisturbed->selected.step);
    return NULL;
}

static const char *check_run_dir(const schedule *s, const yk_result *r, yk_fs_memory *disk, complaint *why)
{
    const uint64_t step = newest_checkpoint(disk);
    /* a file that could not be removed stays until the next attempt */
    const char *wrong = disk->kept ? NULL : check_names(find(disk, AT_FDCWD, run_dir), "", why);
    (void)s;
    if (!wrong && step != r->steps)
        wrong = complain(why, "the run has %llu steps, and its newest checkpoint %llu",
                         (unsigned long long)r->steps, (unsigned long long)step);
    return wrong ? wrong : check_metrics(disk, why);
}

const char *check_done(const schedule *s, const attempt_plan *plan, const attempt *a,
                       const attempt *undisturbed, yk_fs_memory *disk, yk_fs_memory *reference,
                       complaint *why)
{
    const yk_result *r = &a->result[0];
    const char *wrong = check_counts(s, r, why);
    bool all = true;
    for (int i = 0; i < s->ranks; i++)
        all &= a->returned[i] && !a->status[i];
    if (!wrong && all && r->lost == 0 && only_short_pauses(s, plan))
        wrong = check_traffic(r, why);
    if (!wrong && s->validates)
        wrong = check_best(s, r, &undisturbed->result[0], disk, why);
    if (!wrong && s->bits)
        wrong = check_bits(a, undisturbed, disk, reference, why);
    /* Several servers save their shards one after the other, and a worker may be lost, for good or for a moment, when one of them has
     * its gradient and another one has not. */
    const bool whole = s->plan.servers <= 1 && s->plan.placement != YK_PLACEMENT_SHARDS;
    if (!wrong && s->uses && (whole || (!r->resumed_from && only_short_pauses(s, plan))))
        wrong = check_uses(s, a, disk, why);
    if (!wrong)
        wrong = check_run_dir(s, r, disk, why);
    return wrong ? wrong : check_outside(disk, why);
}

/* ---- a finished run is resumed ---- */

void keep_files(yk_fs_memory *disk, const attempt *a, kept_files *out)
{
    char model[512];
    snprintf(model, sizeof model, "%s/model.safetensors", a->result[0].checkpoint);
    const char *const path[3] = {model, "run/metrics.jsonl", "run/summary.json"};
    for (int i = 0; i < 3; i++)
        out->data[i] = read_disk(disk, path[i], &out->size[i]);
}

const char *check_unchanged(const kept_files *before, const kept_files *after, complaint *why)
{
    static const char *const name[3] = {"the model", "metrics.jsonl", "summary.json"};
    for (int i = 0; i < 3; i++)
        if (!before->data[i] || !after->data[i] || before->size[i] != after->size[i] ||
            memcmp(before->data[i], after->data[i], before->size[i]) != 0)
            return complain(why, "resuming the finished run changed %s", name[i]);
    return NULL;
}

void kept_files_free(kept_files *k)
{
    for (int i = 0; i < 3; i++)
        free(k->data[i]);
}

/* A digest of the files that depend only on the seed. Others contain process ids and paths of the real machine. */
static uint64_t digest_below(const node *dir, uint64_t digest)
{
    const dir_names *names = seen(dir);
    for (size_t i = 0; i < names->n; i++) {
        const node *n = names->entry[i].node;
        const char *name = names->entry[i].name;
        if (n->is_dir)
            digest = digest_below(n, digest);
        else if (strstr(name, ".tfevents.") || strstr(name, ".safetensors") || !strcmp(name, "metrics.jsonl"))
            for (size_t k = 0; k < n->size; k++)
                digest = yk_mix64(digest ^ n->data[k]);
    }
    return digest;
}

uint64_t digest_of_files(const yk_fs_memory *disk)
{
    return digest_below(disk->root, 0);
}
