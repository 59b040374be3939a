#include "data/dataset.h"

#include "base/cgroup.h"
#include "base/clock.h"
#include "base/log.h"
#include "base/perm.h"
#include "base/sync.h"
#include "base/thread.h"
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { READ_AT_A_TIME = 4096 };

/* Memory that all rows would take, guessed from the files' size; compressed text grows about six-fold. */
static uint64_t estimate(const yk_source *s)
{
    if (s->examples)
        return s->examples * (s->kind == YK_ROWS_U8 ? s->dim : s->kind == YK_ROWS_F32 ? 4 * s->dim : 400);
    return s->bytes * 6;
}

/* ---- loading: threads read blocks, each waits for its turn to append ---- */

typedef struct {
    yk_source *source;
    yk_rows *rows; /* NULL: only count */
    yk_mutex lock;
    yk_cond turn;
    size_t next_block, next_append;
    yk_status status;
    char error[2048];
    double began, told;
    size_t dim, end; /* end: of the blocks to be read */
    int32_t most_label;
    uint64_t examples;
} loader;

/* Appends, or in a counting pass only looks at, what one block holds. The lock is held. */
static yk_status take(loader *l, const yk_rows *part)
{
    for (size_t i = 0; i < part->n; i++)
        l->most_label = part->label[i] > l->most_label ? part->label[i] : l->most_label;
    l->dim = part->dim > l->dim ? part->dim : l->dim;
    l->examples += part->n;
    return l->rows ? yk_rows_append(l->rows, part, 0, part->n) : YK_OK;
}

static void tell(loader *l)
{
    double now = yk_now();
    if (now - l->began > 1.0 && now - l->told > 0.2) {
        l->told = now;
        yk_progress("reading %s: %llu examples, %.0f %%", l->source->spec, (unsigned long long)l->examples,
                    100.0 * (double)l->next_append / (double)l->source->nblocks);
    }
}

static yk_status read_block(loader *l, size_t block, yk_rows *part)
{
    yk_reader *r;
    yk_rows_clear(part);
    yk_status st = yk_source_read(l->source, block, &r);
    if (st)
        return st;
    for (;;) {
        size_t got;
        if ((st = yk_reader_next(r, part, READ_AT_A_TIME, &got)) || got == 0)
            break;
        /* a compressed file is one block however large it is: hand over what there is when it is our turn anyway */
        if (part->n >= 16 * READ_AT_A_TIME) {
            yk_mutex_lock(&l->lock);
            if (l->next_append == block) {
                st = take(l, part);
                yk_rows_clear(part);
                tell(l);
            }
            yk_mutex_unlock(&l->lock);
            if (st)
                break;
        }
    }
    yk_reader_free(r);
    return st;
}

static void *load_thread(void *arg)
{
    loader *l = arg;
    yk_rows part;
    yk_rows_init(&part, l->source->kind, l->source->dim);
    yk_mutex_lock(&l->lock);
    while (!l->status && l->next_block < l->end) {
        size_t block = l->next_block++;
        yk_mutex_unlock(&l->lock);
        yk_status st = read_block(l, block, &part);
        yk_mutex_lock(&l->lock);
        while (!l->status && l->next_append != block)
            yk_cond_wait(&l->turn, &l->lock);
        if (!st && !l->status)
            st = take(l, &part);
        if (st && !l->status) {
            l->status = st;
            snprintf(l->error, sizeof l->error, "%s", yk_error());
        }
        l->next_append = block + 1;
        tell(l);
        yk_cond_broadcast(&l->turn);
    }
    yk_mutex_unlock(&l->lock);
    yk_rows_fini(&part);
    return NULL;
}

static _Thread_local yk_dataset_party party; /* simulated ranks have one each */

void yk_dataset_with(const yk_dataset_party *others)
{
    party = others ? *others : (yk_dataset_party){0};
}

/* Whether this process reads a part only; what is generated is not worth sending. */
static bool shared(const yk_source *s, yk_split split)
{
    return party.parts > 1 && split == YK_SPLIT_TRAIN && s->bytes > 0;
}

/* What the others have read. */
static yk_status gather_parts(loader *l)
{
    yk_status st = party.gather(party.context, l->rows);
    l->dim = l->rows->dim;
    l->examples = l->rows->n;
    for (size_t i = 0; !st && i < l->rows->n; i++)
        l->most_label = l->rows->label[i] > l->most_label ? l->rows->label[i] : l->most_label;
    return st;
}

static yk_status load(yk_dataset *d, yk_split split, yk_rows *rows)
{
    enum { MOST = 16 };
    const bool part = rows && shared(d->source, split);
    loader l = {
        .source = d->source, .rows = rows, .began = yk_now(), .most_label = 0, .end = d->source->nblocks};
    if (part) {
        l.next_block = l.next_append = d->source->nblocks * (size_t)party.part / (size_t)party.parts;
        l.end = d->source->nblocks * ((size_t)party.part + 1) / (size_t)party.parts;
    }
    yk_mutex_init(&l.lock);
    yk_cond_init(&l.turn);
    int want = yk_cores() < MOST ? yk_cores() : MOST;
    want = d->source->nblocks < (size_t)want ? (int)d->source->nblocks : want;
    yk_thread thread[MOST];
    int started = 0;
    while (started + 1 < want && yk_thread_start(&thread[started], load_thread, &l) == 0)
        started++;
    load_thread(&l);
    while (started > 0)
        yk_thread_join(&thread[--started]);
    yk_mutex_destroy(&l.lock);
    yk_cond_destroy(&l.turn);
    yk_progress_end();
    if (l.status)
        return yk_fail(l.status, "%s", l.error);
    yk_status st = part ? gather_parts(&l) : YK_OK;
    if (st)
        return st;
    d->dim = l.dim > d->dim ? l.dim : d->dim;
    if ((uint32_t)l.most_label + 1 > d->classes)
        d->classes = (uint32_t)l.most_label + 1;
    d->examples = l.examples;
    return YK_OK;
}

