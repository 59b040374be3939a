/* --resume: the chief loads the newest checkpoint, and every process gets its part of it. */
#include "train/setup.h"

#include "train/checkpoint_dir.h"
#include "train/loop.h"
#include <stdlib.h>
#include <string.h>

/* The order of the examples depends on their number: if that changes, some are used twice in this epoch and others not at all. A
 * stream is read in order, so its files may grow. */
static yk_status check_examples(const yk__trainer *t)
{
    const uint64_t then = t->resumed.data_examples, now = t->train.examples;
    return !then || then == now || yk__is_streamed(t)
               ? YK_OK
               : yk_fail(
                     YK_EDATA,
                     "%s was written with %llu training examples, but %s%s has %llu: resume with the same "
                     "data and --validation, or continue in a new run with --warm-start %s",
                     t->result->checkpoint, (unsigned long long)then,
                     t->caller->data ? "the data in memory" : t->config->data,
                     t->set[YK__VALIDATION].used ? ", without the rows for validation," : "",
                     (unsigned long long)now, t->result->run_dir);
}

/* Why the best model cannot be compared with later ones; NULL: it can. */
static const char *obstacle_of(const yk__trainer *t, const yk_best *best)
{
    const yk__selection *s = &t->selection;
    const yk_dataset *d = &t->set[YK__VALIDATION].data;
    const uint64_t rows = d->rows ? d->rows->n : 0;
    return !yk__checkpoint_is_complete(t->result->run_dir, best->step) ? "is missing or damaged"
           : s->monitor && *best->monitor && strcmp(best->monitor, s->monitor->name)
               ? "was selected with another --monitor"
           : rows && rows != best->validation.examples ? "was selected with other validation data"
                                                       : NULL;
}

/* If the best model cannot be compared with later ones, the best of the later ones is selected. The learning rate stays reduced. */
static yk_status check_best(const yk__trainer *t, yk_best *best)
{
    const char *run_dir = t->result->run_dir, *obstacle = best->step ? obstacle_of(t, best) : NULL;
    if (!obstacle) /* the run may have ended before it wrote checkpoints/best */
        return best->step ? yk__checkpoint_name_best(run_dir, best->step) : YK_OK;
    yk_warn("%s: the checkpoint of the best model, step-%llu, %s: the best of the later models is selected",
            run_dir, (unsigned long long)best->step, obstacle);
    *best = (yk_best){.reductions = best->reductions};
    return YK_OK;
}

/* The test metrics of the best model, which are not in checkpoints: evaluates it in `store`, and loads the newest one again. Without
 * the best model, they stay unknown. */
static yk_status evaluate_best(yk__trainer *t, yk_local *store)
{
    yk_view view[YK_MAX_GROUPS];
    yk_progress_state best = {0}, newest = {0};
    char *path = NULL;
    if (!t->resumed.best.step || !t->set[YK__TEST].used || !t->selection.monitor)
        return YK_OK;
    yk_status st = yk_checkpoint_best(t->result->run_dir, &path);
    if (!st && path && !yk_checkpoint_load(path, t->model, store, t->remap, &best) &&
        best.step == t->resumed.best.step) {
        yk_local_tables(store, view);
        st = yk__evaluate_best(t, view);
    }
    if (!st && path)
        st = yk_checkpoint_load(t->result->checkpoint, t->model, store, t->remap, &newest);
    free(best.cursor);
    free(newest.cursor);
    free(path);
    return st;
}

/* Loads the newest checkpoint into `store`, if there is one. */
static yk_status load(yk__trainer *t, yk_local *store)
{
    yk_result *r = t->result;
    yk_status st = t->config->resume ? yk_checkpoint_find(r->run_dir, &r->checkpoint) : YK_OK;
    if (!st && t->config->resume && !r->checkpoint && !(st = yk__checkpoint_none(r->run_dir)))
        yk_note("%s: no checkpoint yet, starting from the beginning", r->run_dir);
    if (st || !r->checkpoint)
        return st ? st : yk__warm_start_load(t, t->group, store, true);
    st = yk_checkpoint_load(r->checkpoint, t->model, store, t->remap, &t->resumed);
    if (!st)
        st = check_examples(t);
    if (!st)
        st = check_best(t, &t->resumed.best);
    if (!st)
        st = evaluate_best(t, store);
    if (!st)
        yk_note("resuming from %s (step %llu)", r->checkpoint, (unsigned long long)t->resumed.step);
    if (!st && t->config->new_init)
        yk_note("--init and --init-bias have no effect: the parameters are those of the checkpoint");
    return st;
}

static yk_status broadcast(const yk__trainer *t, void *buf, size_t bytes)
{
    return yk_comm_broadcast(t->cluster.comm, buf, bytes, t->plan->startup_timeout, "the checkpoint");
}

static yk_status broadcast_progress(yk__trainer *t, yk_progress_state *p)
{
    char *cursor = (char *)p->cursor;
    yk_status st = broadcast(t, p, sizeof *p);
    uint64_t bytes = p->ncursor * sizeof *p->cursor;
    if (!st)
        st = yk__broadcast(t, 0, 0, t->cluster.ranks, &cursor, &bytes, "the checkpoint");
    p->cursor = (uint64_t *)(void *)cursor;
    return st;
}

