#include "data/feed_reader.h"

enum { READ_CHUNK = 256, STRIPE = 64 };

static uint64_t blocks_of(const yk__stream_reader *r)
{
    const yk__streams_division *d = r->division;
    uint64_t n = d->data->source->nblocks, streams = (uint64_t)d->plan->workers;
    return d->by_block ? (n + streams - 1 - (uint64_t)r->number) / streams : n;
}

/* The current block of a stream, as its number in the order of the epoch. */
static uint64_t block_number(const yk__stream_reader *r)
{
    const yk__streams_division *d = r->division;
    return d->by_block ? r->at.ordinal * (uint64_t)d->plan->workers + (uint64_t)r->number : r->at.ordinal;
}

static bool used_earlier(const yk__stream_reader *r)
{
    const yk__streams_division *d = r->division;
    if (!d->earlier || r->at.epoch != d->earlier_epoch)
        return false;
    const uint64_t j = block_number(r);
    return j / d->earlier_workers < d->earlier[j % d->earlier_workers];
}

void yk__stream_close(yk__stream_reader *r)
{
    yk_reader_free(r->reader);
    r->reader = NULL;
    yk_rows_clear(&r->part);
    r->part_used = 0;
}

/* Opens the block at r->at.ordinal. */
static yk_status open_block(yk__stream_reader *r)
{
    const yk__streams_division *d = r->division;
    yk_source *source = d->data->source;
    if (r->order_epoch != r->at.epoch || !r->order.n) {
        r->order = yk_perm_make(source->nblocks, yk__epoch_seed(d->plan, r->at.epoch));
        r->order_epoch = r->at.epoch;
    }
    const uint64_t number = block_number(r);
    return yk_source_read(source, d->plan->in_order ? number : yk_perm_at(&r->order, number), &r->reader);
}

/* Makes sure that part[part_used] is the record at r->at.record of the open block; *end_out when there is none. */
static yk_status next_part(yk__stream_reader *r, bool *end_out)
{
    size_t got = 1;
    *end_out = false;
    while (r->part_used >= r->part.n) {
        yk_rows_clear(&r->part);
        r->part_used = 0;
        yk_status st = yk_reader_next(r->reader, &r->part, READ_CHUNK, &got);
        if (st)
            return st;
        if (got == 0) {
            *end_out = true;
            return YK_OK;
        }
    }
    return YK_OK;
}

/* Skips to record number `record` of the block that was just opened. */
static yk_status skip_records(yk__stream_reader *r, uint64_t record)
{
    bool end = false;
    while (record) {
        yk_status st = next_part(r, &end);
        if (st || end)
            return st;
        size_t step = r->part.n - r->part_used;
        step = step < record ? step : (size_t)record;
        r->part_used += step;
        record -= step;
    }
    return YK_OK;
}

/* The owner of the first stripe of a block changes from epoch to epoch, so that every worker gets examples. */
static bool is_assigned(const yk__stream_reader *r, uint64_t record)
{
    uint64_t stripe = record / STRIPE + r->at.epoch;
    return r->division->by_block || (int)(stripe % (uint64_t)r->division->plan->workers) == r->number;
}

static void next_block(yk__stream_reader *r)
{
    r->at = (yk__stream_cursor){r->at.epoch, r->at.ordinal + 1, 0};
}

yk_status yk__stream_read(yk__stream_reader *r, yk_rows *rows, bool *last_out)
{
    bool end;
    yk_status st = YK_OK;
    *last_out = r->at.ordinal >= blocks_of(r);
    if (*last_out)
        return YK_OK;
    if (!r->reader && used_earlier(r)) {
        next_block(r);
        return YK_OK;
    }
    if (!r->reader && ((st = open_block(r)) || (st = skip_records(r, r->at.record))))
        return st;
    if ((st = next_part(r, &end)))
        return st;
    if (end) {
        yk__stream_close(r);
        next_block(r);
        return YK_OK;
    }
    size_t n = 0; /* consecutive records that all belong to this stream, or all do not */
    const bool take = is_assigned(r, r->at.record);
    while (r->part_used + n < r->part.n && is_assigned(r, r->at.record + n) == take)
        n++;
    if (take && (st = yk_rows_append(rows, &r->part, r->part_used, n)))
        return st;
    r->part_used += n;
    r->at.record += n;
    return YK_OK;
}
