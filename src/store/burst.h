/* Many steps of one example each at once: the store's side of model/burst.h, in place of pull, push and clock.
 *
 *     size_t most = yk_local_burst_most(s, me);     // steps that may be made now without asking again
 *     yk_local_burst_begin(s, me, &view, &lr);      // the weights, and the rate of these steps
 *     ...                                           // n <= most steps of plain sgd on what the view shows
 *     yk_local_burst_end(s, me, n);                 // they are counted; copies of hot keys are merged when it is time
 *
 * Only where a step is nothing but w -= lr g: plain sgd at a constant rate, without decay to catch up on, on sparse rows one
 * at a time, and where nobody waits for this worker: it is alone, or the mode is asynchronous. Called by worker `me` on
 * its own thread.
 */
#ifndef YK_STORE_BURST_H
#define YK_STORE_BURST_H

#include "store/local.h"

enum { YK_BURST = 64 }; /* steps: ten microseconds, after which others may want to meet */

bool yk_local_bursts(const yk_local *s);
size_t yk_local_burst_most(const yk_local *s, int me); /* 1 .. YK_BURST */
void yk_local_burst_begin(yk_local *s, int me, yk_view *view_out, float *lr_out);
void yk_local_burst_end(yk_local *s, int me, size_t steps);

#endif
