#include "data/dataset.h"

#include "base/cgroup.h"
#include "base/clock.h"
#include "base/log.h"
#include "base/mem.h"
#include "base/perm.h"
#include "base/sync.h"
#include "base/team.h"
#include "data/formats.h"
#include <stdio.h>
#include <stdlib.h>

enum { READ_CHUNK = 4096 };

/* Memory for all rows, estimated from the size of the files: compressed text grows about sixfold. */
static uint64_t estimate(const yk_source *s)
{
    if (s->examples)
        return s->examples * (s->kind == YK_ROWS_U8 ? s->dim : s->kind == YK_ROWS_F32 ? 4 * s->dim : 400);
    return s->files.bytes * 6;
}

/* ---- loading: threads read blocks in parallel, and append them in order */

typedef struct {
    yk_dataset *data; /* its columns, classes, fields and examples are counted */
    yk_rows *rows;    /* NULL: only counts */
    bool keep;        /* keeps the blocks instead of appending them to rows */
    yk_rows *kept;    /* [nkept] */
    size_t nkept, kept_cap;
    yk_scatter scatter; /* scatters: rows go to their places in random order as they are read */
    bool scatters, refused;
    yk_mutex lock;
    yk_cond appended;
    size_t next_block, next_append, end; /* end: of the range of blocks */
    bool failed;
    double began, reported;
} loader;

static void count_rows(loader *l, const yk_rows *rows)
{
    yk_dataset *d = l->data;
    const uint32_t fields = l->data->source->fields ? l->data->source->fields : yk_rows_count_fields(rows);
    int32_t largest = (int32_t)d->classes - 1;
    for (size_t i = 0; i < rows->n; i++)
        largest = rows->label[i] > largest ? rows->label[i] : largest;
    d->classes = (uint32_t)largest + 1;
    d->fields = fields > d->fields ? fields : d->fields;
    d->dim = rows->dim > d->dim ? rows->dim : d->dim;
    d->examples += rows->n;
}

/* Counts the rows of a block, and appends or keeps them. The lock is held. */
static yk_status append(loader *l, yk_rows *part)
{
    count_rows(l, part);
    enum { MAX_KEPT = 16384 }; /* a process may have 65,530 mappings, and each block has one or two */
    yk_rows *all = !l->keep ? l->rows : l->nkept == MAX_KEPT ? &l->kept[MAX_KEPT - 1] : NULL;
    if (!l->keep || all)
        return all ? yk_rows_append(all, part, 0, part->n) : YK_OK;
    if (YK_RESERVE(l->kept, l->kept_cap, l->nkept + 1, "a list of blocks"))
        return YK_ESYSTEM;
    l->kept[l->nkept++] = *part;
    yk_rows_init(part, part->kind, 0);
    return YK_OK;
}

static void report_progress(loader *l)
{
    double now = yk_now();
    if (now - l->began > 1.0 && now - l->reported > 0.2) {
        l->reported = now;
        yk_progress("reading %s: %llu examples, %.0f %%", l->data->source->spec,
                    (unsigned long long)l->data->examples,
                    100.0 * (double)l->next_append / (double)l->data->source->nblocks);
    }
}

/* Puts rows that were read, from row number `row` on, to their places. */
static void scatter(loader *l, yk_rows *part, uint64_t row)
{
    const bool ok =
        row + part->n <= l->data->source->examples && yk_scatter_put(&l->scatter, part, (size_t)row);
    yk_mutex_lock(&l->lock);
    count_rows(l, part);
    l->refused |= !ok;
    report_progress(l);
    yk_mutex_unlock(&l->lock);
    yk_rows_clear(part);
}