/* Puts sparse rows into a random order, once, so that an epoch may visit them in groups of neighbours (feed_memory.c), which
 * the memory delivers a third faster than one by one. It takes the memory twice for a moment: where that is not to be had,
 * they stay as they are. */
static yk_status mix(yk_dataset *d)
{
    if (d->kind != YK_ROWS_SPARSE ||
        (double)yk_rows_bytes(&d->loaded) > yk_memory_available("/proc", "/sys") / 2.0)
        return YK_OK;
    yk_status st = yk_rows_mix(&d->loaded, 0x6d6978);
    d->mixed = !st;
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

yk_status yk_dataset_take(yk_source *s, yk_split split, yk_stream_choice stream, yk_dataset *out)
{
    yk_dataset *d = out;
    const char *spec = s->spec;
    yk_status st = YK_OK;
    *d = (yk_dataset){.source = s};
    d->kind = s->kind;
    d->dim = s->dim;
    d->classes = s->classes;
    d->examples = s->examples;
    const double room =
        0.4 * yk_memory_available("/proc", "/sys") / (double)(party.here > 1 ? party.here : 1);
    bool streamed = stream == YK_STREAM_ALWAYS || stream == YK_STREAM_SHAPE ||
                    (stream == YK_STREAM_AUTO && (double)estimate(s) > room);
    if (s->cached) {
        d->rows = s->cached;
    } else if (!streamed) {
        yk_rows_init(&d->loaded, s->kind, s->dim);
        d->rows = &d->loaded;
        st = load(d, split, &d->loaded);
        if (!st && split == YK_SPLIT_TRAIN)
            st = mix(d);
        yk_rows_finish(&d->loaded);
    } else if (stream == YK_STREAM_SHAPE) {
        return YK_OK;
    } else if (!d->dim) {
        yk_note("%s: reading it once to find the number of features; --features N saves this pass", spec);
        st = load(d, split, NULL);
    } else if (!d->classes && s->kind != YK_ROWS_SPARSE) {
        yk_note("%s: reading it once to find the number of classes; ?classes=N saves this pass", spec);
        st = load(d, split, NULL);
    }
    if (d->classes < 2)
        d->classes = 2;
    if (!st && d->rows && d->rows->n == 0)
        st = yk_fail(YK_EDATA, "%s: there are no examples in it", spec);
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

yk_status yk_dataset_sample(yk_dataset *d, size_t most, yk_rows *out)
{
    yk_rows_init(out, d->kind, d->dim);
    yk_status st = YK_OK;
    if (d->rows) {
        size_t n = d->rows->n < most ? d->rows->n : most;
        for (size_t i = 0; !st && i < n; i++)
            st = yk_rows_append(out, d->rows, i * d->rows->n / n, 1);
        return st;
    }
    yk_perm order = yk_perm_make(d->source->nblocks, 1);
    size_t blocks = d->source->nblocks < 32 ? d->source->nblocks : 32;
    for (size_t b = 0; !st && b < blocks; b++) {
        yk_reader *r;
        size_t got = 1, left = most / blocks + 1;
        if ((st = yk_source_read(d->source, yk_perm_at(&order, b), &r)))
            break;
        while (!st && got && left) {
            st = yk_reader_next(r, out, left < READ_AT_A_TIME ? left : READ_AT_A_TIME, &got);
            left -= got;
        }
        yk_reader_free(r);
    }
    return st;
}

yk_status yk_dataset_rename(yk_dataset *d, const yk_keymap *map)
{
    yk_status st = YK_OK;
    if (d->rows && d->source->read_only) {
        yk_rows_init(&d->loaded, d->kind, d->dim);
        st = yk_rows_append(&d->loaded, d->rows, 0, d->rows->n);
        d->rows = &d->loaded;
    }
    return st || !d->rows ? st : yk_keymap_rows(map, d->rows);
}

yk_status yk_dataset_check(const yk_dataset *d, const yk_rows *rows)
{
    for (size_t i = 0; i < rows->n; i++)
        if ((uint32_t)rows->label[i] >= d->classes)
            return yk_fail(
                YK_EDATA,
                "%s: there is an example of class %d, but the data was taken to have %u classes; without "
                "--features, or with --stream never, they are counted first",
                d->source->spec, rows->label[i], d->classes);
    if (rows->dim > d->dim)
        return yk_fail(YK_EDATA, "%s: index %zu does not fit %zu features; was the file changed in between?",
                       d->source->spec, rows->dim - 1, d->dim);
    return YK_OK;
}