/* From the chief's replica to all others. */
static yk_status broadcast_parameters(yk__trainer *t, uint64_t step)
{
    yk_checkpoint_arrays all;
    yk_status st = YK_OK;
    yk_checkpoint_arrays_of(t->local, &all, false);
    for (size_t i = 0; !st && i < all.n; i++)
        st = broadcast(t, all.array[i].data, all.array[i].size * sizeof(float));
    if (!st)
        yk_local_restore(t->local, step);
    return st;
}

static yk_status restore_feed(yk__trainer *t, const yk_progress_state *p)
{
    if (!t->feed)
        return YK_OK;
    if (t->plan->alone || t->plan->cursor_kind != YK_CURSOR_LEASE)
        return yk_feed_cursor_restore(t->feed, p->cursor, p->ncursor, p->step);
    t->facts.resumed = 1;
    size_t chunk_rows;
    yk_status st = yk_feed_chunk_rows_restore(t->feed, p->cursor, p->ncursor, &chunk_rows);
    t->facts.chunk_rows = chunk_rows;
    return st ? st : yk__plan(t);
}

/* A chief that is a server assigns the examples. */
static yk_status restore_assignment(yk__trainer *t, const yk_progress_state *p)
{
    yk__cluster *k = &t->cluster;
    t->late_examples = p->late_examples;
    const uint64_t steps = t->plan->leased_steps;
    if (steps != UINT64_MAX)
        k->assignment.steps_left = steps > p->step ? steps - p->step : 0;
    if (t->plan->cursor_kind == YK_CURSOR_LEASE)
        return yk_assignment_cursor_restore(&k->assignment, p->cursor, p->ncursor);
    if (t->plan->cursor_kind == YK_CURSOR_STREAM)
        yk_streams_restore(&k->streams, p->cursor, p->ncursor, (size_t)t->config->shuffle_mb << 20);
    return YK_OK;
}

/* The keys that evaluations read: those of the test set and the bias, ascending. *keys_out: NULL: unknown, or no keys; free it
 * with free(). With a validation set, snapshots have all keys, because they may be saved. */
static yk_status test_keys(const yk__trainer *t, uint32_t **keys_out, size_t *n_out)
{
    const yk_rows *rows =
        !t->set[YK__VALIDATION].used && t->model->sparse ? t->set[YK__TEST].data.rows : NULL;
    const size_t keys = (size_t)yk_model_keys(t->model);
    *keys_out = NULL;
    *n_out = 0;
    if (!rows || !rows->n || rows->kind != YK_ROWS_SPARSE)
        return YK_OK;
    uint8_t *read = calloc(keys + 1, 1);
    *keys_out = read ? malloc((keys + 1) * sizeof **keys_out) : NULL;
    if (!*keys_out) {
        free(read);
        return yk_fail_memory(keys * (1 + sizeof **keys_out), "the keys of the test set");
    }
    for (uint64_t e = 0; e < rows->start[rows->n]; e++)
        read[rows->index[e] < keys ? rows->index[e] : keys] = 1;
    if (t->model->bias_key < keys)
        read[t->model->bias_key] = 1;
    for (size_t k = 0; k < keys; k++)
        if (read[k])
            (*keys_out)[(*n_out)++] = (uint32_t)k;
    free(read);
    return YK_OK;
}

/* The servers get their parts of the parameters. */
static yk_status scatter(const yk__trainer *t)
{
    const yk__cluster *k = &t->cluster;
    uint32_t *keys = NULL;
    size_t n = 0;
    yk_status st = k->rank == 0 ? test_keys(t, &keys, &n) : YK_OK;
    if (!st)
        st = yk_server_scatter(k->server, k->whole, keys, n);
    free(keys);
    return st;
}

/* On all ranks: where the run continues. */
static void set_progress(yk__trainer *t, const yk_progress_state *p)
{
    t->step = t->result->resumed_from = p->step;
    yk__saved(&t->schedule, t->step);
    yk__evaluated(&t->schedule, UINT64_MAX); /* this process has not evaluated it */
    t->epoch = p->epoch;
    if (t->selection.monitor) {
        t->selection.best = p->best;
        t->selection.resumed = p->period_examples ? 0 : p->step;
        yk__set_reductions(t, yk_local_set_reductions);
        yk__follow_evaluation(t); /* the run may have been stopped */
    }
    if (t->plan->whole || t->cluster.rank == 0) {
        t->evaluator->period_loss = p->period_loss;
        t->evaluator->period_examples = p->period_examples;
        t->evaluator->period_extra_weight = p->period_extra_weight;
    }
}

static yk_status distribute(yk__trainer *t)
{
    yk__cluster *k = &t->cluster;
    yk_progress_state *p = &t->resumed;
    yk_status st = t->plan->alone ? YK_OK : broadcast_progress(t, p);
    const bool found = p->ncursor; /* a checkpoint */
    if (!st && k->exchange && (found || t->config->warm_start))
        st = broadcast_parameters(t, p->step);
    if (!st && k->server)
        st = scatter(t);
    if (st || !found)
        return st;
    set_progress(t, p);
    st = restore_feed(t, p);
    return st || !k->server || k->rank != 0 ? st : restore_assignment(t, p);
}

yk_status yk__resume(yk__trainer *t)
{
    yk__cluster *k = &t->cluster;
    if (k->joined)
        return YK_OK;
    yk_startup_enter(k->startup, YK_STARTUP_BUSY);
    yk_status st = k->rank == 0 ? load(t, k->whole ? k->whole : t->local) : YK_OK;
    yk_startup_enter(k->startup, YK_STARTUP_WAITING);
    return st ? st : distribute(t);
}
