/* A trained model: its description and its parameters, in memory and as a model.safetensors file.
 *
 * Example:
 *     yk_trained *m;
 *     yk_status st = yk_trained_load("runs/a", &m);           // a run directory, a checkpoint, or a model file
 *     if (!st)
 *         st = yk_trained_save(m, ".", "copy.safetensors");
 *     yk_trained_release(m);
 *
 * The file has the tensors with the names and shapes of PyTorch, and metadata that describes the model. Its entry "schema"
 * has the schema of the data as JSON (data/schema.h), and "format_version" is "1"; a reader rejects newer versions. Files
 * without a version, as yoke 0.1.0 wrote them, are version 0; version 1 differs only in this field.
 *
 * A yk_trained is immutable and reference-counted: any thread may use it.
 */
#ifndef YK_TRAIN_TRAINED_H
#define YK_TRAIN_TRAINED_H

#include "base/status.h"
#include "core/keymap.h"
#include "data/schema.h"
#include "format/safetensors.h"
#include "model/model.h"
#include "store/local.h"
#include <stdatomic.h>

typedef struct {
    atomic_int references;
    char *name;        /* the value of --model */
    yk_schema *schema; /* of its data; NULL: not known (files of yoke 0.1 and 0.2) */
    yk_model *model;
    float *params; /* all groups in one block (yk_model_group_offset), indexed by the keys of the data */
    /* The state of the optimizer, if it was kept: */
    char *optimizer; /* as in checkpoints; NULL: none */
    uint64_t steps;
    float *
        state; /* the arrays of yk_checkpoint_arrays_of(), one after the other, indexed by the keys of the data */
} yk_trained;

yk_status yk_trained_load(const char *path, yk_trained **out);
/* The model file that yk_trained_load() reads; the caller frees it. */
yk_status yk_trained_file(const char *path, char **file_out);
yk_status yk_trained_save(const yk_trained *m, const char *dir, const char *name);

/* Takes the parameters from the store, which can then only be freed. `schema`: JSON, or NULL. `keymap`: how its keys were
 * remapped; NULL: they were not. */
yk_status yk_trained_take(const char *name, const char *schema, const yk_model *m, yk_local *store,
                          const yk_keymap *keymap, yk_trained **out);
/* Before others can use the model: adds the state of the optimizer, after `steps` steps. */
yk_status yk_trained_keep_state(yk_trained *m, yk_local *store, const yk_keymap *keymap, uint64_t steps);
/* Fills the weights of the store, before its first step, and the optimizer's state if `state`. YK_EUSAGE: the model, the shape of the
 * data or the optimizer differs. */
yk_status yk_trained_restore(const yk_trained *from, const char *name, const yk_model *m, yk_local *store,
                             const yk_keymap *keymap, bool state);

void yk_trained_retain(yk_trained *m);
void yk_trained_release(yk_trained *m); /* the last release frees it; NULL is fine */

/* ---- internal to train: the file ---- */

#define YK__MODEL_FORMAT 1 /* the version that is written, and the newest that is read */

/* A model file, or the state beside it. YK_EDATA: it is too new. The caller frees *out, even then. */
yk_status yk__model_open(const char *path, yk_safetensors **out);
/* params: [groups] */
yk_status yk__model_write(const char *dir, const char *file, const char *name, const char *schema,
                          const yk_model *m, float *const *params, uint64_t step);
yk_status yk__model_schema(const char *path, const yk_safetensors *s, yk_schema **out); /* *out NULL: none */
yk_status yk__model_read(const yk_safetensors *s, const yk_model *m, float *const *params);
/* The model in it. */
yk_status yk__trained_read(const char *path, const yk_safetensors *s, yk_trained **out);
/* What a model file contains. YK_EDATA: it is not a model. *name_out is borrowed from `s`. */
yk_status yk__model_info(const char *path, const yk_safetensors *s, const char **name_out,
                         yk_model_shape *shape_out);

#endif
