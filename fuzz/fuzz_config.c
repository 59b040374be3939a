/* Arbitrary bytes as a configuration file and as the config.ini of a run directory: options and a plan, or an error; never a
 * crash. The last byte selects the number of processes. */
#include "input.h"

#include "train/plan.h"
#include <string.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    if (size < 1)
        return 0;
    const char *path = put_input(data, size);
    const int processes = data[size - 1] % 5;
    yk_config given, run;
    yk_plan plan;
    bool there;
    char *ignored;
    yk_config_init(&given);
    yk_config_init(&run);
    const yk_status st = yk_config_load(&given, path),
                    run_st = yk_config_load_run(&run, path, &there, &ignored);
    if ((st && (st != YK_EUSAGE || !strstr(yk_error(), path))) || (!st && (run_st || ignored || !there)))
        abort();
    /* equal: the second one only ignores what the first one refuses */
    if (!st && !yk_config_same_run(&given, &run))
        abort();
    if (!run_st && !yk_config_check(&run) &&
        !yk_plan_options(&run, &(yk_topology){.processes = processes, .cores = 4}, &plan) && plan.workers < 1)
        abort();
    free(ignored);
    yk_config_fini(&given);
    yk_config_fini(&run);
    memory_end();
    return 0;
}
