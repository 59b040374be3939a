#include "data/source.h"

#include "base/log.h"
#include "base/mem.h"
#include "base/number.h"
#include "base/rng.h"
#include "data/text.h"
#include "format/idx.h"
#include "format/input.h"
#include "format/tfrecord.h"
#include <inttypes.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#define SNIFF_BYTES ((size_t)64 << 10)
#define BAD_SHOWN   3                   /* skipped records that get a message each */
#define MAX_COUNT   ((uint64_t)4 << 30) /* beyond this offset, counting records for a message takes too long */

/* A new format is a file with a yk_source_ops (formats.h), and its name here. */
#define FORMATS(X)                                                                                           \
    X(idx)                                                                                                   \
    X(tfrecord) X(libsvm) X(libffm) X(vw) X(criteo) X(csv) X(parquet) X(cifar10) X(images) X(cache) X(synth)
#define DECLARE(name) extern const yk_source_ops yk__##name##_source;
#define ENTRY(name)   &yk__##name##_source,

FORMATS(DECLARE)
static const yk_source_ops *const formats[] = {FORMATS(ENTRY)};

#define NFORMATS (sizeof formats / sizeof formats[0])

/* `text_only`: those that can be read from standard input. */
static const char *known_formats(bool text_only, char *text, size_t size)
{
    size_t n = 0;
    for (size_t i = 0; i < NFORMATS && n < size; i++)
        if (formats[i]->parse || !text_only)
            n += (size_t)snprintf(text + n, size - n, "%s%s%s", n ? ", " : "",
                                  formats[i]->usage ? formats[i]->usage : formats[i]->name,
                                  formats[i]->usage ? "" : ":FILES");
    return text;
}

/* ---- detecting the format of a bare path */

/* `1 7:0.5 9:1`: a number, then index:value; libffm has field:index:value. The number is missing in data without labels.
 * NULL: neither. */
static const char *detect_line(const char *line)
{
    double x;
    uint64_t index;
    const char *first = line + strspn(line, " \t"), *at = yk_decimal(first, &x);
    if (!at || (*at != ' ' && *at != '\t' && *at != ':'))
        return NULL;
    at = yk_digits(*at == ':' ? first : at + strspn(at, " \t"), UINT64_MAX, &index);
    if (!at || *at != ':' || !(at = yk_decimal(at + 1, &x)))
        return NULL;
    return *at == ':' ? "libffm" : "libsvm";
}

/* The first line that is neither empty nor a comment decides. */
static const char *detect_text(char *text)
{
    for (char *save, *line = strtok_r(text, "\n", &save); line; line = strtok_r(NULL, "\n", &save)) {
        size_t tabs = 0;
        for (const char *p = line; *p; p++)
            tabs += *p == '\t';
        /* after the integers of criteo without labels: any table may have as many columns */
        const char *category = line;
        for (int integers = 13; tabs == 38 && integers; category++)
            integers -= *category == '\t';
        if (tabs == 39 || (tabs == 38 && !category[strspn(category, "0123456789abcdef\t\r")]))
            return "criteo";
        const char *name = detect_line(line);
        if (name)
            return name;
        if (line[strspn(line, " \t\r")] && *line != '#')
            return NULL;
    }
    return NULL;
}

static const char *detect_bytes(const uint8_t *p, size_t n)
{
    uint64_t length;
    if (n >= 8 && !memcmp(p, "YKCACHE1", 8))
        return "cache";
    if (n >= 4 && !memcmp(p, "PAR1", 4))
        return "parquet";
    if (n >= YK_TFR_HEADER && yk_tfr_header(p, &length))
        return "tfrecord";
    if (yk_idx_magic(p, n))
        return "idx";
    if (memchr(p, 0, n < SNIFF_BYTES ? n : SNIFF_BYTES))
        return NULL;
    n = n < SNIFF_BYTES ? n : SNIFF_BYTES;
    const size_t mark = yk__bom(p, n);
    char *text = strndup((const char *)p + mark, n - mark);
    const char *name = text ? detect_text(text) : NULL;
    free(text);
    return name;
}

