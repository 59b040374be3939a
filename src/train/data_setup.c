/* The data of a run: opens the training, test and validation sets, remaps the keys of sparse data, and creates the feed of the workers. */
#include "train/setup.h"

#include "base/text.h"
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* MIN_KEYS: a smaller table fits into a cache, and remapping gains nothing. */
enum { MIN_KEYS = 64, SAMPLE_ROWS = 1 << 15, MAX_HOT = 1 << 17 };

/* ---- the schema: that of the run that this one continues, or of its training data. The chief determines it and sends it to the
 * other processes, so that all of them read the data in the same way. */

yk_status yk__schema_keep(yk__trainer *t)
{
    const yk_source *s = t->train.source;
    if (t->cluster.rank != 0)
        return YK_OK;
    yk_schema all = yk_source_schema(s);
    char standardize[YK_STANDARDIZE_TEXT];
    yk_net_options_standardize_text(&t->model->shape.net, standardize);
    if (s->height)
        all.standardize = standardize;
    t->schema_text = yk_schema_write(&all);
    return t->schema_text ? YK_OK : yk_fail_memory(1000, "the schema");
}

/* The chief broadcasts how many features keys are hashed into (8 bytes), and the schema. If it cannot open the data, the other ranks
 * report their own errors. */
static yk_status broadcast_schema(yk__trainer *t, const yk_source *s, yk_key_space *keys)
{
    uint64_t hashed_into, bytes;
    yk_text message = {0};
    if (s) {
        const yk_schema plain = yk_source_schema(s);
        char *text = yk_schema_write(&plain);
        yk_text_put(&message, &s->hashed_into, sizeof hashed_into);
        if (text)
            yk_text_put(&message, text, strlen(text) + 1);
        free(text);
    }
    bytes = message.n;
    char *all = yk_text_take(&message);
    bytes = all ? bytes : 0;
    yk_startup_enter(t->cluster.startup, YK_STARTUP_WAITING);
    yk_status st = yk__broadcast(t, 0, 0, t->cluster.ranks, &all, &bytes, "the schema of the data");
    yk_startup_enter(t->cluster.startup, YK_STARTUP_BUSY);
    if (!st && t->cluster.rank != 0 && bytes > sizeof hashed_into)
        st = yk_schema_parse(all + sizeof hashed_into, "the chief", &t->schema);
    if (!st && bytes) {
        memcpy(&hashed_into, all, sizeof hashed_into);
        *keys = (yk_key_space){.features = hashed_into, .hash = hashed_into != 0};
    }
    free(all);
    return st;
}

static yk_status open_continued(yk__trainer *t, const yk_memory_data *memory, yk_source_options *o,
                                yk_source **out)
{
    const yk_trained *start = t->caller->start;
    const yk_status st = yk__warm_start_find(t);
    if (st)
        return st;
    o->images = start ? start->schema : t->schema;
    if (o->images && o->images->ncolumns)
        o->schema = o->images;
    else
        o->keys.features = t->start.features;
    return memory ? yk_source_from_memory(memory, o, out)
                  : yk_source_open(t->config->data, YK_SPLIT_TRAIN, o, out);
}

/* Opens the training data, from memory or by --data, with the schema that all processes use. *out is NULL on servers other than
 * the chief. */
static yk_status open_with_schema(yk__trainer *t, const yk_memory_data *memory, yk_source_options *o,
                                  yk_source **out)
{
    const bool alone = t->plan->alone || t->cluster.joined || t->caller->data,
               chief = alone || t->cluster.rank == 0;
    yk_source_options mine = *o;
    yk_key_space keys = {0};
    *out = NULL;
    yk_status st = chief ? open_continued(t, memory, &mine, out) : YK_OK;
    if (!alone) {
        const yk_status shared = broadcast_schema(t, *out, &keys);
        st = st ? st : shared;
    }
    if (st || chief || !t->plan->trains)
        return st;
    mine.images = t->schema;
    mine.schema = t->schema && t->schema->ncolumns ? t->schema : NULL;
    mine.features = mine.schema ? 0 : mine.features;
    mine.keys = mine.schema ? mine.keys : keys;
    return yk_source_open(t->config->data, YK_SPLIT_TRAIN, &mine, out);
}

/* ---- the data sets */

/* Uses sparse rows of the caller in place if that is faster: a copy takes longer than it saves, unless the rows must be shuffled or
 * their indices sorted. Several asynchronous workers need a copy, because their copies of hot keys depend on it. */