static yk_status read_block(loader *l, size_t block, yk_rows *part)
{
    enum { LARGE = 16 * READ_CHUNK };
    const uint64_t mean = l->data->source->examples / l->data->source->nblocks + 1;
    uint64_t row = block * l->data->source->block_rows;
    yk_reader *r;
    yk_rows_clear(part);
    yk_status st = yk_source_read(l->data->source, block, &r);
    if (st)
        return st;
    for (;;) {
        size_t got;
        if ((st = yk_reader_next(r, part, READ_CHUNK, &got)) || got == 0)
            break;
        if (l->scatters) {
            scatter(l, part, row);
            row += got;
            continue;
        }
        if (l->keep && part->n == got)
            yk_rows_expect(part, mean < LARGE ? (size_t)mean : LARGE);
        /* A compressed file is one block, however large: if it is next in order, append what was read so far. */
        if (part->n >= LARGE) {
            yk_mutex_lock(&l->lock);
            if (l->next_append == block) {
                st = append(l, part);
                yk_rows_clear(part);
                report_progress(l);
            }
            yk_mutex_unlock(&l->lock);
            if (st)
                break;
        }
    }
    yk_reader_free(r);
    return st;
}

/* The error is that of the first bad block. */
static yk_status load_blocks(void *context, int me)
{
    (void)me;
    loader *l = context;
    yk_status st = YK_OK;
    yk_rows part;
    yk_rows_init(&part, l->data->source->kind, l->data->source->dim);
    yk_mutex_lock(&l->lock);
    while (!l->failed && l->next_block < l->end) {
        size_t block = l->next_block++;
        yk_mutex_unlock(&l->lock);
        st = read_block(l, block, &part);
        yk_mutex_lock(&l->lock);
        while (!l->failed && l->next_append != block)
            yk_cond_wait(&l->appended, &l->lock);
        if (!st && !l->failed)
            st = append(l, &part);
        st = l->failed ? YK_OK : st;
        l->failed |= st != YK_OK;
        l->next_append = block + 1;
        report_progress(l);
        yk_cond_broadcast(&l->appended);
    }
    yk_mutex_unlock(&l->lock);
    yk_rows_fini(&part);
    return st;
}

static _Thread_local yk_dataset_partition partition; /* per thread, because simulated ranks are threads */

void yk_dataset_set_partition(const yk_dataset_partition *others)
{
    partition = others ? *others : (yk_dataset_partition){0};
}

enum { SHUFFLE_SEED = 0x6d6978 };

/* Joins the blocks of sparse rows in random order, so that epochs can visit them in groups of neighbors (feed_memory.c): reading
 * them is a third faster than one by one. This needs a second copy for a moment; without enough memory for it the rows stay in
 * order. Frees the blocks. */
static yk_status join_shuffled(yk_dataset *d, yk_rows *block, size_t n)
{
    double bytes = 0.0;
    for (size_t b = 0; b < n; b++)
        bytes += (double)yk_rows_bytes(&block[b]);
    d->shuffled = bytes <= yk_memory_available("/proc", "/sys") / 2.0;
    yk_status st = d->shuffled ? yk_rows_shuffled_copy(block, n, SHUFFLE_SEED, &d->loaded) : YK_OK;
    for (size_t b = 0; b < n; b++) {
        if (!st && !d->shuffled)
            st = yk_rows_append(&d->loaded, &block[b], 0, block[b].n);
        yk_rows_fini(&block[b]);
    }
    if (d->loaded.dim < d->source->dim)
        d->loaded.dim = d->source->dim;
    return st;
}

/* Whether rows can go to their places as they are read: those of a frame, unless many cells are empty. Reads the first ones. */
static bool begin_scatter(yk_dataset *d, loader *l)
{
    yk_source *s = d->source;
    const size_t width = s->schema ? s->schema->numeric + s->schema->categories : 0;
    const double bytes = (double)(width + 1) * 8.0 * (double)s->examples;
    yk_rows some;
    yk_reader *r = NULL;
    size_t got = 0;
    if (!s->schema || !s->block_rows || !s->examples || s->part.on ||
        bytes > yk_memory_available("/proc", "/sys") / 2.0)
        return false;
    yk_rows_init(&some, s->kind, s->dim);
    yk_status st = yk_source_read(s, 0, &r);
    if (!st)
        st = yk_reader_next(r, &some, READ_CHUNK, &got);
    yk_reader_free(r);
    l->scatters = !st && got && some.start[got] * 4 >= got * width * 3 &&
                  !yk_scatter_init(&l->scatter, &some, (size_t)s->examples, width, SHUFFLE_SEED, &d->loaded);
    yk_rows_fini(&some);
    return l->scatters;
}

