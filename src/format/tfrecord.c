#include "format/tfrecord.h"

#include "base/crc.h"
#include "format/wire.h"
#include <stdio.h>
#include <string.h>

bool yk_tfr_header(const uint8_t *p, uint64_t *length_out)
{
    *length_out = yk__load64(p);
    return *length_out <= YK_TFR_MAX && yk__load32(p + 8) == yk_crc32c_masked(p, 8);
}

static void truncated(yk_tfr *rec, uint64_t needs, size_t have)
{
    rec->kind = YK_TFR_TRUNCATED;
    snprintf(rec->reason, sizeof rec->reason,
             "truncated: the record has %llu bytes, but the file ends after %zu", (unsigned long long)needs,
             have);
}

static void bad_length(yk_tfr *rec, const uint8_t *p)
{
    rec->kind = YK_TFR_BAD_LENGTH;
    if (yk__load32(p + 8) != yk_crc32c_masked(p, 8))
        snprintf(rec->reason, sizeof rec->reason,
                 "the checksum of the record's length is wrong (%08x in the file, %08x computed)",
                 yk__load32(p + 8), yk_crc32c_masked(p, 8));
    else
        snprintf(rec->reason, sizeof rec->reason, "a record of %llu bytes is longer than 2 GiB",
                 (unsigned long long)yk__load64(p));
}

/* The next record. Nothing is consumed. */
static yk_status look(yk_input *in, yk_tfr *rec)
{
    const uint8_t *p;
    size_t have;
    uint64_t length;
    rec->offset = in->offset;
    yk_status st = yk_input_peek(in, YK_TFR_HEADER, &p, &have);
    if (st)
        return st;
    if (have < YK_TFR_HEADER) {
        rec->kind = YK_TFR_END;
        if (have)
            truncated(rec, YK_TFR_FRAME, have);
        return YK_OK;
    }
    if (!yk_tfr_header(p, &length)) {
        bad_length(rec, p);
        return YK_OK;
    }
    const size_t whole = (size_t)length + YK_TFR_FRAME;
    if (have < whole && (st = yk_input_peek(in, whole, &p, &have)))
        return st;
    if (have < whole) {
        truncated(rec, whole, have);
        return YK_OK;
    }
    rec->data = p + YK_TFR_HEADER;
    rec->size = (size_t)length;
    const uint32_t stored = yk__load32(rec->data + length), computed = yk_crc32c_masked(rec->data, rec->size);
    rec->kind = stored == computed ? YK_TFR_RECORD : YK_TFR_BAD_DATA;
    if (stored != computed)
        snprintf(rec->reason, sizeof rec->reason,
                 "the checksum of the record's data is wrong (%08x in the file, %08x computed)", stored,
                 computed);
    return YK_OK;
}

yk_status yk_tfr_next(yk_input *in, yk_tfr *rec)
{
    const yk_status st = look(in, rec);
    if (!st && (rec->kind == YK_TFR_RECORD || rec->kind == YK_TFR_BAD_DATA))
        yk_input_skip(in, rec->size + YK_TFR_FRAME);
    return st;
}

/* By chance, one offset in 2^32 has a correct checksum of a length, and data may contain headers: the second checksum confirms
 * it. */
yk_status yk_tfr_is_record(yk_input *in, bool *here_out)
{
    yk_tfr rec;
    const yk_status st = look(in, &rec);
    *here_out = !st && rec.kind == YK_TFR_RECORD;
    return st;
}

yk_status yk_tfr_resync(yk_input *in, uint64_t limit, bool *found_out)
{
    *found_out = false;
    while (in->offset < limit) {
        const uint8_t *p;
        size_t have, i = 0;
        uint64_t length;
        yk_status st = yk_input_peek(in, YK_TFR_HEADER, &p, &have);
        if (st || have < YK_TFR_HEADER)
            return st;
        size_t candidates = have - YK_TFR_HEADER + 1;
        if (candidates > limit - in->offset)
            candidates = (size_t)(limit - in->offset);
        while (i < candidates && !yk_tfr_header(p + i, &length))
            i++;
        yk_input_skip(in, i);
        if (i == candidates)
            continue;
        if ((st = yk_tfr_is_record(in, found_out)) || *found_out)
            return st;
        yk_input_skip(in, 1);
    }
    return YK_OK;
}

yk_status yk_tfr_write(yk_file *file, const void *data, size_t size)
{
    if (size > YK_TFR_MAX)
        return yk_fail(YK_EDATA, "a TFRecord of %zu bytes is longer than 2 GiB", size);
    uint64_t length = size;
    uint8_t header[YK_TFR_HEADER];
    memcpy(header, &length, 8);
    uint32_t crc = yk_crc32c_masked(header, 8);
    memcpy(header + 8, &crc, 4);
    crc = yk_crc32c_masked(data, size);
    yk_status st = yk_file_write(file, header, sizeof header);
    if (!st)
        st = yk_file_write(file, data, size);
    return st ? st : yk_file_write(file, &crc, sizeof crc);
}
