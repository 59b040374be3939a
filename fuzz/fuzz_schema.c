/* Any bytes as the schema of a model: it is rejected, or a table is read with it; never a crash. A schema that is accepted is
 * written and parsed again without a change. */
#include "input.h"

#include "data/schema.h"
#include <string.h>

static void read_table(const yk_schema *schema)
{
    static const char csv[] = "label,a,b\n1,2,x\n0,3,y\n1,-4.5,\n";
    const yk_source_options o = {.schema = schema->ncolumns ? schema : NULL,
                                 .images = schema,
                                 .unlabeled = true,
                                 .fields = YK_FIELDS_ALL};
    yk_source *s;
    yk_reader *r;
    yk_rows rows;
    size_t got;
    memory_put("/a.csv", csv, sizeof csv - 1);
    memory_put("/a.svm", "1 1:2 2:3\n0 |user a:2\n", 22);
    const bool vw = !strcmp(schema->format, "vw");
    if (yk_source_open(schema->ncolumns ? "csv:/a.csv"
                       : vw             ? "vw:/a.svm"
                                        : "libsvm:/a.svm",
                       YK_SPLIT_TEST, &o, &s))
        return;
    yk_rows_init(&rows, s->kind, s->dim);
    if ((s->kind == YK_ROWS_SPARSE || s->dim < 1 << 16) && !yk_source_read(s, 0, &r)) {
        if (!yk_reader_next(r, &rows, 10, &got) && got > 3)
            abort();
        yk_reader_free(r);
    }
    yk_rows_fini(&rows);
    yk_source_free(s);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    char *text = strndup((const char *)data, size);
    yk_schema *s, *again;
    if (!text)
        abort();
    memory_begin();
    if (!yk_schema_parse(text, "a model", &s)) {
        char *first = yk_schema_write(s), *second;
        if (yk_schema_parse(first, "a model", &again) || strcmp(first, second = yk_schema_write(again)))
            abort();
        read_table(s);
        yk_schema_free(again);
        yk_schema_free(s);
        free(first);
        free(second);
    }
    memory_end();
    free(text);
    return 0;
}
