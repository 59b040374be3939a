/* Arbitrary bytes as the lock file of a run directory: it is free, or an error names its owner; never a crash. The file system
 * has no locks, so that the text decides. The last byte says whether the process of the owner is there. */
#include "input.h"

#include "base/clock.h"
#include "base/fs.h"
#include "base/lock.h"
#include <errno.h>
#include <fcntl.h>
#include <string.h>
#include <unistd.h>

static const char *text;
static size_t length;
static uint64_t now;

static uint64_t clock_now(void *self)
{
    (void)self;
    return now += 1000000000; /* whoever waits, waits for one turn */
}

static double clock_wall(void *self)
{
    (void)self;
    return 1e9;
}

static void clock_sleep(void *self, uint64_t ns)
{
    (void)self;
    now += ns;
}

static int fs_open(int dir, const char *path, int flags, mode_t mode)
{
    (void)dir, (void)path, (void)flags, (void)mode;
    return 1000;
}

static int fs_close(int fd)
{
    (void)fd;
    return 0;
}

static int fs_lock(int fd, bool take)
{
    (void)fd, (void)take;
    return ENOLCK;
}

static ssize_t fs_read(int fd, void *to, size_t n)
{
    (void)fd;
    n = n < length ? n : length;
    memcpy(to, text, n);
    return (ssize_t)n;
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    static const yk_clock clock = {.now_ns = clock_now, .sleep_ns = clock_sleep, .wall = clock_wall};
    static const yk_fs fs = {.open = fs_open, .close = fs_close, .lock = fs_lock, .read = fs_read};
    static const char process[] =
        "7 (a) R 1 1 1 0 -1 4194304 1 0 0 0 0 0 0 0 20 0 1 0 123456 1 1 1 1 1 1 1 1 0 0";
    text = (const char *)data;
    length = size;
    memory_begin();
    if (size && data[size - 1] & 1)
        memory_put("/proc/7/stat", process, sizeof process - 1);
    memory_put("/proc/sys/kernel/random/boot_id", "abc\n", 4);
    yk_clock_set(&clock);
    yk_fs_set(&fs);
    const yk_status st = yk_lock_check("/run");
    if (st && (st != YK_EUSAGE || !strstr(yk_error(), "/run: in use by ") ||
               !strstr(yk_error(), "remove /run/lock")))
        abort();
    yk_fs_set(NULL);
    yk_clock_set(NULL);
    memory_end();
    return 0;
}
