/* Arbitrary bytes as the two files of an idx set: read or refused, never a crash. The first two bytes are the length of the
 * images file; the third may request matching labels, to reach more code. */
#include "input.h"

#include <string.h>

static volatile double sum; /* so that the reads are not optimised away */

static void read_set(uint64_t skip_bad)
{
    yk_rows rows;
    yk_source *s = open_source("idx:/in/images?labels=/in/labels", skip_bad, NULL);
    if (!s)
        return;
    if (read_all(s, 5, &rows) || rows.n != s->examples)
        abort();
    for (size_t i = 0; i < rows.n; i++)
        if (rows.label[i] < 0 || (uint32_t)rows.label[i] >= s->classes)
            abort();
    for (size_t i = 0; i < rows.n * rows.dim; i++)
        sum += rows.u8 ? rows.u8[i] : rows.f32[i];
    yk_rows_fini(&rows);
    yk_source_free(s);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    if (size < 3)
        return 0;
    size_t n = data[0] | (size_t)data[1] << 8, rest = size - 3;
    n = n < rest ? n : rest;
    uint8_t fit[8 + 3000] = {0, 0, 8, 1};
    memory_begin();
    memory_put("/in/images", data + 3, n);
    if (data[2] & 1 && n > 8 && n < 3000) {
        memcpy(fit + 4, data + 3 + 4, 4); /* one label per image */
        size_t many = (size_t)fit[6] << 8 | fit[7];
        memory_put("/in/labels", fit, 8 + (many < 3000 ? many : 3000));
    } else {
        memory_put("/in/labels", data + 3 + n, rest - n);
    }
    read_set(data[2] & 2 ? 3 : 0);
    memory_end();
    return 0;
}
