/* Arbitrary bytes as Vowpal Wabbit's text: rows or an error, never a crash. */
#include "input.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    static const char *const options[] = {"", "?bits=3&weights=ignore", "?namespaces=default,a,user&base=1",
                                          "?features=4294967295&split=0.5"};
    return fuzz_text("vw", options, data, size);
}
