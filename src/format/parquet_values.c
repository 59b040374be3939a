/* The encodings of values in Parquet pages; see parquet.h. */
#include "format/arrow.h"
#include "format/parquet_internal.h"
#include "format/wire.h"

static yk_status too_few(void)
{
    return yk_fail(YK_EDATA, "the page has fewer values than its header says");
}

/* ---- runs and bit-packed groups
 *
 *     | n << 1: varint | value: ceil(width / 8) bytes |         n times the value
 *     | n << 1 | 1: varint | n * width bytes |                  8 n values of `width` bits, the lowest bits first
 */

static yk_status next_run(yk__pq_hybrid *h)
{
    uint64_t head;
    const uint8_t *p = yk__wire_varint(h->next, h->end, &head);
    if (!p)
        return too_few();
    const size_t left = (size_t)(h->end - p), bytes = (h->width + 7) / 8;
    h->packed = head & 1;
    h->run = head >> 1;
    h->bit = 0;
    h->data = p;
    if (!h->packed) {
        if (bytes > left)
            return too_few();
        h->value = yk__load32(p) & (uint32_t)(((uint64_t)1 << 8 * bytes) - 1);
        h->next = p + bytes;
        return YK_OK;
    }
    if (h->width == 0) { /* no bytes */
        h->run = h->run > UINT32_MAX ? UINT32_MAX : h->run * 8;
        h->next = p;
    } else if (h->run > left / h->width) { /* some writers omit the end of the last group */
        h->run = (uint64_t)left * 8 / h->width;
        h->next = h->end;
    } else {
        h->next = p + h->run * h->width;
        h->run *= 8;
    }
    return YK_OK;
}

int64_t yk__pq_hybrid_same(yk__pq_hybrid *h, size_t n)
{
    while (!h->run)
        if (next_run(h))
            return -1;
    if (h->packed || h->run < n)
        return -1;
    h->run -= n;
    return h->value;
}

yk_status yk__pq_hybrid_read(yk__pq_hybrid *h, uint32_t *out, size_t n)
{
    const uint64_t mask = ((uint64_t)1 << h->width) - 1;
    const unsigned width = h->width;
    while (n) {
        if (!h->run && next_run(h))
            return YK_EDATA;
        const size_t k = h->run < n ? (size_t)h->run : n;
        if (h->packed) {
            for (size_t i = 0; i < k; i++) {
                const uint64_t bit = h->bit + i * width;
                out[i] = (uint32_t)(yk__load64(h->data + (bit >> 3)) >> (bit & 7) & mask);
            }
            h->bit += k * width;
        } else {
            for (size_t i = 0; i < k; i++)
                out[i] = h->value;
        }
        h->run -= k;
        out += k;
        n -= k;
    }
    return YK_OK;
}

/* ---- DELTA_BINARY_PACKED
 *
 *     | values of a block | parts of a block | values | first value: zigzag |      varints; then blocks of
 *     | smallest difference: zigzag varint | width of each part: 1 byte each | bit-packed differences to the smallest |
 */

yk_status yk__pq_delta_open(yk__pq_delta *d, const uint8_t *p, const uint8_t *end)
{
    uint64_t block, first;
    if (!(p = yk__wire_varint(p, end, &block)) || !(p = yk__wire_varint(p, end, &d->minis)) ||
        !(p = yk__wire_varint(p, end, &d->left)) || !(p = yk__wire_varint(p, end, &first)) || !d->minis ||
        block > 1 << 20 || block % d->minis || block / d->minis % 8 || !block)
        return yk_fail(YK_EDATA, "the header of the delta encoding is malformed");
    d->per_mini = block / d->minis;
    d->mini = d->minis;
    d->at = 0;
    d->last = first >> 1 ^ (0 - (first & 1));
    d->started = false;
    d->p = p;
    d->end = end;
    return YK_OK;
}

static yk_status next_block(yk__pq_delta *d)
{
    uint64_t v;
    const uint8_t *p = yk__wire_varint(d->p, d->end, &v);
    if (!p || (size_t)(d->end - p) < d->minis)
        return too_few();
    d->min_delta = v >> 1 ^ (0 - (v & 1));
    d->widths = p;
    d->p = p + d->minis;
    d->mini = 0;
    return YK_OK;
}

static inline uint64_t load_bits(const uint8_t *p, uint64_t bit, unsigned width)
{
    const unsigned shift = bit & 7;
    p += bit >> 3;
    uint64_t v = yk__load64(p) >> shift;
    if (shift + width > 64)
        v |= (uint64_t)p[8] << (64 - shift);
    return width < 64 ? v & (((uint64_t)1 << width) - 1) : v;
}

yk_status yk__pq_delta_read(yk__pq_delta *d, int64_t *out, size_t n)
{
    if (n > d->left)
        return too_few();
    d->left -= n;
    if (n && !d->started) {
        *out++ = (int64_t)d->last;
        d->started = true;
        n--;
    }
    while (n) {
        if (d->mini == d->minis && next_block(d))
            return YK_EDATA;
        const unsigned width = d->widths[d->mini];
        const uint64_t bytes = d->per_mini * width / 8;
        if (width > 64 || bytes > (size_t)(d->end - d->p))
            return too_few();
        const size_t k = d->per_mini - d->at < n ? (size_t)(d->per_mini - d->at) : n;
        for (size_t i = 0; i < k; i++) {
            d->last += d->min_delta + (width ? load_bits(d->p, (d->at + i) * width, width) : 0);
            out[i] = (int64_t)d->last;
        }
        d->at += k;
        if (d->at == d->per_mini) {
            d->p += bytes;
            d->mini++;
            d->at = 0;
        }
        out += k;
        n -= k;
    }
    return YK_OK;
}

/* ---- PLAIN */

yk_status yk__pq_plain_read(uint8_t physical, bool is_unsigned, const uint8_t **p, const uint8_t *end,
                            void *out, size_t n)
{
    const size_t width = physical == YK__PQ_INT32 || physical == YK__PQ_FLOAT ? 4 : 8;
    if ((size_t)(end - *p) / width < n)
        return too_few();
    const char narrow = physical == YK__PQ_FLOAT ? 'f' : is_unsigned ? 'I' : 'i';
    yk__arrow_convert(width == 8 ? 'l' : narrow, *p, 0, n, out);
    *p += n * width;
    return YK_OK;
}

yk_status yk__pq_plain_texts(const uint8_t **p, const uint8_t *end, yk_parquet_text *out, size_t n)
{
    const uint8_t *q = *p;
    for (size_t i = 0; i < n; i++) {
        if (end - q < 4)
            return too_few();
        const uint32_t length = yk__load32(q);
        if (length > (size_t)(end - q) - 4)
            return yk_fail(YK_EDATA, "a string extends beyond its page");
        out[i] = (yk_parquet_text){(const char *)q + 4, length};
        q += 4 + (size_t)length;
    }
    *p = q;
    return YK_OK;
}

void yk__pq_spread(void *values, size_t width, const uint8_t *valid, size_t n, size_t dense)
{
    uint64_t *v8 = values;
    uint32_t *v4 = values;
    for (size_t i = n; i-- > 0;) {
        dense -= valid[i];
        if (width == 8)
            v8[i] = valid[i] ? v8[dense] : 0;
        else
            v4[i] = valid[i] ? v4[dense] : 0;
    }
}
