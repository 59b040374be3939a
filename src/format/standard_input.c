#include "format/standard_input.h"

#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

static struct {
    pthread_mutex_t lock;
    yk_input *unread;
    bool used;
    dev_t device; /* of the file that was used: the caller may replace it */
    ino_t inode;
} standard = {.lock = PTHREAD_MUTEX_INITIALIZER};

static yk_status duplicate(int *fd_out)
{
    struct stat s;
    if (fstat(STDIN_FILENO, &s))
        return yk_fail(YK_EDATA, "standard input: cannot read: %s", strerror(errno));
    if (standard.used && standard.device == s.st_dev && standard.inode == s.st_ino)
        return yk_fail(YK_EUSAGE, "standard input can be read only once; save the data in a file");
    if ((*fd_out = fcntl(STDIN_FILENO, F_DUPFD_CLOEXEC, 0)) < 0)
        return yk_fail(YK_ESYSTEM, "standard input: cannot read: %s", strerror(errno));
    standard.used = true;
    standard.device = s.st_dev;
    standard.inode = s.st_ino;
    return YK_OK;
}

yk_status yk__stdin_open(int *fd_out, yk_input **unread_out)
{
    pthread_mutex_lock(&standard.lock);
    *unread_out = standard.unread;
    standard.unread = NULL;
    const yk_status st = *unread_out ? YK_OK : duplicate(fd_out);
    pthread_mutex_unlock(&standard.lock);
    return st;
}

bool yk__stdin_keep(yk_input *in)
{
    pthread_mutex_lock(&standard.lock);
    const bool keep = !standard.unread;
    if (keep)
        standard.unread = in;
    pthread_mutex_unlock(&standard.lock);
    return keep;
}
