/* A burst: many steps of one example each in one call. With a batch size of 1 a step takes about 150 ns, and separate calls
 * for the batch, the weights, the gradient and the clock would double that.
 *
 * Example:
 *     if (yk_model_can_burst(m) && yk_local_bursts(s)) {          // store/burst.h: the store's side
 *         yk_local_burst_begin(s, me, &view, &lr);
 *         yk_model_burst(m, work, &view, &batch, lr, loss);    // batch.n steps of plain sgd, in the order of the rows
 *         yk_local_burst_end(s, me, batch.n);
 *     }
 *
 * A burst updates the weights of the view in place, exactly as separate steps would; how the rows are divided into bursts
 * does not change the result. As with grad(), each worker has its own workspace, and nothing is allocated.
 */
#ifndef YK_MODEL_BURST_H
#define YK_MODEL_BURST_H

#include "model/model.h"

bool yk_model_can_burst(const yk_model *m);

/* loss[i]: loss of row i before its step. */
void yk_model_burst(const yk_model *m, yk_workspace *w, const yk_view *v, const yk_batch *b, float lr,
                    float *loss);

#endif