static yk_status detect_file(const char *path, const char **name_out)
{
    static const char *const csv[] = {".csv", ".tsv", ".csv.gz", ".tsv.gz", ".csv.zst", ".tsv.zst", NULL},
                             *const vw[] = {".vw", ".vw.gz", ".vw.zst", NULL};
    yk_input *in;
    const uint8_t *p;
    size_t have;
    yk_status st = yk_input_open(path, 0, &in);
    if (st)
        return st;
    if (!(st = yk_input_peek(in, SNIFF_BYTES, &p, &have))) {
        char known[256];
        *name_out = detect_bytes(p, have);
        if (!*name_out && yk__has_suffix(path, csv))
            *name_out = "csv"; /* any text may be CSV: the name decides */
        if (!*name_out && yk__has_suffix(path, vw))
            *name_out = "vw";
        if (have == 0)
            st = yk_fail(YK_EDATA, "%s: is empty", in->path);
        else if (!*name_out)
            st = yk_fail(YK_EDATA, "%s: cannot detect the format from the content; specify it: %s", path,
                         known_formats(false, known, sizeof known));
    }
    yk_input_free(in);
    return st;
}

static yk_status detect(const char *where, const char **name_out)
{
    char *config = yk__path_join(where, "config.ini");
    const bool is_run = config && yk__is_directory(where) && access(config, F_OK) == 0;
    free(config);
    if (is_run)
        return yk_fail(YK_EUSAGE,
                       "%s: is a run directory, not data; yoke report %s shows the run, and yoke eval "
                       "--checkpoint %s --data SPEC evaluates its model",
                       where, where, where);
    for (size_t i = 0; i < NFORMATS; i++)
        if (formats[i]->has_directory && formats[i]->has_directory(where)) {
            *name_out = formats[i]->name;
            return YK_OK;
        }
    yk_files files;
    yk_status st = yk_files_find(where, &files);
    if (st)
        return st;
    st = detect_file(files.path[0], name_out);
    yk_files_fini(&files);
    return st;
}

static yk_status open_format(yk_spec *spec, const char *name, yk_split split, const yk_source_options *o,
                             yk_source **out)
{
    size_t i = 0;
    while (i < NFORMATS && strcmp(formats[i]->name, name))
        i++;
    char known[256];
    if (i == NFORMATS)
        return yk_fail(YK_EUSAGE, "%s: unknown data format %s; use one of: %s", spec->text, name,
                       known_formats(false, known, sizeof known));
    if (!formats[i]->parse && !strcmp(spec->where, YK_STDIN))
        return yk_fail(YK_EUSAGE,
                       "%s: standard input (-) is only for text formats (%s); a file named - is ./-",
                       spec->text, known_formats(true, known, sizeof known));
    return yk__source_create(formats[i], spec, split, o, out);
}

/* The next rows of formats that read one at a time. */
static yk_status next_rows(yk_reader *r, yk_rows *rows, size_t max, size_t *got_out)
{
    const yk_source_ops *ops = r->source->ops;
    const size_t first = rows->n;
    yk_status st = YK_OK;
    while (!st && !r->ended && rows->n < first + max)
        st = (ops->parse ? yk__text_row : ops->row)(r, rows);
    *got_out = rows->n - first;
    return st;
}