static yk_memory_data choose_in_place(const yk__trainer *t, const yk_memory_data *given)
{
    enum { MIN_ROWS = 1 << 14 };
    yk_memory_data m = *given;
    m.in_place |= m.rows.kind == YK_ROWS_SPARSE && m.ascending && m.mixed && m.rows.n >= MIN_ROWS &&
                  t->plan->workers == 1 && (m.rows.field || !t->description.needs_fields);
    return m;
}

/* A stream of the caller can be read only once. For several epochs or workers, its examples stay in memory. */
static yk_status choose_stream(const yk__trainer *t, yk_stream_choice *stream)
{
    if (t->plan->epochs == 1 && t->plan->workers == 1)
        return YK_OK;
    if (*stream == YK_STREAM_ALWAYS)
        return yk_fail(
            YK_EUSAGE,
            "the stream can be read only once: use --epochs 1 and --workers 1, or leave out --stream");
    *stream = YK_STREAM_NEVER;
    return YK_OK;
}

static const char *layout(const yk_dataset *d)
{
    return d->kind == YK_ROWS_SPARSE ? "sparse" : "dense";
}

static yk_stream_choice stream_choice(const yk__trainer *t)
{
    const yk_config *c = t->config;
    const char *s = c->stream ? c->stream : "auto";
    if (!t->plan->trains)
        return YK_STREAM_SHAPE; /* the workers read the data */
    return *s == 'n'     ? YK_STREAM_NEVER
           : s[1] == 'l' ? YK_STREAM_ALWAYS
           : c->dry_run  ? YK_STREAM_COUNT
                         : YK_STREAM_AUTO;
}

static yk_status open_training(yk__trainer *t, yk_source_options *o)
{
    const yk_memory_data *given = t->caller->data,
                         memory = given ? choose_in_place(t, given) : (yk_memory_data){0};
    yk_stream_choice stream = stream_choice(t);
    yk_source *s;
    yk__set_partition(t);
    yk_status st = open_with_schema(t, given ? &memory : NULL, o, &s);
    if (st || !s) /* a server, which gets all facts from the others */
        return st;
    if (s->once && o->hold_out.fraction > 0.0)
        st = yk_fail(YK_EUSAGE,
                     "--validation %s: %s can be read only once, so none of its rows can be held back: use "
                     "other data, or a file",
                     t->config->validation, yk_source_once_name(s));
    else if (!given)
        st = yk_source_check_keys(s, o);
    else if (s->once)
        st = choose_stream(t, &stream);
    if (st) {
        yk_source_free(s);
        return st;
    }
    if ((st = yk_dataset_take(s, YK_SPLIT_TRAIN, stream, &t->train)))
        return st;
    t->facts.opened = 1;
    t->facts.sparse = t->train.kind == YK_ROWS_SPARSE;
    return yk__plan(t);
}

/* Whether this process needs the sets that are evaluated. Processes with all parameters evaluate together, otherwise the chief
 * evaluates. A worker that joins needs their columns. */
static bool reads_evaluated_sets(const yk__trainer *t)
{
    return t->plan->whole || t->cluster.rank == 0 || t->cluster.joined;
}

/* The test set; NULL: none. */
static const char *test_spec(const yk__trainer *t)
{
    const yk_config *c = t->config;
    if (t->caller->test)
        return "memory";
    if (c->test)
        return strcmp(c->test, "none") ? c->test : NULL;
    return t->train.source->has_test ? c->data : NULL;
}

/* A server learns the number of columns from the set that is evaluated. */
static yk_status match(yk__trainer *t, const char *spec, yk_dataset *d)
{
    yk_dataset *train = &t->train;
    const bool sparse = d->kind == YK_ROWS_SPARSE;
    if (!t->plan->trains && !sparse && !train->dim)
        train->dim = d->dim;
    if (sparse != (train->kind == YK_ROWS_SPARSE) || (!sparse && d->dim != train->dim))
        return yk_fail(YK_EDATA, "%s: the rows (%s, %zu columns) do not match those of %s (%s, %zu columns)",
                       spec, layout(d), d->dim, t->config->data, layout(train), train->dim);
    if (d->classes > train->classes)
        train->classes = d->classes;
    d->classes = train->classes;
    return YK_OK;
}

/* "hashed into 1024 features" */
static const char *hashing(const yk_source *s, char text[64])
{
    snprintf(text, 64, s->hashed_into ? "hashed into %llu features" : "not hashed",
             (unsigned long long)s->hashed_into);
    return text;
}

