/* Values of options that several commands have. What is wrong ends the program, as argp_error() does. */
#ifndef YK_CLI_ARGUMENTS_H
#define YK_CLI_ARGUMENTS_H

#include "data/source.h"
#include <argp.h>

/* A whole number, also as 1e6, 100k or 2m. */
uint64_t yk_argument_whole(struct argp_state *state, const char *name, const char *arg, double least,
                           double most);

yk_split yk_argument_split(struct argp_state *state, const char *arg);

#endif
