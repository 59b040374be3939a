#include "cli/arguments.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

uint64_t yk_argument_whole(struct argp_state *state, const char *name, const char *arg, double least,
                           double most)
{
    char *end;
    double x = strtod(arg, &end);
    if (end != arg && *end && strchr("kK", *end) && !end[1])
        x *= 1e3, end++;
    else if (end != arg && *end && strchr("mM", *end) && !end[1])
        x *= 1e6, end++;
    if (end == arg || *end || !(x >= least && x <= most) || x != floor(x))
        argp_error(state, "--%s %s: that is not a whole number from %.0f to %.0f", name, arg, least, most);
    return (uint64_t)x;
}

yk_split yk_argument_split(struct argp_state *state, const char *arg)
{
    if (strcmp(arg, "train") && strcmp(arg, "test"))
        argp_error(state, "--split is train or test");
    return strcmp(arg, "train") ? YK_SPLIT_TEST : YK_SPLIT_TRAIN;
}
