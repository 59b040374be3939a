/* Arbitrary bytes as Criteo text: rows or an error, never a crash. */
#include "input.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    static const char *const options[] = {"", "?bits=3", "?features=100", "?features=4294967295"};
    return fuzz_text("criteo", options, data, size);
}
