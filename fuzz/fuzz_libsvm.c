/* Any bytes as a LIBSVM file: rows or an error, never a crash. */
#include "input.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    static const char *const options[] = {"", "?base=0", "?features=100", "?base=0&features=4000000000"};
    return fuzz_text("libsvm", options, data, size);
}
