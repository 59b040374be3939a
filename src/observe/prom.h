/* The text format of Prometheus (text/plain; version=0.0.4): each metric family is declared once, followed by its samples.
 * A family whose name ends with "_total" is a counter, others are gauges.
 *
 * Example:
 *     yk_prom p = {0};
 *     yk_prom_family(&p, "yoke_steps_total", "Steps so far.");
 *     yk_prom_sample(&p, (const char *[]){"worker", "0", NULL}, 42.0);
 *     char *text = yk_text_take(&p.out); // the caller frees it; NULL: out of memory
 *
 *     # HELP yoke_steps_total Steps so far.
 *     # TYPE yoke_steps_total counter
 *     yoke_steps_total{worker="0"} 42
 *
 * Values that are not finite are written as NaN, +Inf and -Inf. One thread at a time.
 */
#ifndef YK_OBSERVE_PROM_H
#define YK_OBSERVE_PROM_H

#include "base/text.h"

typedef struct {
    yk_text out;
    const char *name; /* of the family; borrowed */
} yk_prom;

void yk_prom_family(yk_prom *p, const char *name,
                    const char *help); /* help: without newlines and backslashes */
/* labels: name, value, ..., NULL; NULL: none */
void yk_prom_sample(yk_prom *p, const char *const *labels, double value);

#endif
