/* Files in memory, for the fuzzers: system calls would take most of the time.
 *
 *     memory_begin();
 *     memory_put("/in/a.csv", data, size);       // borrowed; directories exist if they have files
 *     yk_source_open("csv:/in/a.csv", ...);
 *     memory_end();
 *
 * Between memory_begin() and memory_end(), there are no other files: the linker replaces open(), read(), stat() and others
 * (--wrap, CMakeLists.txt). Nothing can be written. At the end, all descriptors, streams and mappings must be closed, or the
 * program aborts. A mapping is a block of exactly the size of the file, so that AddressSanitizer detects reads beyond it.
 * Threads share the files; only one of them opens or closes files at a time.
 */
#ifndef YK_FUZZ_MEMORY_H
#define YK_FUZZ_MEMORY_H

#include <stddef.h>

void memory_begin(void);
void memory_put(const char *path, const void *data, size_t size);
void memory_end(void);

#endif
