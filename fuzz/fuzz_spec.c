/* Arbitrary text as a data spec: a source, or an error; never a crash. There are files of some formats, which are valid and
 * small. The first byte selects the split. */
#include "input.h"

#include <string.h>

enum { MAX_EXAMPLES = 20, MAX_VALUES = 1 << 16 };

static void put_files(void)
{
    static const char csv[] = "label,a,b\n1,2,x\n0,3,y\n", libsvm[] = "1 1:1 7:0.5\n-1 3:1\n";
    static const char images[] = "\0\0\010\003\0\0\0\002\0\0\0\002\0\0\0\002abcdefgh",
                      labels[] = "\0\0\010\001\0\0\0\002\001\0";
    memory_put("/a.csv", csv, sizeof csv - 1);
    memory_put("/a.libsvm", libsvm, sizeof libsvm - 1);
    memory_put("/idx/train-images-idx3-ubyte", images, sizeof images - 1);
    memory_put("/idx/train-labels-idx1-ubyte", labels, sizeof labels - 1);
}

/* Reads a few examples. */
static void read_some(yk_source *s)
{
    yk_rows rows;
    yk_reader *r;
    size_t got;
    if ((s->kind != YK_ROWS_SPARSE && s->dim > MAX_VALUES) || !s->nblocks || yk_source_read(s, 0, &r))
        return;
    yk_rows_init(&rows, s->kind, s->dim);
    if (!yk_reader_next(r, &rows, MAX_EXAMPLES, &got) && (got > MAX_EXAMPLES || rows.n != got))
        abort();
    yk_reader_free(r);
    yk_rows_fini(&rows);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    if (size < 2)
        return 0;
    char *text = strndup((const char *)data + 1, size - 1);
    if (!text)
        abort();
    const yk_source_options options = {.fields = (yk_fields)(data[0] / 2 % 3)};
    yk_source *s = NULL;
    memory_begin();
    put_files();
    if (!yk_spec_is_stdin(text) &&
        !yk_source_open(text, data[0] & 1 ? YK_SPLIT_TEST : YK_SPLIT_TRAIN, &options, &s)) {
        read_some(s);
        yk_source_free(s);
    }
    memory_end();
    free(text);
    return 0;
}
