/* Arbitrary bytes as a sweep file: runs or an error that names the file, never a crash. The last byte selects the size. */
#include "input.h"

#include "sweep/plan.h"
#include <string.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    if (size < 1)
        return 0;
    const char *path = put_input(data, size);
    yk_sweep_plan p;
    yk_status st = yk_sweep_plan_make(path, data[size - 1] & 1, NULL, 0, NULL, &p);
    if (st && (st != YK_EUSAGE || !strstr(yk_error(), path)))
        abort();
    for (size_t i = 0; !st && i < p.nruns; i++) {
        const yk_sweep_run *r = &p.run[i];
        if (!*r->directory || strchr(r->directory, '/') || strlen(r->directory) > 200 || !r->argument[0] ||
            (!r->steps && !r->epochs) || r->plan.workers < 1)
            abort();
    }
    yk_sweep_plan_fini(&p);
    memory_end();
    return 0;
}
