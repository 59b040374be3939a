/* Arbitrary bytes as a LIBFFM file: rows or an error, never a crash. */
#include "input.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    static const char *const options[] = {"", "?nfields=9", "?features=100", "?bits=20"};
    return fuzz_text("libffm", options, data, size);
}