yk_status yk__source_create(const yk_source_ops *ops, yk_spec *spec, yk_split split,
                            const yk_source_options *o, yk_source **out)
{
    yk_source *s = calloc(1, ops->source_size ? ops->source_size : sizeof *s);
    if (!s)
        return yk_fail_memory(ops->source_size, "a data source");
    s->ops = ops;
    s->next = ops->next ? ops->next : next_rows;
    s->fields = 1;
    s->options = *o;
    s->split = split;
    yk_positions_init(&s->own_positions, 0);
    s->parsed = *spec; /* taken */
    s->spec = s->parsed.text ? s->parsed.text : ops->name;
    *spec = (yk_spec){0};
    s->part = yk_spec_split(&s->parsed);
    const bool divided = s->part.on;
    yk_status st =
        s->parsed.status ? s->parsed.status : yk__split_hold_out(&s->parsed, &o->hold_out, &s->part);
    if (!st && s->ops->options)
        st = yk_spec_check(&s->parsed, s->ops->options);
    if (s->part.on && s->ops->two_sets)
        s->split = YK_SPLIT_TRAIN;
    s->kept = yk_spec_kept(&s->parsed, s->ops->kept, &s->arena);
    if (!st && o->carry && !o->inspects && !ops->has_texts)
        st = yk_fail(YK_EUSAGE, "%s: %s data has no columns that could be added to predictions: %s", s->spec,
                     ops->name, o->carry);
    if (!st && !(st = s->arena.status))
        st = s->ops->open(s);
    if (!st && s->schema)
        s->class_names = &s->schema->classes;
    if (!st && s->part.on) {
        yk__split_apply(s);
        s->has_test &= !divided; /* of the whole data, not of this part */
    }
    if (st)
        yk_source_free(s);
    else
        *out = s;
    return st;
}

yk_status yk_source_open(const char *spec_text, yk_split split, const yk_source_options *options,
                         yk_source **out)
{
    static const yk_source_options none = {0};
    yk_spec spec;
    yk_status st = yk_spec_parse(spec_text, &spec);
    if (st)
        return st;
    const char *name = spec.format;
    const yk_schema *model = options ? options->images : NULL;
    if (!*name)
        st = detect(spec.where, &name);
    if (!st && model && model->options && !strcmp(model->format, name))
        st = yk_spec_inherit(&spec, model->options);
    if (!st)
        st = open_format(&spec, name, split, options ? options : &none, out);
    yk_spec_fini(&spec);
    if (st)
        yk_input_forget();
    return st;
}

void yk_source_free(yk_source *s)
{
    if (!s)
        return;
    if (s->ops->free)
        s->ops->free(s);
    yk_files_fini(&s->files);
    yk__names_fini(&s->names);
    yk_arena_free(&s->arena);
    yk_spec_fini(&s->parsed);
    yk_positions_fini(&s->own_positions);
    yk_free(s->bad_seen.slot);
    free(s);
    yk_input_forget();
}

yk_status yk__reader_open(yk_source *s, size_t block, yk_reader **out)
{
    const size_t least = s->ops->parse ? sizeof(yk_text_reader) : sizeof(yk_reader);
    yk_reader *r = calloc(1, s->ops->reader_size ? s->ops->reader_size : least);
    if (!r)
        return yk_fail_memory(s->ops->reader_size, "a reader");
    *r = (yk_reader){.source = s, .block = block, .at = block * s->block_rows};
    r->end = s->rows - r->at < s->block_rows ? s->rows : r->at + s->block_rows;
    yk_status st = s->ops->parse ? yk__text_reader_open(r) : YK_OK;
    if (!st && s->ops->reader_open)
        st = s->ops->reader_open(r);
    if (st)
        yk_reader_free(r);
    else
        *out = r;
    return st;
}

yk_status yk_source_read(yk_source *s, size_t block, yk_reader **out)
{
    uint64_t row = 0;
    yk_status st = s->part.on ? yk__split_number(s, block, &row) : YK_OK;
    if (st || (st = yk__reader_open(s, block, out)))
        return st;
    (*out)->row = row;
    yk_rows_init(&(*out)->chunk, s->kind, s->kind == YK_ROWS_SPARSE ? 0 : s->dim);
    return YK_OK;
}

yk_status yk__reader_next(yk_reader *r, yk_rows *rows, size_t max, size_t *got_out)
{
    r->ncells = r->texts.n = 0;
    const yk_status st = r->source->next(r, rows, max, got_out);
    return st ? st : r->texts.status;
}

