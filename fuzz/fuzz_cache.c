/* Arbitrary bytes as a binary cache: valid rows or an error. Half of the inputs get a
 * header with a valid checksum and file size, to reach the checks after these. */
#include "input.h"

#include "base/crc.h"
#include "format/cache.h"
#include <stddef.h>
#include <string.h>

static volatile double sink;

/* Reads everything that training reads. */
static void walk(const yk_rows *rows, uint32_t classes)
{
    double sum = 0.0;
    for (size_t i = 0; i < rows->n; i++) {
        if ((uint32_t)rows->label[i] >= classes)
            abort();
        sum += (rows->truth ? rows->truth[i] : 0.0f) + yk_rows_weight(rows, i) +
               (rows->target ? rows->target[i] : 0.0f);
        for (uint64_t k = 0; rows->u8 && k < rows->dim; k++)
            sum += rows->u8[i * rows->dim + k];
        for (uint64_t k = 0; rows->f32 && k < rows->dim; k++)
            sum += rows->f32[i * rows->dim + k];
        for (uint64_t k = rows->start ? rows->start[i] : 0; rows->start && k < rows->start[i + 1]; k++) {
            if (rows->index[k] >= rows->dim)
                abort();
            sum += rows->value ? rows->value[k] : 1.0f;
        }
    }
    sink = sum;
}

/* Gives the file a header with valid checksums, and perhaps valid array offsets. */
static void correct(uint8_t *file, size_t size, uint8_t choice)
{
    yk_cache_shape shape = {
        .arrays = (choice & 4 ? 1u << YK_ROWS_VALUE : 0) | (choice & 8 ? 1u << YK_ROWS_TRUTH : 0) |
                  (choice & 32 ? 1u << YK_ROWS_FIELD : 0) | (choice & 64 ? 1u << YK_ROWS_WEIGHT : 0) |
                  (choice & 128 ? 1u << YK_ROWS_TARGET : 0)};
    yk_cache_header *h = &shape.header;
    memcpy(h, file, sizeof *h);
    memcpy(h->magic, YK_CACHE_MAGIC, sizeof h->magic);
    h->version = h->version % 5 + 1;
    if (choice & 2) {
        h->kind %= 3;
        h->height = h->width = h->channels = 0;
        h->schema_size = choice & 16 ? h->schema_size % 256 + 1 : 0;
        if (yk__cache_layout("input", &shape))
            return;
        h->schema_crc = h->schema_size <= size ? yk_crc32c(file + size - h->schema_size, h->schema_size) : 0;
    }
    h->file_size = size;
    h->crc = yk_crc32c(h, offsetof(yk_cache_header, crc));
    h->more_crc = yk_crc32c(&h->weight, 2 * sizeof h->weight);
    memcpy(file, h, h->version >= 5 ? sizeof *h : YK_CACHE_HEADER);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    if (size < 1)
        return 0;
    uint8_t *copy = malloc(size);
    if (!copy)
        abort();
    memcpy(copy, data, size);
    uint8_t choice = data[size - 1]; /* at the end, so that valid files are good seeds */
    if ((choice & 1) && size >= sizeof(yk_cache_header))
        correct(copy, size, choice);
    const char *path = put_input(copy, size);
    yk_rows rows;
    yk_cache_shape shape;
    if (!yk_cache_map(path, &rows, &shape)) {
        walk(&rows, shape.header.classes);
        yk_rows_fini(&rows);
    }
    (void)yk_cache_verify(path);
    memory_end();
    free(copy);
    return 0;
}
