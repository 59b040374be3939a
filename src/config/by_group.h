/* Options with one value for all parameter groups, or one for the keyed and one for the dense groups:
 *
 *     --lr 0.1    --lr keyed=0.05,dense=0.001    --optimizer keyed=adagrad,dense=adam    --servers keyed=2,dense=0
 *
 * Example:
 *     yk_by_group lr = YK_BY_GROUP_NONE;
 *     yk_status st = yk_by_group_set("keyed=0.05", 0.0, HUGE_VAL, false, NULL, &lr);
 *     double keyed = yk_by_group_of(&lr, true, 0.1), dense = yk_by_group_of(&lr, false, 0.1); // 0.05 and 0.1
 *
 * Plain data; the functions are pure.
 */
#ifndef YK_CONFIG_BY_GROUP_H
#define YK_CONFIG_BY_GROUP_H

#include "base/status.h"
#include <math.h>
#include <stdbool.h>
#include <stddef.h>

typedef struct {
    double all, keyed, dense; /* NaN: not given */
} yk_by_group;

#define YK_BY_GROUP_NONE ((yk_by_group){NAN, NAN, NAN})

#define YK_ALL (-2) /* the value that means "all" */

/* Parses a number, or one for each kind of group. `word` is accepted instead of a number and stored as YK_ALL; NULL: none.
 * YK_EUSAGE with the reason; the caller adds the name of the option. */
yk_status yk_by_group_set(const char *text, double min, double max, bool whole, const char *word,
                          yk_by_group *out);

/* The text of the same values; "": none were given. */
void yk_by_group_text(const yk_by_group *g, const char *word, char *out, size_t size);

/* The value for keyed or dense groups; `otherwise` if none was given. */
double yk_by_group_of(const yk_by_group *g, bool keyed, double otherwise);

bool yk_by_group_same(const yk_by_group *a, const yk_by_group *b);

/* The word for keyed or dense groups in "WORD" or "keyed=WORD,dense=WORD"; `out` is "" if none is given. YK_EUSAGE if the
 * list is malformed. */
yk_status yk_by_group_word(const char *text, bool keyed, char *out, size_t size);

#endif
