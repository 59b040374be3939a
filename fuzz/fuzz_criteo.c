/* Any bytes as Criteo text: rows or an error, never a crash. The last byte also chooses the options,
 * so that plain files are good seeds. */
#include "base/log.h"
#include "data/source.h"

#include <stdio.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <unistd.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static void read_all(yk_source *s)
{
    yk_rows rows;
    yk_rows_init(&rows, YK_ROWS_SPARSE, 0);
    for (size_t b = 0; b < s->nblocks; b++) {
        yk_reader *r;
        size_t got = 1;
        if (yk_source_read(s, b, &r))
            break;
        while (got && !yk_reader_next(r, &rows, 5, &got))
            ;
        yk_reader_free(r);
    }
    for (size_t i = 0; i < rows.n; i++) {
        if (rows.label[i] < 0)
            abort();
        for (uint64_t k = rows.start[i]; k < rows.start[i + 1]; k++)
            if (rows.index[k] >= (s->dim ? s->dim : rows.dim) ||
                (k > rows.start[i] && rows.index[k - 1] >= rows.index[k]))
                abort();
    }
    yk_rows_fini(&rows);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    static const char *const options[] = {"", "?bits=3", "?features=100", "?features=4294967295"};
    if (size < 1)
        return 0;
    uint8_t choice = data[size - 1];
    yk_log_quiet(true);
    int fd = memfd_create("input", MFD_CLOEXEC);
    if (fd < 0)
        abort();
    if (write(fd, data, size) != (ssize_t)size)
        abort();
    char spec[96];
    snprintf(spec, sizeof spec, "criteo:/proc/self/fd/%d%s", fd, options[choice & 3]);
    yk_source_options o = {.skip_bad = (uint64_t)(choice >> 2) & 3};
    yk_source *s;
    if (!yk_source_open(spec, YK_SPLIT_TRAIN, &o, &s)) {
        read_all(s);
        yk_source_free(s);
    }
    close(fd);
    return 0;
}