yk_status yk_reader_next(yk_reader *r, yk_rows *rows, size_t max, size_t *got_out)
{
    *got_out = 0;
    yk_status st = (r->source->part.on ? yk__split_next : yk__reader_next)(r, rows, max, got_out);
    if (st ? st != YK_EDATA : *got_out > 0)
        return st;
    const yk_source *s = r->source;
    const yk_status changed = s->ops->reader_check ? s->ops->reader_check(r)
                              : r->in              ? yk_files_unchanged(&s->files, r->range->file, r->in)
                                                   : YK_OK;
    return changed ? changed : st; /* it may be the reason for a bad record */
}

void yk_reader_free(yk_reader *r)
{
    if (!r)
        return;
    if (r->source->ops->reader_close)
        r->source->ops->reader_close(r);
    yk_input_free(r->in);
    yk_arena_free(&r->arena);
    yk_rows_fini(&r->chunk);
    yk_text_fini(&r->texts);
    free(r->cell);
    free(r->kept);
    free(r);
}

/* Each block has its own rows, so that values other than 1 in one block do not make the next one store values. */
yk_status yk__reader_each(yk_reader *r, yk_next *next, yk_visitor *visit, void *context)
{
    enum { ROWS_CHUNK = 4096 };
    const yk_source *s = r->source;
    yk_rows rows;
    yk_status st = YK_OK;
    yk_rows_init(&rows, s->kind, s->kind == YK_ROWS_SPARSE ? 0 : s->dim);
    for (size_t got = 1; !st && got;) {
        yk_rows_clear(&rows);
        st = next(r, &rows, ROWS_CHUNK, &got);
        if (!st && got && visit)
            st = visit(context, &rows, r);
    }
    yk_rows_fini(&rows);
    return st;
}

yk_status yk_source_each(yk_source *s, yk_visitor *visit, void *context)
{
    yk_status st = YK_OK;
    for (size_t b = 0; b < s->nblocks && !st; b++) {
        yk_reader *r = NULL;
        if (!(st = yk_source_read(s, b, &r)))
            st = yk__reader_each(r, yk_reader_next, visit, context);
        yk_reader_free(r);
    }
    return st;
}

const char *yk_reader_cell(const yk_reader *r, size_t i, size_t k)
{
    return r->texts.s + r->cell[(r->source->part.on ? r->kept[i] : i) * r->source->ncarry + k];
}

const char *yk_reader_file(const yk_reader *r, size_t i)
{
    return r->source->ops->has_paths ? yk_reader_cell(r, i, 0) : NULL;
}

yk_status yk__carry_row(yk_reader *r)
{
    if (r->texts.status || YK_RESERVE(r->cell, r->cell_cap, r->ncells + r->source->ncarry, "cells"))
        return YK_ESYSTEM;
    r->ncells += r->source->ncarry;
    return YK_OK;
}

void yk__carry(yk_reader *r, size_t k, const char *text, size_t n)
{
    r->cell[r->ncells - r->source->ncarry + k] = r->texts.n;
    yk_text_put(&r->texts, text, n);
    yk_text_put(&r->texts, "", 1);
}

/* Formats of the same kind have the same features: columns by name, hashes of their own, or indices. */
static char kind_of_features(const char *format)
{
    return !strcmp(format, "csv") || !strcmp(format, "parquet") || !strcmp(format, "frame") ? 't'
           : !strcmp(format, "criteo")                                                      ? 'c'
           : !strcmp(format, "vw")                                                          ? 'v'
           : !strcmp(format, "cache") || !strcmp(format, "memory")                          ? 0
                                                                                            : 'i';
}

yk_status yk_source_fits(const yk_source *s, const char *format)
{
    const char here = kind_of_features(s->ops->name), there = format ? kind_of_features(format) : 0;
    return !here || !there || here == there
               ? YK_OK
               : yk_fail(YK_EUSAGE,
                         "%s: the model was trained on %s data, whose features are not those of %s", s->spec,
                         format, s->ops->name);
}

yk_schema yk_source_schema(const yk_source *s)
{
    yk_schema all = s->schema ? *s->schema : (yk_schema){.format = s->ops->name, .options = s->kept};
    if (s->class_names)
        all.classes = *s->class_names;
    if (s->height) {
        all.height = s->height;
        all.width = s->width;
        all.channels = s->channels;
        all.fit = s->fit;
    }
    return all;
}

