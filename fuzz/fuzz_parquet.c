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
    for (int calls = 0; calls < 64 && got && !yk_parquet_next(r, &got); calls++)
        for (size_t i = 0; i < n && got; i++)
            touch(yk_parquet_values_of(r, i), got);
    yk_parquet_reader_free(r);
}

/* As a source. Rows may be bad. */
static void read_rows(const char *path, unsigned choice)
{
    static const char *const options[] = {"label=flag", "label=1&categorical=2-&encode=onehot",
                                          "label=none&scale=standard&fields=1",
                                          "label=-1&numeric=1&missing=Rome,0"};
    char spec[96];
    snprintf(spec, sizeof spec, "parquet:%s?%s", path, options[choice & 3]);
    yk_source *s = open_source(spec, 5, choice & 4 ? "3,1,3" : NULL);
    yk_rows rows;
    if (!s)
        return;
    yk_rows_init(&rows, s->kind, s->kind == YK_ROWS_SPARSE ? 0 : s->dim);
    for (size_t b = 0; b < s->nblocks && b < 3; b++) {
        yk_reader *r;
        size_t got;
        if (yk_source_read(s, b, &r))
            break;
        for (int calls = 0; calls < 2 && !yk_reader_next(r, &rows, 300, &got); calls++)
            for (size_t i = 0; s->ncarry && i < got; i++)
                sum += (unsigned)strlen(yk_reader_cell(r, i, 2));
        yk_reader_free(r);
    }
    yk_rows_fini(&rows);
    yk_source_free(s);
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
        const bool few = f->rows < 4000; /* a pass over all rows takes time */
        yk_parquet_free(f);
        if (few)
            read_rows(path, data[size / 2]);
    }
    memory_end();
    return 0;
}
