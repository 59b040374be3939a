/* Arbitrary bytes as a directory of CIFAR-10 files: examples or an error, never a crash. The first byte says how the rest is
 * used: as one or two files, plain or compressed by their content; or each byte is repeated 512 times, since a record has 3073
 * bytes. */
#include "input.h"

#include <string.h>

enum { REPEATED = 512, RECORD = 3073, MAX_BYTES = 1 << 16 };

static void read_split(yk_split split, uint64_t skip_bad)
{
    yk_source *s;
    yk_rows rows;
    const yk_source_options options = {.skip_bad = skip_bad};
    if (yk_source_open("cifar10:/in", split, &options, &s))
        return;
    const yk_status st = read_all(s, 3, &rows);
    if (!st && s->examples && !skip_bad && rows.n != s->examples)
        abort();
    for (size_t i = 0; i < rows.n; i++)
        if (rows.label[i] < 0 || rows.label[i] > 9 || rows.dim != RECORD - 1)
            abort();
    yk_rows_fini(&rows);
    yk_source_free(s);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    if (size < 2)
        return 0;
    const uint8_t how = *data++;
    size--;
    size_t n = size;
    uint8_t *file = malloc(MAX_BYTES + size);
    if (!file)
        abort();
    if (how & 1) {
        n = size * REPEATED < MAX_BYTES ? size * REPEATED : MAX_BYTES;
        for (size_t i = 0; i < n; i += REPEATED)
            memset(file + i, data[i / REPEATED], REPEATED);
    } else {
        memcpy(file, data, n);
    }
    const size_t cut = how & 2 ? n / 2 : n;
    memory_begin();
    memory_put("/in/data_batch_1.bin", file, cut);
    if (how & 2)
        memory_put("/in/data_batch_3.bin.gz", file + cut, n - cut);
    if (how & 4)
        memory_put("/in/test_batch.bin", file, n);
    read_split(YK_SPLIT_TRAIN, how >> 4);
    read_split(YK_SPLIT_TEST, how >> 4);
    memory_end();
    free(file);
    return 0;
}
