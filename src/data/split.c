#include "data/split.h"

#include "base/mem.h"
#include "base/number.h"
#include "base/team.h"
#include "data/text.h"
#include <pthread.h>
#include <string.h>

yk_split_range yk_spec_split(yk_spec *spec)
{
    const char *text = yk_spec_text(spec, "split"), *dots = text ? strstr(text, "..") : NULL;
    char first[32] = "0";
    double begin, end;
    if (!text || spec->status)
        return (yk_split_range){0};
    const size_t n = dots ? (size_t)(dots - text) : 0;
    if (dots && n < sizeof first) {
        memcpy(first, text, n);
        first[n] = 0;
    }
    if (n < sizeof first && !yk_number_real(first, 0.0, 1.0, &begin) &&
        !yk_number_real(dots ? dots + 2 : text, 0.0, 1.0, &end) && begin < end)
        return (yk_split_range){true, begin, end};
    spec->status = yk_fail(YK_EUSAGE,
                           "%s: split=%s: must be a fraction of the rows, such as 0.9 for training and "
                           "0.9..1 for the other rows, or a range A..B with 0 <= A < B <= 1",
                           spec->text, text);
    return (yk_split_range){0};
}

bool yk_hold_out_parse(const char *text, yk_hold_out *out)
{
    static const char last[] = "last:";
    *out = (yk_hold_out){.last = !strncmp(text, last, sizeof last - 1)};
    return !yk_number_real(text + (out->last ? sizeof last - 1 : 0), 0.0, 1.0, &out->fraction) &&
           out->fraction > 0.0 && out->fraction < 1.0;
}

yk_status yk__split_hold_out(const yk_spec *spec, const yk_hold_out *h, yk_split_range *part)
{
    const double begin = part->on ? part->begin : 0.0, end = part->on ? part->end : 1.0,
                 border = end - (end - begin) * h->fraction;
    if (h->last && (part->on || yk_spec_text(spec, "split-by")))
        return yk_fail(
            YK_EUSAGE,
            "%s: --validation last:%g cannot be combined with split or split-by: use --validation %g",
            spec->text, h->fraction, h->fraction);
    if (h->fraction > 0.0)
        *part = (yk_split_range){true, h->held ? border : begin, h->held ? end : border, .ordered = h->last};
    return YK_OK;
}

static void set_order(yk_split_range *part, uint64_t rows)
{
    const double n = (double)rows;
    part->first = (uint64_t)(part->begin * n);
    part->last = part->end < 1.0 ? (uint64_t)(part->end * n) : rows;
}

uint64_t yk_split_of_text(const char *text, size_t n)
{
    uint64_t h = 0xcbf29ce484222325u; /* FNV-1a */
    for (size_t i = 0; i < n; i++)
        h = (h ^ (uint8_t)text[i]) * 0x100000001b3u;
    return yk_split_of_row(h);
}

/* ---- the numbers of rows */

typedef struct {
    yk_source *source;
    uint64_t *rows; /* [nblocks] */
    size_t end;     /* blocks to count */
    atomic_size_t next;
} counting;

static yk_status add_rows(void *sum, const yk_rows *rows, const yk_reader *r)
{
    (void)r;
    *(uint64_t *)sum += rows->n;
    return YK_OK;
}

static yk_status count_blocks(void *context, int me)
{
    (void)me;
    counting *c = context;
    const bool skips = c->source->options.skip_bad; /* only reading finds bad rows */
    yk_status st = YK_OK;
    size_t b;
    while (!st && (b = atomic_fetch_add(&c->next, 1)) < c->end) {
        yk_reader *r;
        uint64_t n = UINT64_MAX;
        if ((st = yk__reader_open(c->source, b, &r)))
            break;
        if (c->source->ops->parse && !skips)
            st = yk__text_count(r, &n);
        else if (r->at < r->end && !skips)
            n = r->end - r->at;
        if (!st && n == UINT64_MAX) {
            n = 0;
            st = yk__reader_each(r, yk__reader_next, add_rows, &n);
        }
        c->rows[b] = n;
        yk_reader_free(r);
    }
    return st;
}

/* The number of each row is known without reading. Bad rows of tables have no number. */
static bool is_numbered(const yk_source *s)
{
    return s->rows && s->block_rows && !(s->options.skip_bad && s->schema);
}

yk_status yk__split_number(yk_source *s, size_t block, uint64_t *row_out)
{
    static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER; /* rarely used: one for all sources */
    yk_status st = YK_OK;
    *row_out = block * s->block_rows;
    if (is_numbered(s) || (block == 0 && !s->part.ordered))
        return YK_OK;
    pthread_mutex_lock(&lock);
    if (!s->first_row) {
        /* The rows of the last block are needed only for the number of all rows. */
        counting c = {.source = s, .end = s->nblocks - !s->part.ordered};
        c.rows = yk_arena_alloc(&s->arena, s->nblocks, sizeof *c.rows, "numbers of rows");
        st = c.rows ? yk_team_once(yk_cores_for(s->nblocks), count_blocks, &c) : YK_ESYSTEM;
        uint64_t before = 0;
        for (size_t b = 0; !st && b < s->nblocks; b++) {
            const uint64_t n = c.rows[b];
            c.rows[b] = before;
            before += n;
        }
        if (!st && s->part.ordered)
            set_order(&s->part, before);
        s->first_row = st ? NULL : c.rows;
    }
    if (!st)
        *row_out = s->first_row[block];
    pthread_mutex_unlock(&lock);
    return st;
}

/* ---- reading */

yk_status yk__split_next(yk_reader *r, yk_rows *rows, size_t max, size_t *got_out)
{
    const yk_source *s = r->source;
    size_t got = 1;
    yk_status st = YK_OK;
    while (!st && got && !*got_out) {
        yk_rows_clear(&r->chunk);
        got = 0;
        if ((st = yk__reader_next(r, &r->chunk, max, &got)) ||
            (st = YK_RESERVE(r->kept, r->kept_cap, got, "the rows of a part")))
            break;
        for (size_t i = 0, end; !st && i < got; i = end) { /* runs of rows that are in the part */
            for (end = i; end < got && yk_split_has_row(&s->part, r->row + end);)
                r->kept[(*got_out)++] = (uint32_t)end++;
            st = yk_rows_append(rows, &r->chunk, i, end - i);
            end += end < got;
        }
        r->row += got;
        if (rows->kind == YK_ROWS_SPARSE && r->chunk.dim > rows->dim)
            rows->dim = r->chunk.dim; /* the columns are those of all rows */
    }
    return st;
}

void yk__split_apply(yk_source *s)
{
    uint64_t n = 0;
    if (s->part.ordered && s->examples && (!s->options.skip_bad || is_numbered(s)))
        set_order(&s->part, s->examples);
    for (uint64_t i = 0; i < s->examples; i++)
        n += yk_split_has_row(&s->part, i);
    s->examples = n;
    s->cached = NULL;
    s->read_only = false;
    s->caller = NULL;
}
