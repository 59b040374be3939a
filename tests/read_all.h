/* Reads a whole source into rows, for tests of sources. */
#ifndef YK_TESTS_READ_ALL_H
#define YK_TESTS_READ_ALL_H

#include "scratch.h"

#include "data/source.h"

static inline yk_source *open_well(const char *spec, yk_split split)
{
    yk_source *s;
    if (yk_source_open(spec, split, NULL, &s))
        fail_msg("%s", yk_error());
    return s;
}

/* Reads all blocks one after the other, `step` examples at a time. */
static inline yk_status read_all(const char *spec, const yk_source_options *o, size_t step, yk_rows *rows,
                                 uint64_t *bad_out)
{
    yk_source *s;
    yk_status st = yk_source_open(spec, YK_SPLIT_TRAIN, o, &s);
    if (st)
        return st;
    yk_rows_init(rows, s->kind, s->dim);
    for (size_t b = 0; b < s->nblocks && !st; b++) {
        yk_reader *r = NULL;
        size_t got = 1;
        if ((st = yk_source_read(s, b, &r)))
            break;
        while (got && !(st = yk_reader_next(r, rows, step, &got)))
            assert_true(got <= step);
        yk_reader_free(r);
    }
    if (bad_out)
        *bad_out = atomic_load(&s->bad);
    yk_source_free(s);
    return st;
}

/* The directory of real data; skips the test without one. */
static inline const char *data_directory(void)
{
    const char *where = getenv("YK_DATA");
    if (!where) {
        print_message("skipped: YK_DATA is not a directory with criteo-tfr-tiny and mnist\n");
        skip();
    }
    return where;
}

#endif
