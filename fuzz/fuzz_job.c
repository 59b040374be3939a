/* Arbitrary bytes as what a launcher reads, a hostfile and the messages of an agent; never a crash. */
#include "input.h"

#include "cli/channel.h"
#include "config/hosts.h"
#include <fcntl.h>
#include <string.h>

static void read_hostfile(void)
{
    char path[] = "/in/all";
    const yk_config config = {.hostfile = path};
    int64_t processes;
    const yk_status st = yk_job_processes(&config, &processes);
    if ((st && (st != YK_EUSAGE || !strstr(yk_error(), path))) || processes < 0)
        abort();
}

static void read_frames(void)
{
    const int fd = open("/in/all", O_RDONLY);
    yk_channel c = {.in = fd, .out = fd};
    yk_job_frame f;
    while (yk_channel_read(&c))
        while (yk_channel_next(&c, &f))
            if (f.data[f.bytes] && f.bytes > 1u << 26)
                abort();
    yk_channel_fini(&c);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    memory_begin();
    memory_put("/in/all", data, size);
    read_hostfile();
    read_frames();
    memory_end();
    return 0;
}