yk_status yk_source_check_keys(const yk_source *s, const yk_source_options *given)
{
    const bool dense = s->kind != YK_ROWS_SPARSE;
    if (given->hash_bits && !s->hashed_into)
        return yk_fail(YK_EUSAGE, "--hash-bits %u has no effect: %s %s; leave it out", given->hash_bits,
                       s->spec, dense ? "has dense rows, without keys" : "has keys that are not hashed");
    if (given->features && (dense || (s->schema && !yk_schema_hashes(s->schema))))
        return yk_fail(YK_EUSAGE,
                       "--features %llu has no effect: %s has %s rows of %zu columns; leave it out",
                       (unsigned long long)given->features, s->spec, dense ? "dense" : "one-hot", s->dim);
    return YK_OK;
}

yk_status yk__fail_empty(const yk_source *s)
{
    return yk_fail(
        YK_EDATA, "%s: %s", s->spec,
        s->part.on
            ? "no rows are left in this part: choose a larger or smaller fraction (split, --validation)"
            : "no examples");
}

/* ---- bad records. Streamed data is read in every epoch and by several workers, but each bad record counts once. */

/* Counts a record if it is new and --skip-bad allows one more. *before_out: the count before; UINT64_MAX: it is not new. */
static yk_status count_bad(yk_source *s, const char *file, uint64_t offset, uint64_t *before_out)
{
    static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER; /* rarely used: one for all sources */
    uint64_t id = yk_mix64(offset + 1);
    for (const char *p = file; *p; p++)
        id = (id ^ (uint8_t)*p) * 0x100000001b3u;
    id = yk_mix64(id) | 1; /* not 0 */
    pthread_mutex_lock(&lock);
    const uint64_t n = atomic_load(&s->bad);
    const bool known = s->bad_seen.n && yk_schema_value_at(&s->bad_seen, id)->hash;
    bool is_new;
    yk_status st = YK_OK;
    *before_out = known ? UINT64_MAX : n;
    if (!known && n < s->options.skip_bad && !(st = yk_schema_value_add(&s->bad_seen, id, &is_new)))
        atomic_store(&s->bad, n + 1);
    pthread_mutex_unlock(&lock);
    return st;
}

bool yk_source_bad_numbered(const yk_source *s, uint64_t offset)
{
    const uint64_t skipped = atomic_load(&s->bad);
    return offset <= MAX_COUNT && (skipped < BAD_SHOWN || skipped >= s->options.skip_bad);
}

yk_status yk_source_bad(yk_source *s, const char *file, uint64_t record, uint64_t offset, const char *reason,
                        ...)
{
    char why[512], at[80] = "";
    va_list args;
    va_start(args, reason);
    vsnprintf(why, sizeof why, reason, args);
    va_end(args);
    if (record != UINT64_MAX)
        snprintf(at, sizeof at, "%s %" PRIu64 "%s", s->ops->record ? s->ops->record : "record", record,
                 offset == UINT64_MAX ? "" : " ");
    if (offset != UINT64_MAX)
        snprintf(at + strlen(at), sizeof at - strlen(at), "at byte %" PRIu64, offset);
    uint64_t before;
    yk_status st = count_bad(s, file, s->ops->by_number ? record : offset, &before);
    if (st || before == UINT64_MAX)
        return st;
    if (before < s->options.skip_bad) {
        if (before < BAD_SHOWN && !s->options.fit) /* they are read again */
            yk_warn("%s: %s: %s; skipped%s", file, at, why,
                    before + 1 == BAD_SHOWN ? " (more bad records are counted without a message)" : "");
        return YK_OK;
    }
    if (s->options.skip_bad == 0)
        return yk_fail(YK_EDATA, "%s: %s: %s (--skip-bad N skips up to N bad records)", file, at, why);
    return yk_fail(YK_EDATA, "%s: %s: %s (one more bad record than --skip-bad %" PRIu64 " allows)", file, at,
                   why, s->options.skip_bad);
}