/* Keys that are hashed differently would get the weights of other keys. */
static yk_status match_keys(const yk_source *s, const yk_source *train)
{
    char here[64], there[64];
    if (s->kind != YK_ROWS_SPARSE || s->hashed_into == train->hashed_into || s->may_have_hashes ||
        train->may_have_hashes)
        return YK_OK;
    return yk_fail(YK_EUSAGE,
                   "%s: the keys are %s, but those of the training data are %s: leave out bits and features",
                   s->spec, hashing(s, here), hashing(train, there));
}

/* A test or validation set. */
static yk_status open_evaluated(yk__trainer *t, const yk_memory_data *memory, const char *spec,
                                yk_source_options *o, int set)
{
    yk_dataset *out = &t->set[set].data;
    const yk_source *like = t->train.source;
    yk_schema images = yk_source_schema(like);
    images.options = like->kept;
    o->shape_only = false;
    o->schema = like->schema;
    o->images = &images;
    if (!like->schema && like->hashed_into)
        o->keys = (yk_key_space){.features = like->hashed_into, .hash = true};
    if (t->plan->trains && !t->train.positional) /* then the test data needs field numbers, too */
        o->positions = NULL;
    const yk_stream_choice stream = t->config->dry_run ? YK_STREAM_COUNT : YK_STREAM_AUTO;
    yk_source *s;
    yk_status st;
    if (!memory)
        st = yk_dataset_open(spec, YK_SPLIT_TEST, o, stream, out);
    else if (!(st = yk_source_from_memory(memory, o, &s)))
        st = yk_dataset_take(s, YK_SPLIT_TEST, stream, out);
    if (!st && !memory)
        st = yk_source_fits(out->source, like->ops->name);
    if (!st)
        st = match_keys(out->source, like);
    if (!st)
        st = match(t, spec, out);
    t->set[set].used = !st;
    return st;
}

static yk_status open_test(yk__trainer *t, const char *spec, const yk_source_options *like)
{
    yk_source_options o = *like;
    o.hold_out = (yk_hold_out){0};
    yk_status st = open_evaluated(t, t->caller->test, spec, &o, YK__TEST);
    const yk_rows *rows = t->set[YK__TEST].data.rows;
    if (st || !rows || !rows->truth)
        return st;
    st = yk_score_truth(rows, &t->result->best);
    t->result->best_known = !st;
    return st;
}

/* Rows of the training data that are held back, or other data. */
static yk_status open_validation(yk__trainer *t, const char *spec, const yk_source_options *like)
{
    yk_source_options o = *like;
    const bool part = o.hold_out.fraction > 0.0;
    const yk_memory_data *memory = part ? t->caller->data : t->caller->validation;
    o.hold_out.held = true;
    const yk_status st =
        open_evaluated(t, memory, part && !memory ? t->config->data : spec, &o, YK__VALIDATION);
    return st == YK_EDATA ? yk_fail(st, "--validation %s: %s", spec, yk_error()) : st;
}

static yk_status open_data(yk__trainer *t)
{
    const yk_config *c = t->config;
    yk_source_options o = {.skip_bad = (uint64_t)c->skip_bad,
                           .in_order = c->no_shuffle,
                           .hash_bits = (unsigned)c->hash_bits,
                           .features = (uint64_t)c->features,
                           .shape_only = !t->plan->trains,
                           .fields = t->description.needs_fields ? YK_FIELDS_ALL : YK_FIELDS_NONE,
                           .numbers = t->loss->numbers,
                           .two_classes = !t->loss->per_class,
                           .bits_from_rows = true,
                           .positions = &t->positions};
    const char *validation = yk_config_validation(c);
    if (validation)
        (void)yk_hold_out_parse(validation, &o.hold_out); /* else other data */
    yk_status st = open_training(t, &o);
    const char *test = st || !reads_evaluated_sets(t) ? NULL : test_spec(t);
    if (!st && test)
        st = open_test(t, test, &o);
    return !st && validation && reads_evaluated_sets(t) ? open_validation(t, validation, &o) : st;
}

yk_status yk__load_data(yk__trainer *t)
{
    yk_startup_enter(t->cluster.startup, YK_STARTUP_BUSY);
    yk_status st = open_data(t);
    if (!st && t->cluster.rank == 0 && !t->config->dry_run && !t->loss->numbers) /* the chief warns */
        st = yk_data_check_rows(t->train.rows, t->set[YK__TEST].data.rows, t->train.classes,
                                t->train.source->hashed_into, &t->data_check);
    yk_startup_enter(t->cluster.startup, YK_STARTUP_WAITING);
    return st;
}

size_t yk__columns_seen(const yk__trainer *t)
{
    size_t dim = t->train.dim;
    for (int i = 0; i < YK__SETS; i++)
        dim = t->set[i].data.dim > dim ? t->set[i].data.dim : dim;
    return dim;
}

