/* Arbitrary bytes as a Parquet file: read or refused, never a crash; texts are within memory, codes within the texts. */
#include "input.h"

#include "format/parquet.h"

static volatile unsigned sum; /* so that the reads are not optimized away */

static void touch(const yk_parquet_values *v, size_t n)
{
    for (size_t i = 0; i < n; i++) {
        if (v->valid && v->valid[i] > 1)
            abort();
        if (v->valid && !v->valid[i])
            continue;
        if (v->code && v->code[i] >= v->texts)
            abort();
        if (v->code && v->text[v->code[i]].n)
            sum += (unsigned)v->text[v->code[i]].bytes[v->text[v->code[i]].n + 7];
    }
}

/* A few bytes can be a run of billions of equal values: at most a few thousand are read. */
static void read_group(const yk_parquet *f, size_t group, uint64_t first, const size_t *column, size_t n)
{
    yk_parquet_reader *r;
    const uint64_t rows = f->group[group].rows;
    if (first > rows || yk_parquet_read(f, group, column, n, first, rows - first, &r))
        return;
    size_t got = 1;
    for (int calls = 0; calls < 8 && got && !yk_parquet_next(r, &got); calls++)
        for (size_t i = 0; i < n && got; i++)
            touch(yk_parquet_values_of(r, i), got);
    yk_parquet_reader_free(r);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    const char *path = put_input(data, size);
    yk_parquet *f;
    if (yk_parquet_open(path, &f) == YK_OK) {
        size_t column[16], n = 0;
        for (size_t g = 0; g < f->ngroups && g < 3; g++)
            for (size_t i = 0; i < f->ncolumns && i < 16;
                 i++) /* alone, so that errors in one do not hide another */
                read_group(f, g, 0, &i, 1);
        for (size_t i = 0; i < f->ncolumns && n < 16; i++)
            if (!f->column[i].refused)
                column[n++] = i;
        if (f->ngroups && f->group[0].rows < 4000)
            read_group(f, 0, 3, column, n);
        yk_parquet_free(f);
    }
    memory_end();
    return 0;
}
