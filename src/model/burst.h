/* Many steps of one example each at once. At a batch of one the work of a step is some 150 ns, and asking for a batch, the
 * weights, a gradient and a clock would cost as much again; so a model that can makes a burst of them by itself:
 *
 *     if (yk_model_bursts(m) && yk_local_bursts(s)) {          // store/burst.h: the store's side
 *         yk_local_burst_begin(s, me, &view, &lr);
 *         yk_model_burst(m, work, &view, &batch, lr, loss);    // batch.n steps of plain sgd, in the order of the rows
 *         yk_local_burst_end(s, me, batch.n);
 *     }
 *
 * It changes the weights that the view shows, as that many gradients pushed one by one would have. How the rows are cut
 * into bursts does not change a bit of the result. Threads and memory as for grad(): a work per worker, no allocation.
 */
#ifndef YK_MODEL_BURST_H
#define YK_MODEL_BURST_H

#include "model/model.h"

bool yk_model_bursts(const yk_model *m);

/* loss[i]: of row i, before its step. */
void yk_model_burst(const yk_model *m, yk_work *w, const yk_view *v, const yk_batch *b, float lr,
                    float *loss);

#endif
