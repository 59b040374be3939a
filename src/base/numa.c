#include "base/numa.h"

#include "base/file.h"
#include "base/number.h"

/* Reads a list of numbers and ranges: 0-3,8,10-11. */
static void read_list(const char *text, cpu_set_t *out)
{
    uint64_t first, last;
    CPU_ZERO(out);
    while ((text = yk_digits(text, UINT32_MAX, &first))) {
        last = first;
        if (*text == '-' && !(text = yk_digits(text + 1, UINT32_MAX, &last)))
            return;
        for (uint64_t k = first; k <= last && k < CPU_SETSIZE; k++)
            CPU_SET(k, out);
        text += *text == ',';
    }
}

void yk_numa_read(const char *sys, yk_numa *out)
{
    char text[1024];
    out->nodes = 0;
    for (int i = 0; i < YK_NUMA_MAX; i++) { /* numbers may have gaps */
        if (!yk_file_text(text, sizeof text, "%s/devices/system/node/node%d/cpulist", sys, i))
            continue;
        read_list(text, &out->cores[out->nodes]);
        out->nodes += CPU_COUNT(&out->cores[out->nodes]) > 0; /* some nodes only have memory */
    }
}

bool yk_numa_restrict(yk_numa *numa, const cpu_set_t *allowed)
{
    bool removed = false;
    int n = 0;
    for (int i = 0; i < numa->nodes; i++) {
        const int all = CPU_COUNT(&numa->cores[i]);
        CPU_AND(&numa->cores[n], &numa->cores[i], allowed);
        removed |= CPU_COUNT(&numa->cores[n]) < all;
        n += CPU_COUNT(&numa->cores[n]) > 0;
    }
    numa->nodes = n;
    return removed;
}

bool yk_numa_part(const yk_numa *numa, int process, int processes, cpu_set_t *out)
{
    const int first = process * numa->nodes / processes, next = (process + 1) * numa->nodes / processes,
              end = next > first ? next : first + 1;
    CPU_ZERO(out);
    if (processes < 2 || numa->nodes < 2)
        return false;
    for (int i = first; i < end; i++)
        CPU_OR(out, out, &numa->cores[i]);
    return true;
}
