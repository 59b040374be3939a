/* The schema of a run: that of the run that it continues, or of its training data. The chief determines it and sends it to the
 * other processes, so that all of them read the data in the same way. */
#include "train/setup.h"

#include "base/log.h"
#include "train/checkpoint_dir.h"
#include "train/trained.h"
#include <stdlib.h>
#include <string.h>

/* ---- the run that this one continues */

/* The checkpoint that this run continues; NULL: none, or it cannot be read, which is reported later. */
static char *find_start(const yk_config *c)
{
    const yk_log *log = yk_log_get();
    const char *own = c->resume ? c->out : c->join;
    char *path = NULL;
    yk_log_set(NULL); /* warnings follow when the checkpoint is loaded */
    if (own)
        yk_checkpoint_find(own, &path);
    if (!path && c->warm_start && yk__checkpoint_require("", c->warm_start, false, &path))
        path = NULL;
    yk_log_set(log);
    return path;
}

/* Models without a schema, as yoke 0.2 wrote them, have the number of features that keys were hashed into. */
static void set_features(const yk_model_shape *shape, yk_source_options *o)
{
    if (shape->kind == YK_ROWS_SPARSE && shape->hashed && !o->features && !o->hash_bits)
        o->features = shape->dim;
}

static yk_status continue_schema(yk__trainer *t, yk_source_options *o)
{
    const yk_trained *start = t->caller->start;
    yk_model_shape shape = {0};
    char *path = start ? NULL : find_start(t->config);
    yk_status st = path ? yk__checkpoint_schema(path, &shape, &t->schema) : YK_OK;
    free(path);
    if (start && !start->schema)
        shape = start->model->shape;
    const yk_schema *s = start ? start->schema : t->schema;
    o->images = s;
    if (s && s->ncolumns)
        o->schema = s;
    else
        set_features(&shape, o);
    return st;
}

/* ---- all processes */

/* The schema as JSON, with what is known about images. */
static yk_status write_schema(yk__trainer *t)
{
    const yk_source *s = t->train.source;
    yk_schema all = s->schema ? *s->schema : (yk_schema){.format = (char *)yk_source_format(s)};
    char standardize[YK_STANDARDIZE_TEXT];
    yk_net_options_standardize_text(&t->model->shape.net, standardize);
    if (s->height) {
        all.height = s->height;
        all.width = s->width;
        all.channels = s->channels;
        all.fit = (char *)s->fit;
        all.standardize = standardize;
    }
    t->schema_text = yk_schema_write(&all);
    return t->schema_text ? YK_OK : yk_fail_memory(1000, "the schema");
}

yk_status yk__schema_keep(yk__trainer *t)
{
    return t->cluster.rank == 0 ? write_schema(t) : YK_OK;
}

static yk_status broadcast(yk__trainer *t, void *buf, size_t bytes)
{
    return yk_comm_broadcast(t->cluster.comm, buf, bytes, t->plan->startup_timeout, "the schema of the data");
}

/* From the chief to all. If the chief cannot open the data, the others find out why by themselves. */
static yk_status share_schema(yk__trainer *t, const yk_source *s)
{
    char *text = s && s->schema ? yk_schema_write(s->schema) : NULL;
    uint64_t bytes = text ? strlen(text) + 1 : 0;
    yk_startup_enter(t->cluster.startup, YK_STARTUP_WAITING, "");
    yk_status st = broadcast(t, &bytes, sizeof bytes);
    if (!st && bytes && !text && !(text = malloc(bytes)))
        st = yk_fail_memory(bytes, "the schema of the data");
    if (!st && bytes)
        st = broadcast(t, text, bytes);
    yk_startup_enter(t->cluster.startup, YK_STARTUP_BUSY, "loading the data");
    if (!st && bytes && t->cluster.rank != 0)
        st = yk_schema_parse(text, "the chief", &t->schema);
    free(text);
    return st;
}

yk_status yk__open_training(yk__trainer *t, const yk_memory_data *memory, yk_source_options *o,
                            yk_source **out)
{
    const bool alone = t->plan->alone || t->cluster.joined || t->caller->data,
               chief = alone || t->cluster.rank == 0;
    yk_source_options mine = *o;
    yk_status st = chief ? continue_schema(t, &mine) : YK_OK;
    *out = NULL;
    if (!st && chief)
        st = memory ? yk_source_from_memory(memory, &mine, out)
                    : yk_source_open(t->config->data, YK_SPLIT_TRAIN, &mine, out);
    if (!alone) {
        const yk_status shared = share_schema(t, *out);
        st = st ? st : shared;
    }
    if (st || chief || !t->plan->trains)
        return st;
    mine.schema = t->schema;
    mine.features = t->schema ? 0 : mine.features;
    return yk_source_open(t->config->data, YK_SPLIT_TRAIN, &mine, out);
}
