/* The accuracy of a worker on its share of the training data: it predicts some of its batches before it trains on them. A
 * prediction takes about a third of a step, so one in 64 steps costs half a percent. The first steps are sampled more often, so
 * that short runs have an accuracy, too. */
#include "train/loop.h"

bool yk__accuracy_due(yk__worker_state *w)
{
    enum { EVERY = 64 };
    yk__accuracy *a = &w->accuracy;
    if (++a->steps >= a->rotate_at) { /* the result covers the last half to three quarters of the steps */
        a->rotate_at = 2 * a->steps;
        a->old = a->recent;
        a->recent = (yk__correct){0};
    }
    if (a->steps < a->next)
        return false;
    a->next = a->steps + 1 + yk__min(a->steps / 4, EVERY - 1);
    return true;
}

void yk__accuracy_add(yk__worker_state *w, uint64_t examples, uint64_t correct)
{
    yk__accuracy *a = &w->accuracy;
    a->recent.examples += examples;
    a->recent.correct += correct;
    yk_phases_scored(w->phases, a->old.examples + a->recent.examples, a->old.correct + a->recent.correct);
}

void yk__accuracy_sample(const yk__trainer *t, yk__worker_state *w, const yk_view *view,
                         const yk_batch *batch)
{
    yk_batch some = *batch;
    const size_t outputs = t->model->outputs;
    uint64_t correct = 0;
    double loss = 0.0;
    some.n = batch->n < YK__EVAL_BATCH ? batch->n : YK__EVAL_BATCH;
    some.ahead = 0;
    if (!some.n)
        return;
    t->model->ops->predict(t->model, w->work, view, &some, w->p, &loss);
    for (size_t i = 0; i < some.n; i++)
        correct += yk_score_class(w->p + i * outputs, outputs) == (size_t)some.rows->label[some.pick[i]];
    yk__accuracy_add(w, some.n, correct);
}
