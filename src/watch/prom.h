/* Text that Prometheus takes (text/plain; version=0.0.4): a family of samples is announced once, then its samples follow.
 *
 *     yk_prom p = {0};
 *     yk_prom_family(&p, "yoke_steps_total", "counter", "Steps so far.");
 *     yk_prom_sample(&p, (const char *[]){"worker", "0", NULL}, 42.0);
 *     char *text = yk_prom_take(&p);                  // the caller frees it; NULL: no memory
 *
 *     # HELP yoke_steps_total Steps so far.
 *     # TYPE yoke_steps_total counter
 *     yoke_steps_total{worker="0"} 42
 *
 * Values that are no numbers are written as NaN, +Inf and -Inf, as the format wants them. One thread at a time.
 */
#ifndef YK_WATCH_PROM_H
#define YK_WATCH_PROM_H

#include "base/text.h"

typedef struct {
    yk_text out;
    const char *name; /* of the family; borrowed */
} yk_prom;

void yk_prom_family(yk_prom *p, const char *name, const char *type, const char *help);
void yk_prom_sample(yk_prom *p, const char *const *labels,
                    double value); /* name, value, ..., NULL; or NULL */
char *yk_prom_take(yk_prom *p);

#endif
