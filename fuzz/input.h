/* Helpers for the fuzzers: bytes as a file, reading whole sources, text formats.
 *
 *     const char *path = put_input(data, size);      // a file in memory (memory.h)
 *     snprintf(spec, sizeof spec, "idx:%s", path);
 *     st = read_all(source, 5, &rows);               // 5 examples at a time
 *     memory_end();
 *
 * Each fuzzer includes it once.
 */
#ifndef YK_FUZZ_INPUT_H
#define YK_FUZZ_INPUT_H

#include "base/log.h"
#include "data/source.h"
#include "memory.h"
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static inline const char *put_input(const uint8_t *data, size_t size)
{
    memory_begin();
    memory_put("/in/a", data, size);
    return "/in/a";
}

/* Reads block after block until the first error; initialises `rows`. */
static inline yk_status read_all(yk_source *s, size_t step, yk_rows *rows)
{
    yk_status st = YK_OK;
    yk_rows_init(rows, s->kind, s->dim);
    for (size_t b = 0; b < s->nblocks && !st; b++) {
        yk_reader *r;
        size_t got = 1;
        if ((st = yk_source_read(s, b, &r)))
            break;
        while (got && !(st = yk_reader_next(r, rows, step, &got)))
            for (size_t i = 0; s->ncarry && i < got; i++)
                if (strlen(yk_reader_cell(r, i, 0)) > (1u << 20))
                    abort();
        yk_reader_free(r);
    }
    return st;
}

/* Opens a source that skips bad records, whose readers have the texts of these columns; NULL: it was refused. */
static inline yk_source *open_source(const char *spec, uint64_t skip_bad, const char *carry)
{
    yk_source *s;
    const yk_source_options options = {.skip_bad = skip_bad, .fields = YK_FIELDS_STORED, .carry = carry};
    if (yk_source_open(spec, YK_SPLIT_TRAIN, &options, &s))
        return NULL;
    if (skip_bad > 3)
        atomic_store(&s->bad, 100); /* more than are reported by warnings */
    return s;
}

static inline uint64_t order_of(const yk_rows *rows, uint64_t k)
{
    return (uint64_t)rows->index[k] << 16 | (rows->field ? rows->field[k] : 0);
}

/* Rows from lines of text. Sparse ones have ascending indices (libffm: with fields) below the number of columns. The last byte also selects one of four
 * options, so that plain files are good seeds. */
static inline int fuzz_text(const char *format, const char *const options[4], const uint8_t *data,
                            size_t size)
{
    if (size < 1)
        return 0;
    char spec[96];
    uint8_t choice = data[size - 1];
    snprintf(spec, sizeof spec, "%s:%s%s", format, put_input(data, size), options[choice & 3]);
    static const char *const columns[] = {NULL, "*", "1,1", "2,1"};
    const char *carry = !strcmp(format, "vw")    ? "tag"
                        : !strcmp(format, "csv") ? columns[choice >> 5 & 3]
                                                 : NULL;
    yk_source *s = open_source(spec, (uint64_t)(choice >> 2) & 3, carry);
    yk_rows rows = {0};
    if (s)
        read_all(s, 5, &rows);
    for (size_t i = 0; i < rows.n; i++) {
        if (rows.label[i] < 0)
            abort();
        for (uint64_t k = rows.start ? rows.start[i] : 0; rows.start && k < rows.start[i + 1]; k++)
            if (rows.index[k] >= (s->dim ? s->dim : rows.dim) ||
                (k > rows.start[i] && order_of(&rows, k - 1) >= order_of(&rows, k)))
                abort();
    }
    if (s)
        yk_rows_fini(&rows);
    yk_source_free(s);
    memory_end();
    return 0;
}

#endif
