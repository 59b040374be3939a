/* Bursts: many steps of one example each, without pull, push and clock for each of them. The store's side of burst() in
 * model/model.h.
 *
 * Example:
 *     yk_view view;
 *     float lr;
 *     size_t steps = yk_local_burst_max(s, me); // steps that may be taken now
 *     yk_local_burst_begin(s, me, &view, &lr);   // the weights, and the learning rate of these steps
 *     train(&view, lr, steps);                   // plain sgd on the view
 *     yk_local_burst_end(s, me, steps);          // counts them, and merges copies of hot keys if that is due
 *
 * Possible only if a step is just w -= lr g (plain sgd at a constant rate, without lazy decay, on one sparse row at a time),
 * and no other worker waits for this one: there is one worker, or the mode is asynchronous. Worker `me` calls these functions
 * on its own thread.
 */
#ifndef YK_STORE_BURST_H
#define YK_STORE_BURST_H

#include "store/local.h"

enum { YK_MAX_BURST = 64 }; /* steps; about 10 us, for which a barrier has to wait */

bool yk_local_bursts(const yk_local *s);
size_t yk_local_burst_max(const yk_local *s, int me); /* 1 .. YK_MAX_BURST */
void yk_local_burst_begin(yk_local *s, int me, yk_view *view_out, float *lr_out);
void yk_local_burst_end(yk_local *s, int me, size_t steps);

#endif
