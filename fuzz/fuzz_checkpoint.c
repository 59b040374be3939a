/* Arbitrary bytes as a checkpoint: its description and its parameters, or an error; never a crash.
 *
 * The input is split at zero bytes into the headers of model.safetensors and state.safetensors; the rest is the data of both.
 * DONE has valid checksums, because no fuzzer guesses them. */
#include "input.h"

#include "base/crc.h"
#include "train/checkpoint.h"
#include "train/trained.h"
#include <inttypes.h>
#include <string.h>

enum { MAX_FLOATS = 1 << 16 };

typedef struct {
    uint8_t *bytes;
    size_t size;
} built;

static built build(const uint8_t *header, size_t n, const uint8_t *data, size_t size)
{
    built f = {malloc(8 + n + size), 8 + n + size};
    const uint64_t length = n;
    if (!f.bytes)
        abort();
    memcpy(f.bytes, &length, 8);
    memcpy(f.bytes + 8, header, n);
    memcpy(f.bytes + 8 + n, data, size);
    return f;
}

static void load(void)
{
    char *path;
    yk_checkpoint_info info;
    if (yk_checkpoint_find("/ck", &path) || !path)
        abort();
    free(path);
    if (yk_checkpoint_describe("/ck", &info))
        return;
    yk_model *m;
    yk_trained *t;
    if (!yk_model_create(info.model, &info.shape, &m)) {
        const size_t floats = m->nparams;
        yk_model_free(m);
        if (floats <= MAX_FLOATS && !yk_trained_load("/ck", &t))
            yk_trained_release(t);
    }
    free(info.model);
}

/* Next part of the input, up to a zero byte. */
static size_t next_part(const uint8_t **data, size_t *size, const uint8_t **part_out)
{
    const uint8_t *end = *size ? memchr(*data, 0, *size) : NULL;
    const size_t n = end ? (size_t)(end - *data) : *size;
    *part_out = *data;
    *data += n + (end != NULL);
    *size -= n + (end != NULL);
    return n;
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    char done[200];
    const uint8_t *header[2];
    built file[2];
    const size_t first = next_part(&data, &size, &header[0]), second = next_part(&data, &size, &header[1]);
    file[0] = build(header[0], first, data, size);
    file[1] = build(header[1], second, data, size);
    const int n = snprintf(done, sizeof done, "model.safetensors %zu %08x\nstate.safetensors %zu %08x\n",
                           file[0].size, yk_crc32c(file[0].bytes, file[0].size), file[1].size,
                           yk_crc32c(file[1].bytes, file[1].size));
    memory_begin();
    memory_put("/ck/model.safetensors", file[0].bytes, file[0].size);
    memory_put("/ck/state.safetensors", file[1].bytes, file[1].size);
    memory_put("/ck/DONE", done, (size_t)n);
    load();
    memory_end();
    free(file[0].bytes);
    free(file[1].bytes);
    return 0;
}
