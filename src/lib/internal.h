/* Inside of the library: how the objects of yoke.h are made, for lib/ and for the program. */
#ifndef YK_LIB_INTERNAL_H
#define YK_LIB_INTERNAL_H

#include "base/status.h"
#include "config/config.h"
#include "data/memory.h"
#include "train/train.h"
#include <yoke.h>

/* A setting: an option with its value, or a configuration file. */
typedef struct {
    char *name, *value; /* name NULL: value is the path of a file */
} yk__setting;

struct yoke_options {
    yk__setting *setting; /* [n] in the order in which they were given */
    size_t n, cap;
    yk_config scratch; /* checks values as they are given */
};

/* `out` is initialized here, also after a failure. Files come first, then the run that is resumed or joined, then options.
 * Warns about options of a run directory that are ignored, unless `silent`. */
yk_status yk_options_resolve(const yoke_options *o, bool silent, yk_config *out);

struct yoke_data {
    char *spec; /* NULL: from memory */
    yk_split split;
    yk_source_options options;
    yk_memory_data memory;
    uint64_t *start; /* owned copies of what the caller has in another form, or not at all; else NULL */
    int32_t *labels;
};

/* The source of `data` for a model that has been trained. */
yk_status yk_data_open(const yoke_data *data, const yk_model_shape *shape, yk_source **out);

/* Sets *error (may be NULL) from a status and the thread's error text. */
yoke_status yk_api_status(yk_status st, yoke_error *error);

/* lib/result_text.c: what yoke train prints. The caller frees it; NULL: out of memory. */
char *yk_result_text(const yk_result *r);

/* lib/child_job.c: runs the program yoke, for jobs of several processes. */
yk_status yk_child_job(const yoke_training *t, const yk_config *config, char **summary_out);

#endif
