/* Arbitrary bytes as what a launcher reads: the outcome file of its job, a hostfile, and the output of mpirun with messages of
 * processes; never a crash. The input is split at the first zero byte into stderr and stdout of mpirun. */
#include "input.h"

#include "cli/job_status.h"
#include "cli/output_filter.h"
#include "config/hosts.h"
#include <fcntl.h>
#include <string.h>

static void read_files(void)
{
    yk_job_outcome outcome;
    if (yk_job_outcome_read("/in/all", &outcome) && !memchr(outcome.error, 0, sizeof outcome.error))
        abort();
    char path[] = "/in/all";
    const yk_config config = {.hostfile = path};
    int64_t processes;
    const yk_status st = yk_job_processes(&config, &processes);
    if ((st && (st != YK_EUSAGE || !strstr(yk_error(), path))) || processes < 0)
        abort();
}

/* The filter writes to stderr and stdout, which are not for the user here. */
static void filter_output(void)
{
    static yk_output_filter o;
    FILE *const err = stderr, *const out = stdout,
                *const none = fopencookie(NULL, "w", (cookie_io_functions_t){0});
    if (!none)
        abort();
    stderr = stdout = none;
    o = (yk_output_filter){
        .err.fd = open("/in/stderr", O_RDONLY), .out.fd = open("/in/stdout", O_RDONLY), .ended = -1};
    yk_output_filter_read(&o);
    if (yk_output_filter_end(&o) || !memchr(o.died, 0, sizeof o.died))
        abort();
    stderr = err;
    stdout = out;
    fclose(none);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    const uint8_t *end = size ? memchr(data, 0, size) : NULL;
    const size_t n = end ? (size_t)(end - data) : size;
    memory_begin();
    memory_put("/in/all", data, size);
    memory_put("/in/stderr", data, n);
    memory_put("/in/stdout", data + n, size - n);
    read_files();
    filter_output();
    memory_end();
    return 0;
}