/* Reads blocks l->next_block to l->end - 1. */
static yk_status run_threads(loader *l)
{
    yk_mutex_init(&l->lock);
    yk_cond_init(&l->appended);
    l->data->fields = 0;
    l->data->examples = 0;
    const yk_status st = yk_team_once(yk_cores_for(l->data->source->nblocks), load_blocks, l);
    yk_mutex_destroy(&l->lock);
    yk_cond_destroy(&l->appended);
    yk_progress_end();
    return st;
}

/* Loads all rows, or only counts them. */
static yk_status load(yk_dataset *d, yk_split split, yk_rows *rows)
{
    /* Whether this process reads only a part. Generated data is cheaper to generate than to send. */
    const bool part = rows && partition.parts > 1 && split == YK_SPLIT_TRAIN && d->source->files.bytes > 0;
    const bool shuffled =
        rows && d->kind == YK_ROWS_SPARSE && split == YK_SPLIT_TRAIN && !d->source->options.in_order;
    loader l = {
        .data = d, .rows = rows, .keep = shuffled && !part, .began = yk_now(), .end = d->source->nblocks};
    if (part) {
        l.next_block = l.next_append = d->source->nblocks * (size_t)partition.part / (size_t)partition.parts;
        l.end = d->source->nblocks * ((size_t)partition.part + 1) / (size_t)partition.parts;
    }
    if (rows && !part && d->kind == YK_ROWS_F32)
        yk_rows_expect(rows, (size_t)d->source->examples);
    const loader again = l;
    bool scattered = l.keep && begin_scatter(d, &l);
    yk_status st = run_threads(&l);
    if (scattered && !st && (l.refused || d->examples != d->source->examples)) { /* rare */
        yk_rows_fini(rows);
        yk_rows_init(rows, d->kind, d->dim);
        l = again;
        scattered = false;
        st = run_threads(&l);
    }
    if (!st && part && !(st = partition.gather(partition.context, rows))) {
        d->examples = 0;
        count_rows(&l, rows);
    }
    if (!st && scattered) {
        yk_scatter_end(&l.scatter);
        rows->dim = d->source->dim;
        d->shuffled = true;
    } else if (!st && shuffled && part) {
        yk_rows all = *rows;
        yk_rows_init(rows, all.kind, 0);
        st = join_shuffled(d, &all, 1);
    } else if (!st && shuffled) {
        st = join_shuffled(d, l.kept, l.nkept);
        l.nkept = 0;
    }
    for (size_t b = 0; b < l.nkept; b++)
        yk_rows_fini(&l.kept[b]);
    free(l.kept);
    return st;
}

yk_status yk_dataset_open(const char *spec, yk_split split, const yk_source_options *options,
                          yk_stream_choice stream, yk_dataset *out)
{
    yk_source *s;
    *out = (yk_dataset){0};
    yk_status st = yk_source_open(spec, split, options, &s);
    return st ? st : yk_dataset_take(s, split, stream, out);
}

/* What has to be counted in a first pass over a stream, and the option that avoids it; NULL: nothing. */
static const char *find_unknown(const yk_dataset *d, const char **option_out)
{
    *option_out = !d->dim ? "--features N" : !d->fields ? "?nfields=N" : "?classes=N";
    if (!d->dim || !d->fields)
        return !d->dim ? "features" : "fields";
    return !d->classes && d->kind != YK_ROWS_SPARSE && !d->source->options.two_classes ? "classes" : NULL;
}

/* The model needs fields, but the rows have none. */
static yk_status refuse_fields(const yk_source *s, const char *why)
{
    return yk_fail(
        YK_EUSAGE,
        "%s: the model needs field numbers, but the data has none, and positions in the rows cannot be the "
        "fields: %s; %s",
        s->spec, why,
        s->parsed.text
            ? "use data with field numbers (libffm:), or add ?fields=position (rows that do not fit are "
              "errors; indices must not be hashed) or ?fields=one (all features in one field)"
            : "set `field` in yoke_csr (in Python, fields=), with zeros for a single field");
}