static yk_status remap_sets(yk__trainer *t)
{
    yk_status st = yk_dataset_remap_keys(&t->train, &t->keymap);
    for (int i = 0; !st && i < YK__SETS; i++)
        st = t->set[i].used ? yk_dataset_remap_keys(&t->set[i].data, &t->keymap) : YK_OK;
    return st;
}

yk_status yk__sort_keys(yk__trainer *t)
{
    /* without copies, remapping the keys of a stream costs more than it gains */
    const bool copies = t->plan->staleness && t->plan->workers > 1;
    if (yk_model_keys(t->model) < MIN_KEYS || (!copies && !t->train.rows) || !t->plan->alone ||
        t->train.source->read_only)
        return YK_OK;
    const uint32_t max_hot = copies && t->model->ngroups > 1 ? 0 : MAX_HOT; /* local_hot.c */
    yk_rows sample;
    yk_status st = yk_dataset_sample(&t->train, SAMPLE_ROWS, &sample);
    if (!st)
        st = yk_keymap_make(&sample, t->train.rows, yk_model_keys(t->model), t->model->bias_key, max_hot,
                            &t->keymap);
    yk_rows_fini(&sample);
    if (st)
        return st;
    t->remap = &t->keymap;
    if (t->model->bias_key != UINT32_MAX)
        t->model->bias_key = yk_keymap_id(&t->keymap, t->model->bias_key);
    return remap_sets(t);
}

/* ---- the feed ---- */

/* feed.h: the next lease of examples. */
static yk_status lease(void *trainer, int worker, uint64_t *epoch, uint64_t *begin, uint64_t *end)
{
    yk__trainer *t = trainer;
    const int thread = worker - t->plan->first_worker;
    yk_lease next;
    uint64_t chunk_rows = 0,
             own = yk_feed_chunk_rows(t->feed) == t->plan->chunk_rows ? t->plan->chunk_rows : 0;
    yk_status st = yk_shards_lease(t->cluster.shards, thread, &next, &chunk_rows);
    if (!st && t->cluster.joined && !t->worker[thread].examples) /* the order of the job's examples */
        st = yk_feed_chunk_rows_set(t->feed, worker, chunk_rows);
    else if (!st && !t->cluster.joined && next.begin < next.end && chunk_rows != own)
        return yk_fail(
            YK_EUSAGE,
            "the job assigns examples in chunks of %llu, but this process reads them in chunks of %llu; all "
            "processes must run the same version of yoke on the same data",
            (unsigned long long)chunk_rows, (unsigned long long)own);
    *epoch = next.epoch;
    *begin = next.begin;
    *end = next.end;
    return st;
}

/* feed.h: at the end of an epoch of a stream. */
static yk_status next_stream(void *trainer, int worker, const uint64_t last[YK_CURSOR_SIZE], int *number,
                             uint64_t cursor[YK_CURSOR_SIZE])
{
    const yk__trainer *t = trainer;
    yk_shards *r = t->cluster.shards;
    const bool over = *number < 0 || cursor[0] >= t->plan->epochs;
    return over || yk_shards_orphans(r)
               ? yk_shards_stream(r, worker - t->plan->first_worker, last, number, cursor)
               : YK_OK;
}

static bool is_revoked(void *trainer, int worker)
{
    const yk__trainer *t = trainer;
    return yk_shards_revoked(t->cluster.shards, worker - t->plan->first_worker);
}

yk_status yk__make_feed(yk__trainer *t)
{
    const bool leased = t->plan->leases;
    const uint64_t seed = (uint64_t)t->config->seed;
    const yk_feed_plan plan = {.workers = t->plan->workers,
                               .batch = t->plan->batch,
                               .seed = yk__continues(t->caller) ? yk_mix64(seed + t->start.earlier) : seed,
                               .epochs = t->plan->epochs,
                               .steps = leased ? UINT64_MAX : t->plan->steps,
                               .in_order = t->config->no_shuffle,
                               .rounds = t->plan->lockstep,
                               .window_bytes = (size_t)t->config->shuffle_mb << 20,
                               .chunk_rows = (size_t)t->plan->chunk_rows,
                               .keymap = t->remap,
                               .phases = t->phases,
                               .first = t->plan->first_worker,
                               .lease = leased ? lease : NULL,
                               .next_stream = leased && t->plan->survives_loss ? next_stream : NULL,
                               .revoked = leased ? is_revoked : NULL,
                               .lease_context = t};
    return !t->plan->trains ? YK_OK : yk_feed_create(&t->train, &plan, &t->feed);
}
