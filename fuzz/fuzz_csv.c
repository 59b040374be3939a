/* Any bytes as CSV: rows or an error, never a crash. */
#include "input.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    static const char *const options[][4] = {
        {"", "?categorical=2-", "?numeric=2&scale=log&fields=1&header=1",
         "?categorical=2-&encode=onehot&missing=x"},
        {"?label=none&scale=standard", "?categorical=2-&encode=dense&multiline=1",
         "?classes=a,b&delimiter=tab", "?label=-1&categorical=1&bits=3"}};
    return fuzz_text("csv", options[size > 0 && data[size - 1] & 16], data, size);
}
