/* Options with one value for all parameter groups, or separate values for the keyed groups, the dense groups or individual
 * groups:
 *
 *     --lr 0.1    --lr keyed=0.05,dense=0.001    --optimizer linear=ftrl,embed=adagrad,dense=adam    --servers keyed=2,dense=0
 *
 * Example:
 *     yk_by_group lr = {0};                                                     // none given
 *     yk_status st = yk_by_group_set(yk_option_find("lr"), "keyed=0.05,linear=0.2", &lr);
 *     double linear = yk_by_group_of(&lr, "linear", true, 0.1);                 // 0.2
 *     double other = yk_by_group_of(&lr, "embed", true, 0.1);                   // 0.05
 *     double dense = yk_by_group_of(&lr, "network", false, 0.1);                // 0.1
 *
 * Plain data; the functions are pure.
 */
#ifndef YK_CONFIG_BY_GROUP_H
#define YK_CONFIG_BY_GROUP_H

#include "base/status.h"
#include "config/option.h"
#include "core/group.h"

/* The parts of yk_by_group: for all groups, for those of a kind, and from YK_GROUP_NAMED on, for individual groups. */
enum {
    YK_GROUP_EVERY,
    YK_GROUP_KEYED,
    YK_GROUP_DENSE,
    YK_GROUP_NAMED,
    YK_GROUP_PARTS = YK_GROUP_NAMED + YK_MAX_GROUPS
};

typedef struct {
    struct {
        char name[YK_GROUP_NAME]; /* "": not given */
        double value;             /* a word of a list (yk_option.words): its index */
    } part[YK_GROUP_PARTS];
} yk_by_group;

#define YK_ALL (-2) /* the value for the word that is accepted instead of a number: "all" or "auto" */

/* Parses a value, or a list of values by group. YK_EUSAGE with the reason; the caller adds the name of the option. */
yk_status yk_by_group_set(const yk_option *o, const char *text, yk_by_group *out);

/* The text of the same values; "": none were given. */
void yk_by_group_text(const yk_option *o, const yk_by_group *g, char *out, size_t size);

/* The value for the group of this name, which is keyed or dense; name "": for groups that are not named. `otherwise`: none was given. */
double yk_by_group_of(const yk_by_group *g, const char *name, bool keyed, double otherwise);

bool yk_by_group_given(const yk_by_group *g);
bool yk_by_group_has(const yk_by_group *g, double value); /* for any group */

#endif
