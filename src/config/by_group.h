/* Options with one value for all parameter groups, or separate values for the keyed groups, the dense groups or individual
 * groups:
 *
 *     --lr 0.1    --lr keyed=0.05,dense=0.001    --optimizer linear=ftrl,embed=adagrad,dense=adam    --servers keyed=2,dense=0
 *
 * Example:
 *     yk_by_group lr = YK_BY_GROUP_NONE;
 *     yk_status st = yk_by_group_set("keyed=0.05,linear=0.2", 0.0, HUGE_VAL, false, NULL, &lr);
 *     double keyed = yk_by_group_of(&lr, true, 0.1), dense = yk_by_group_of(&lr, false, 0.1); // 0.05 and 0.1
 *     double linear = yk_by_group_named(&lr, "linear", keyed);                                // 0.2
 *
 * Plain data; the functions are pure.
 */
#ifndef YK_CONFIG_BY_GROUP_H
#define YK_CONFIG_BY_GROUP_H

#include "base/status.h"
#include "core/group.h"
#include <math.h>
#include <stdbool.h>
#include <stddef.h>

typedef struct {
    double all, keyed, dense; /* NaN: not given */
    struct {
        char name[YK_GROUP_NAME]; /* "": none */
        double value;
    } named[YK_MAX_GROUPS];
} yk_by_group;

#define YK_BY_GROUP_NONE ((yk_by_group){.all = NAN, .keyed = NAN, .dense = NAN})

#define YK_ALL (-2) /* the value for the word that is accepted instead of a number: "all" or "auto" */

/* Parses a number, or a list of numbers by group. `whole`: numbers must be integers. `word`: accepted instead of a number, and
 * stored as YK_ALL; NULL: none. YK_EUSAGE with the reason; the caller adds the name of the option. */
yk_status yk_by_group_set(const char *text, double min, double max, bool whole, const char *word,
                          yk_by_group *out);

/* The text of the same values; "": none were given. */
void yk_by_group_text(const yk_by_group *g, const char *word, char *out, size_t size);

/* The value for keyed or dense groups; `otherwise` if none was given. */
double yk_by_group_of(const yk_by_group *g, bool keyed, double otherwise);

/* The value that was given for the group of this name; `otherwise` if there is none. */
double yk_by_group_named(const yk_by_group *g, const char *name, double otherwise);

/* Whether any group has the word instead of a number. */
bool yk_by_group_has_word(const yk_by_group *g);

bool yk_by_group_same(const yk_by_group *a, const yk_by_group *b);

/* The word for `group` in "WORD" or in a list such as "keyed=WORD,dense=WORD"; `group` is "keyed", "dense" or the name of a
 * group. `out` is "" if none is given. YK_EUSAGE if the list is malformed. */
yk_status yk_by_group_word(const char *text, const char *group, char *out, size_t size);

/* Reads the next part of a list NAME=VALUE,NAME=VALUE,... and advances `*at`, which initially points to the list. Returns false at
 * the end of the list, and if the part is malformed; in that case, `*at` is not at the end. */
typedef struct {
    char name[YK_GROUP_NAME], value[64];
} yk_by_group_part;

bool yk_by_group_next(const char **at, yk_by_group_part *out);

#endif
