/* Arbitrary bytes as a safetensors file: opened or refused, never a crash; tensors are within the file. */
#include "input.h"

#include "format/safetensors.h"

static volatile unsigned sum; /* so that the reads are not optimised away */

static void touch(const yk_safetensors *s)
{
    for (size_t i = 0; i < s->n; i++) {
        const yk_tensor *t = &s->tensor[i];
        if (!yk_safetensors_find(s, t->name))
            abort();
        const uint8_t *bytes = t->data;
        for (uint64_t k = 0; k < t->bytes; k++)
            sum += bytes[k];
    }
    yk_safetensors_meta(s, "step");
    const yk_tensor *t;
    if (yk_safetensors_need(s, "a", YK_DTYPE_F32, 1, (uint64_t[]){1}, &t) == YK_OK && t->bytes != 4)
        abort();
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    const char *path = put_input(data, size);
    yk_safetensors *s;
    if (yk_safetensors_open(path, &s) == YK_OK) {
        touch(s);
        yk_safetensors_free(s);
    }
    memory_end();
    return 0;
}