/* The rows of a file or of the caller are not changed: makes a copy of them. */
static yk_status copy_rows(yk_dataset *d)
{
    yk_rows_init(&d->loaded, d->kind, d->dim);
    const yk_status st = yk_rows_append(&d->loaded, d->rows, 0, d->rows->n);
    d->rows = &d->loaded;
    return st;
}

/* Numbers the fields of rows without field numbers, if the model needs them. All processes of a job have the same rows in
 * memory here, and so the same result. */
static yk_status number_fields(yk_dataset *d)
{
    const yk_source *s = d->source;
    size_t row = 0; /* not in messages: the rows are in random order */
    yk_status st = YK_OK;
    if (!s->positions || d->kind != YK_ROWS_SPARSE ||
        (!s->by_position && (d->rows ? d->rows->field != NULL : d->fields > 1)))
        return YK_OK; /* the data has its own */
    d->positional = true;
    if (!d->rows)
        return s->by_position ? YK_OK : refuse_fields(s, "streamed rows cannot be compared in advance");
    if (s->hashed_into)
        return refuse_fields(s, "the indices are hashed");
    if (d->rows != &d->loaded)
        st = copy_rows(d);
    if (!st && (st = yk_positions_number(s->positions, d->rows, &row)) == YK_EDATA) {
        char why[512];
        snprintf(why, sizeof why, "%s", yk_error());
        st = s->by_position ? yk_fail(YK_EDATA, "%s: %s", s->spec, why) : refuse_fields(s, why);
    }
    d->fields = (uint32_t)atomic_load(&s->positions->n);
    return st;
}

yk_status yk_dataset_take(yk_source *s, yk_split split, yk_stream_choice stream, yk_dataset *out)
{
    yk_dataset *d = out;
    const char *spec = s->spec;
    yk_status st = YK_OK;
    *d = (yk_dataset){.source = s,
                      .kind = s->kind,
                      .dim = s->dim,
                      .classes = s->classes,
                      .fields = s->fields,
                      .examples = s->examples};
    const char *option, *unknown = find_unknown(d, &option);
    const double limit =
        0.4 * yk_memory_available("/proc", "/sys") / (double)(partition.here > 1 ? partition.here : 1);
    const bool compares = s->positions && !s->by_position && s->fields < 2; /* number_fields() */
    const bool streamed =
        stream == YK_STREAM_ALWAYS || stream == YK_STREAM_SHAPE || (stream == YK_STREAM_COUNT && !compares) ||
        (stream != YK_STREAM_NEVER && ((double)estimate(s) > limit || (s->once && split == YK_SPLIT_TRAIN)));
    if (s->cached) {
        d->rows = s->cached;
        d->shuffled = s->mixed;
    } else if (s->caller && split == YK_SPLIT_TRAIN) {
        st = yk_rows_shuffled_copy(s->caller, 1, SHUFFLE_SEED, &d->loaded);
        d->rows = &d->loaded;
        d->shuffled = !st;
    } else if (!streamed) {
        yk_rows_init(&d->loaded, s->kind, s->dim);
        d->rows = &d->loaded;
        st = load(d, split, &d->loaded);
        yk_rows_finish(&d->loaded);
    } else if (stream == YK_STREAM_SHAPE) {
        return YK_OK;
    } else if (compares && s->fields) {
        st = number_fields(d);
    } else if (unknown && s->once) {
        st = yk_fail(YK_EUSAGE,
                     "%s: %s can be read only once, and the number of %s is not known in advance: add %s%s, "
                     "or --stream never to load it into memory",
                     spec, yk_source_once_name(s), unknown, option, d->dim ? "" : " or --hash-bits B");
    } else if (unknown) {
        yk_note("%s: reading all data once to find the number of %s; %s avoids this pass", spec, unknown,
                option);
        st = load(d, split, NULL);
    }
    if (d->classes < 2)
        d->classes = 2;
    if (!st && d->rows && d->rows->n == 0)
        st = yk__fail_empty(s);
    if (!st)
        st = number_fields(d);
    if (!d->fields)
        d->fields = 1;
    if (!st && d->rows && d->rows->n >= UINT32_MAX)
        st = yk_fail(YK_EUSAGE, "%s: %zu examples are too many to hold in memory; use --stream always", spec,
                     d->rows->n);
    if (!st && d->rows)
        d->examples = d->rows->n;
    if (st)
        yk_dataset_fini(d);
    return st;
}

