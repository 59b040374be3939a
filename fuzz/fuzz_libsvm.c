/* Arbitrary bytes as a LIBSVM or LIBFFM file: rows or an error, never a crash. */
#include "input.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    static const char *const options[] = {"", "?base=0", "?features=100", "?bits=20"};
    fuzz_text("libffm", options, data, size);
    return fuzz_text("libsvm", options, data, size);
}
