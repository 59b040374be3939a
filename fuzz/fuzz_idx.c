/* Any bytes as the two files of an idx set: read or refused, never a crash. The first two bytes are the length of the
 * images' file, the third may ask for labels that fit, so that the reading goes further. */
#include "data/source.h"

#include <stdint.h>
#include <stdio.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static volatile double sum; /* so that the reads are not optimised away */

static int file_of(const uint8_t *data, size_t size)
{
    int fd = memfd_create("fuzz", MFD_CLOEXEC);
    if (fd >= 0 && write(fd, data, size) != (ssize_t)size) {
        close(fd);
        return -1;
    }
    return fd;
}

static void read_set(int images, int labels, uint64_t skip_bad)
{
    char spec[120];
    yk_source *s;
    snprintf(spec, sizeof spec, "idx:/proc/self/fd/%d?labels=/proc/self/fd/%d", images, labels);
    if (yk_source_open(spec, YK_SPLIT_TRAIN, &(yk_source_options){.skip_bad = skip_bad}, &s))
        return;
    yk_reader *r;
    yk_rows rows;
    size_t got = 1, total = 0;
    yk_rows_init(&rows, s->kind, s->dim);
    if (yk_source_read(s, 0, &r) == YK_OK) {
        while (got && yk_reader_next(r, &rows, 5, &got) == YK_OK)
            total += got;
        yk_reader_free(r);
    }
    if (total != s->examples || total != rows.n)
        __builtin_trap();
    for (size_t i = 0; i < rows.n; i++)
        if (rows.label[i] < 0 || (uint32_t)rows.label[i] >= s->classes)
            __builtin_trap();
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
    int images = file_of(data + 3, n), labels;
    if (data[2] & 1 && n > 8 && n < 3000) {
        uint8_t fit[8 + 3000] = {0, 0, 8, 1};
        memcpy(fit + 4, data + 3 + 4, 4); /* as many as there are images */
        size_t many = (size_t)fit[6] << 8 | fit[7];
        labels = file_of(fit, 8 + (many < 3000 ? many : 3000));
    } else {
        labels = file_of(data + 3 + n, rest - n);
    }
    if (images >= 0 && labels >= 0)
        read_set(images, labels, data[2] & 2 ? 3 : 0);
    if (images >= 0)
        close(images);
    if (labels >= 0)
        close(labels);
    return 0;
}
