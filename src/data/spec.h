/* Parses a data spec: `format:where?name=value&name=value`.
 *
 * Example:
 *     yk_spec spec;
 *     st = yk_spec_parse("synth:ctr?features=1000&seed=1", &spec);
 *     st = yk_spec_check(&spec, "features examples seed");                             // any other option is an error
 *     uint64_t features = yk_spec_u64(&spec, "features", 33762578, 1, UINT32_MAX);     // default, minimum, maximum
 *     st = spec.status;                                                                // the first bad option
 *     yk_spec_fini(&spec);
 *
 * A bare path has an empty format. A '?' in a path is part of the path unless name= follows it. Errors are YK_EUSAGE;
 * they name the invalid option and what is accepted. The spec owns its strings. One thread at a time.
 */
#ifndef YK_DATA_SPEC_H
#define YK_DATA_SPEC_H

#include "base/arena.h"

typedef struct {
    char *text;   /* as given */
    char *format; /* "synth", or "" */
    char *where;  /* "ctr" */
    size_t noptions;
    struct {
        char *key, *value;
    } option[16];
    size_t ngiven;    /* the first options are those of the text; the others are those of a model */
    char *storage;    /* format, where and options point into it */
    char *of_model;   /* the options of a model point into it */
    yk_status status; /* of the first bad option, with its text in yk_error() */
} yk_spec;

yk_status yk_spec_parse(const char *text, yk_spec *out);
bool yk_spec_is_stdin(const char *text); /* "csv:-": reads standard input */
void yk_spec_fini(yk_spec *spec);

/* An option's value; `fallback` if it is not given. After the first bad option the others are ignored. */
uint64_t yk_spec_u64(yk_spec *spec, const char *key, uint64_t fallback, uint64_t min, uint64_t max);
double yk_spec_real(yk_spec *spec, const char *key, double fallback, double min, double max);
/* The index of the value in a list of words: 0 or 1 for "crop pad". */
int yk_spec_choice(yk_spec *spec, const char *key, const char *choices, int fallback);
const char *yk_spec_text(const yk_spec *spec, const char *key); /* NULL: not given */
bool yk_spec_inherits(const yk_spec *spec, const char *key);    /* it is that of a model */
yk_status yk_spec_check(const yk_spec *spec, const char *known_keys);

/* The options from the list `keys` that are given, as "base=0&namespaces=user,ad". A model stores them, because they decide what
 * features, classes and weights are in any data. NULL: none, or out of memory (a->status). */
const char *yk_spec_kept(const yk_spec *spec, const char *keys, yk_arena *a);
/* Adds the options stored in a model (kept) that the spec does not give. A different namespaces or numeric is an error; other
 * options may differ, because they describe a file. */
yk_status yk_spec_inherit(yk_spec *spec, const char *kept);

#endif
