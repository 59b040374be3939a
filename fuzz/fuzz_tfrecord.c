/* Arbitrary bytes as a TFRecord file: read or refused, never a crash, and the same records when read in blocks.
 *
 * The first byte selects how the rest is used: as the file itself (plain or compressed), or, because no fuzzer guesses a
 * CRC, as the payloads of valid records, each preceded by a length byte; one record may be damaged afterwards. Its
 * highest bit decides whether a bad record is an error or is skipped.
 */
#include "input.h"

#include "base/crc.h"
#include <string.h>

enum { MAX_BYTES = 600, MAX_BLOCKS = 4 }; /* more would take longer, and reach nothing else */

static size_t frame(const uint8_t *data, size_t size, uint8_t *out)
{
    size_t n = 0;
    while (size > 0) {
        uint64_t length = *data < size - 1 ? *data : size - 1;
        uint32_t crc;
        memcpy(out + n, &length, 8);
        crc = yk_crc32c_masked(out + n, 8);
        memcpy(out + n + 8, &crc, 4);
        memcpy(out + n + 12, data + 1, length);
        crc = yk_crc32c_masked(data + 1, length);
        memcpy(out + n + 12 + length, &crc, 4);
        n += 16 + length;
        data += 1 + length;
        size -= 1 + length;
    }
    return n;
}

/* The number of examples; SIZE_MAX if the file is refused. */
static size_t read_file(const char *path, unsigned block, uint64_t skip_bad, size_t step)
{
    char spec[100];
    yk_rows rows;
    snprintf(spec, sizeof spec, "tfrecord:%s?block=%u&form=sparse", path, block);
    yk_source *s = open_source(spec, skip_bad, NULL);
    if (!s)
        return SIZE_MAX;
    yk_status st = read_all(s, step, &rows);
    for (size_t i = 0; i < rows.n; i++)
        if (rows.start[i] > rows.start[i + 1] || rows.label[i] < 0)
            abort();
    size_t n = rows.n;
    yk_rows_fini(&rows);
    yk_source_free(s);
    return st ? SIZE_MAX : n;
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    if (size < 4)
        return 0;
    size = size < MAX_BYTES ? size : MAX_BYTES;
    uint8_t *file = malloc(17 * size);
    if (!file)
        abort();
    unsigned how = data[0] % 3, place = data[1] | (unsigned)data[2] << 8;
    size_t n = size - 3;
    if (how == 0)
        memcpy(file, data + 3, n);
    else
        n = frame(data + 3, n, file);
    if (how == 2)
        file[place % n] ^= (uint8_t)(1 + data[0] / 3);
    const char *path = put_input(file, n);
    if (data[0] & 128) {
        read_file(path, 1 << 20, 0, 100);
    } else {
        size_t whole = read_file(path, 1 << 20, UINT64_MAX, 3);
        size_t cut = read_file(path, (unsigned)(n / MAX_BLOCKS) + 16 + place % 499, UINT64_MAX, 100);
        /* Reading in blocks may find additional records inside a payload, but does not lose an example. */
        if (how > 0 && (whole == SIZE_MAX ? cut != SIZE_MAX : cut < whole))
            abort();
    }
    memory_end();
    free(file);
    return 0;
}
