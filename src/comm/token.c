#include "comm/token.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <sys/random.h>
#include <sys/stat.h>
#include <unistd.h>

yk_status yk_token_create(unsigned char *out)
{
    return getrandom(out, YK_TOKEN_BYTES, 0) == YK_TOKEN_BYTES
               ? YK_OK
               : yk_fail(YK_ESYSTEM, "cannot create the job token: getrandom: %s", strerror(errno));
}

void yk_token_print(const unsigned char *token, char *out)
{
    for (int i = 0; i < YK_TOKEN_BYTES; i++)
        snprintf(out + 2 * i, 3, "%02x", token[i]);
}

const char *yk_token_parse(const char *text, unsigned char *out)
{
    static const char digits[] = "0123456789abcdefABCDEF";
    for (int i = 0; i < 2 * YK_TOKEN_BYTES; i++) {
        const char *at = *text ? strchr(digits, *text++) : NULL;
        if (!at)
            return NULL;
        const long digit = at - digits < 16 ? at - digits : at - digits - 6;
        out[i / 2] = (unsigned char)(out[i / 2] << 4 | digit);
    }
    return strchr(" \r\n", *text) ? text : NULL; /* or the end */
}

yk_status yk_token_text(const char *what, const char *path, char *out, size_t size)
{
    struct stat file = {0};
    const int fd = open(path, O_RDONLY | O_CLOEXEC | O_NONBLOCK | O_NOCTTY);
    const ssize_t n = fd < 0 || fstat(fd, &file) ? -1 : read(fd, out, size - 1);
    const int error = errno;
    if (fd >= 0)
        close(fd);
    out[n > 0 ? n : 0] = '\0';
    if (n < 0)
        return yk_fail(YK_EUSAGE, "%s: cannot read %s: %s", what, path, strerror(error));
    if (file.st_uid != geteuid() && file.st_uid != 0)
        return yk_fail(YK_EUSAGE,
                       "%s: %s belongs to another user, who could have changed it; use a copy that you own",
                       what, path);
    if (!S_ISREG(file.st_mode) || file.st_mode & 037)
        return yk_fail(YK_EUSAGE,
                       "%s: others can read or change %s (mode %03o), which contains a job token; run "
                       "chmod 600 on it",
                       what, path, (unsigned)file.st_mode & 0777);
    return YK_OK;
}

yk_status yk_token_file(const char *what, const char *path, unsigned char *out)
{
    char text[YK_TOKEN_TEXT + 1];
    const yk_status st = yk_token_text(what, path, text, sizeof text);
    if (!st && !yk_token_parse(text, out))
        return yk_fail(YK_EUSAGE,
                       "%s: %s does not begin with a job token of %d hexadecimal digits; create one with: "
                       "openssl rand -hex %d",
                       what, path, 2 * YK_TOKEN_BYTES, YK_TOKEN_BYTES);
    return st;
}
