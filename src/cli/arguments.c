#include "cli/arguments.h"

#include "base/number.h"
#include <string.h>

uint64_t yk_argument_whole(struct argp_state *state, const char *name, const char *arg, double least,
                           double most)
{
    int64_t n = 0;
    if (yk_number_whole(arg, least, most, &n))
        argp_error(state, "--%s %s: %s", name, arg, yk_error());
    return (uint64_t)n;
}

yk_split yk_argument_split(struct argp_state *state, const char *arg)
{
    if (strcmp(arg, "train") && strcmp(arg, "test"))
        argp_error(state, "--split is train or test");
    return strcmp(arg, "train") ? YK_SPLIT_TEST : YK_SPLIT_TRAIN;
}
