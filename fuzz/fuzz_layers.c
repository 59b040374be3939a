/* Arbitrary text as a model: a layer list, a sum of branches, or an error; never a crash. The first bytes are the shape of the
 * data. */
#include "input.h"

#include "model/model.h"
#include <string.h>

enum { BATCH = 16 };

static void inspect(const yk_model *m)
{
    yk_layer_line line[YK_MAX_LINES];
    size_t floats = 0;
    for (int i = 0; i < m->ntensors; i++) {
        size_t size = 1;
        for (int r = 0; r < m->tensor[i].rank; r++)
            size *= m->tensor[i].shape[r];
        if (!size || size != m->tensor[i].size || m->tensor[i].group >= m->ngroups || !*m->tensor[i].name)
            abort();
        floats += size;
    }
    if (floats > m->nparams || !m->outputs)
        abort();
    if (yk_model_describe(m, BATCH, line) > YK_MAX_LINES)
        abort();
    yk_text to = {0};
    if (m->ops->torch)
        m->ops->torch(m, &to);
    yk_text_fini(&to);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    if (size < 6)
        return 0;
    char *text = strndup((const char *)data + 5, size - 5);
    if (!text)
        abort();
    const bool image = data[0] & 1;
    yk_model_shape shape = {.kind = (yk_rows_kind)(data[0] / 2 % 3),
                            .dim = (size_t)1 + data[1] + (size_t)256 * data[2],
                            .classes = 1 + data[3] % 16,
                            .fields = data[4] % 40,
                            .bias = data[0] & 16,
                            .hashed = data[0] & 32,
                            .threads = 1};
    if (image) {
        shape.channels = 1 + data[1] % 3;
        shape.height = 1 + data[2] % 64;
        shape.width = 1 + data[4] % 64;
        shape.dim = shape.channels * shape.height * shape.width;
    }
    yk_model *m;
    const yk_status st = yk_model_create(text, &shape, &m);
    if (st && !*yk_error())
        abort();
    if (!st) {
        inspect(m);
        yk_model_free(m);
    }
    free(text);
    return 0;
}
