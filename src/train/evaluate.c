/* Evaluation: each worker takes a share of the test set, on frozen parameters; the chief puts the shares together. */
#include "train/trainer.h"

#include <math.h>

/* Only diverging weights have a loss this high. Overflow to infinity may take many more steps. */
const double yk__most_loss = 1e6;

yk_status yk__diverged(const yk__trainer *t, const char *what, double value, uint64_t step)
{
    return yk_fail(YK_EDIVERGED,
                   "training diverged at step %llu: %s is %g; the learning rate %g is too large for this "
                   "data; try --lr %g",
                   (unsigned long long)step, what, value, t->result->lr, t->result->lr / 10.0);
}

static yk_status eval_rows(yk__trainer *t, yk__worker_state *w, const yk_view *v, const yk_rows *rows,
                           size_t begin, size_t end)
{
    uint32_t pick[YK__EVAL_BATCH];
    for (size_t at = begin; at < end; at += YK__EVAL_BATCH) {
        size_t n = end - at < YK__EVAL_BATCH ? end - at : YK__EVAL_BATCH;
        for (size_t i = 0; i < n; i++)
            pick[i] = (uint32_t)(at + i);
        yk_batch b = {.rows = rows, .pick = pick, .n = n};
        t->model->ops->predict(t->model, w->work, v, &b, w->p, &w->tally.loss);
        yk_status st = yk_tally_add(&w->tally, w->p, t->model->outputs, &b);
        if (st)
            return st;
    }
    return YK_OK;
}

/* A test set that is streamed: each worker reads its own blocks. */
static yk_status eval_stream(yk__trainer *t, yk__worker_state *w, int share, int of, const yk_view *v)
{
    yk_rows part;
    yk_rows_init(&part, t->test.kind, t->test.dim);
    yk_status st = YK_OK;
    for (size_t b = (size_t)share; !st && b < t->test.source->nblocks; b += (size_t)of) {
        yk_reader *r;
        size_t got = 1;
        if ((st = yk_source_read(t->test.source, b, &r)))
            break;
        while (!st && got) {
            yk_rows_clear(&part);
            if (!(st = yk_reader_next(r, &part, 4096, &got)) && !(st = yk_dataset_check(&t->test, &part)) &&
                t->names)
                st = yk_keymap_rows(t->names, &part);
            if (!st)
                st = eval_rows(t, w, v, &part, 0, part.n);
        }
        yk_reader_free(r);
    }
    yk_rows_fini(&part);
    return st;
}

yk_status yk__evaluate(yk__trainer *t, yk__worker_state *w, int share, int of, const yk_view *v)
{
    yk_tally_clear(&w->tally);
    if (!t->test.rows)
        return eval_stream(t, w, share, of, v);
    const size_t n = t->test.rows->n;
    return eval_rows(t, w, v, t->test.rows, n * (size_t)share / (size_t)of,
                     n * ((size_t)share + 1) / (size_t)of);
}

yk_status yk__conclude(yk__trainer *t)
{
    yk__worker_state *evaluator = t->evaluator;
    const int n = t->nevaluators;
    double loss = 0.0;
    uint64_t examples = 0;
    yk_tally *tallies = yk_alloc((size_t)n, sizeof *tallies, "an evaluation");
    if (!tallies)
        return YK_ESYSTEM;
    for (int i = 0; i < n; i++) {
        tallies[i] = evaluator[i].tally;
        loss += evaluator[i].period_loss;
        examples += evaluator[i].period_examples;
        evaluator[i].period_loss = 0.0;
        evaluator[i].period_examples = 0;
    }
    yk_status st = t->tested ? yk_score_make(tallies, n, &t->result->test) : YK_OK;
    yk_free(tallies);
    if (st)
        return st;
    t->result->tested = t->tested;
    if (examples)
        t->result->train_loss = loss / (double)examples;
    if (examples && t->result->train_loss < t->lowest_loss)
        t->lowest_loss = t->result->train_loss;
    t->last_eval = t->step;
    if (t->tested && !(t->result->test.loss <= yk__most_loss))
        return yk__diverged(t, "the test loss", t->result->test.loss, t->step);
    return yk__evaluated(t);
}

yk_status yk__save(yk__trainer *t, yk_local *parameters, const yk_progress_state *p)
{
    if (!t->result->run_dir)
        return YK_OK;
    for (int g = 0; g < t->model->ngroups; g++) {
        const float *w = yk_local_table(parameters, g).w;
        const size_t n = yk_group_floats(&t->model->group[g]);
        for (size_t i = 0; i < n; i++)
            if (!isfinite(w[i])) /* to go on from such a checkpoint would be of no use */
                return yk__diverged(t, "a weight", (double)w[i], p->step);
    }
    yk__stage(t, YK_STAGE_SAVING);
    yk_status st = yk_checkpoint_save(t->result->run_dir, t->config->model, t->model, parameters, t->names, p,
                                      &t->result->checkpoint);
    yk__stage(t, YK_STAGE_SAVED);
    return st;
}
