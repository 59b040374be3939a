/* The objects behind yoke.h, for lib/ and for the program. include/yoke.h says who owns them and which threads may use
 * them. */
#ifndef YK_LIB_INTERNAL_H
#define YK_LIB_INTERNAL_H

#include "base/status.h"
#include "config/config.h"
#include "data/frame.h"
#include "data/memory.h"
#include "train/train.h"
#include "train/trained.h"
#include <stdio.h>
#include <yoke.h>

/* A setting: an option with its value, or a configuration file. */
typedef struct {
    const char *name, *value; /* name NULL: value is the path of a file */
} yk__setting;

struct yoke_options {
    yk__setting *setting; /* [n] in the order in which they were given */
    size_t n, cap;
    yk_arena arena;    /* of their texts */
    yk_config scratch; /* to check each value when it is set */
};

/* Initializes `out` even if it fails. Options override the configuration of the run that is resumed or joined, which
 * overrides configuration files. Warns about ignored options of a run directory unless `silent`. */
yk_status yk_options_resolve(const yoke_options *o, bool silent, yk_config *out);

struct yoke_data {
    char *spec; /* NULL: from memory */
    yk_split split;
    yk_source_options options;
    yk_memory_data memory; /* memory.frame is owned */
    yk_arena arena;        /* of a copy of start32, and of zeros for data without labels */
};

/* Copies a matrix of the caller, and checks which arrays it has. */
yk_status yk_api_csr(const yoke_csr *given, yoke_csr *out);

/* Opens `data` for a trained model, with its schema. unlabeled: labels may be missing. carry: as in yk_source_options.
 * The caller frees *out, even after a failure. */
yk_status yk_data_open(const yoke_data *data, const yk_trained *model, bool unlabeled, const char *carry,
                       yk_source **out);

/* Metrics as text: all of them (the caller frees it; NULL: out of memory); the main ones in one line (no line if there are none).
 * schema: has the names of classes, or NULL. */
char *yk_show_metrics(const yk_eval_metrics *m, const yk_schema *schema);
void yk_show_metrics_line(yk_text *t, const yk_eval_metrics *m);

/* Copies a structure of the caller, which may have been compiled with another version of yoke.h: missing new fields become 0,
 * but those up to `last` are required. */
#define YK_API_STRUCT(to, from, last)                                                                        \
    yk_api_struct(to, sizeof *(to), from, (from)->struct_size,                                               \
                  (size_t)((const char *)(&(to)->last + 1) - (const char *)(to)))
yk_status yk_api_struct(void *to, size_t size, const void *from, size_t given, size_t min);

/* Sets *error (may be NULL) from a status and the thread's error text. */
yoke_status yk_api_status(yk_status st, yoke_error *error);

/* lib/result_text.c: what yoke train prints with and without --json, and with --profile (else NULL). The caller frees
 * the texts; only yk_result_text() and yk_result_profile() end with a newline. */
yk_status yk_result_summary(const yk_config *c, const yk_result *r, char **out);
yk_status yk_result_text(const yk_config *c, const yk_result *r, char **out);
yk_status yk_result_profile(const yk_result *r, char **out);

/* "1.3 MB", with powers of 1000. Returns `text`. */
const char *yk_bytes_text(double bytes, char text[static 24]);

/* lib/child_job.c: runs the program yoke, for jobs of several processes. */

/* The last line that begins with '{' in a file; NULL: there is none. The caller frees it. */
char *yk_last_object(FILE *f);

/* Starts the program with arguments (yk_arena_texts()). Its stdin is empty, its stderr is `err`, and its stdout is a file in memory, *out, which the caller
 * closes. It gets SIGTERM when this process ends (YK_PARENT). */
yk_status yk_child_start(const char *program, char *const *argv, int err, FILE **out, pid_t *pid_out);

yk_status yk_child_job(const yoke_training *t, const yk_config *config, char **summary_out);

#endif