void yk_dataset_fini(yk_dataset *d)
{
    yk_rows_fini(&d->loaded);
    yk_source_free(d->source);
    *d = (yk_dataset){0};
}

bool yk_dataset_can_shuffle(const yk_dataset *d)
{
    const double here = partition.here > 1 ? partition.here : 1;
    if (d->shuffled || !d->rows || d->rows == &d->loaded || d->kind != YK_ROWS_SPARSE ||
        d->source->options.in_order)
        return d->shuffled;
    return (double)yk_rows_bytes(d->rows) <= yk_memory_available("/proc", "/sys") / 2.0 / here;
}

yk_status yk_dataset_shuffle(yk_dataset *d)
{
    if (d->shuffled)
        return YK_OK;
    yk_rows copy;
    yk_status st = yk_rows_shuffled_copy(d->rows, 1, SHUFFLE_SEED, &copy);
    if (!st) {
        yk_rows_fini(&d->loaded); /* they are in order if there was too little memory when they were loaded */
        d->loaded = copy;
        d->rows = &d->loaded;
        d->shuffled = true;
    }
    return st;
}

yk_status yk_dataset_sample(yk_dataset *d, size_t max, yk_rows *out)
{
    yk_rows_init(out, d->kind, d->dim);
    yk_status st = YK_OK;
    if (d->source->once && !d->rows)
        return YK_OK; /* a sample would be lost for training */
    if (d->rows) {
        size_t n = d->rows->n < max ? d->rows->n : max;
        for (size_t i = 0; !st && i < n; i++)
            st = yk_rows_append(out, d->rows, i * d->rows->n / n, 1);
        return st;
    }
    yk_perm order = yk_perm_make(d->source->nblocks, 1);
    size_t blocks = d->source->nblocks < 32 ? d->source->nblocks : 32;
    for (size_t b = 0; !st && b < blocks; b++) {
        yk_reader *r;
        size_t got = 1, left = max / blocks + 1;
        if ((st = yk_source_read(d->source, yk_perm_at(&order, b), &r)))
            break;
        while (!st && got && left) {
            st = yk_reader_next(r, out, left < READ_CHUNK ? left : READ_CHUNK, &got);
            left -= got;
        }
        yk_reader_free(r);
    }
    return st;
}

yk_status yk_dataset_remap_keys(yk_dataset *d, const yk_keymap *map)
{
    yk_status st = YK_OK;
    if (d->rows && d->rows != &d->loaded && d->source->read_only)
        st = copy_rows(d);
    return st || !d->rows ? st : yk_keymap_rows(map, d->rows);
}

yk_status yk_dataset_check(const yk_dataset *d, const yk_rows *rows)
{
    for (size_t i = 0; i < rows->n; i++)
        if ((uint32_t)rows->label[i] >= d->classes)
            return yk_fail(
                YK_EDATA, "%s: an example has class %d, but %u classes are expected; %s", d->source->spec,
                rows->label[i], d->classes,
                d->source->options.two_classes
                    ? "use --model softmax, or change the labels"
                    : "remove --features or use --stream never, so that classes are counted first");
    if (rows->dim > d->dim)
        return yk_fail(
            YK_EDATA,
            "%s: index %zu is out of range for %zu features: the file has changed since it was first read",
            d->source->spec, rows->dim - 1, d->dim);
    const uint32_t fields = yk_rows_count_fields(rows);
    if (rows->field && fields > d->fields)
        return yk_fail(
            YK_EDATA,
            "%s: field %u is out of range for %u fields: the file has changed since it was first read",
            d->source->spec, fields - 1, d->fields);
    return YK_OK;
}
