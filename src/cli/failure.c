#include "cli/failure.h"

#include "base/json.h"
#include <fcntl.h>
#include <limits.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

static bool expected;

void yk_failure_expect(void)
{
    expected = true;
}

void yk_failure_print_text(const char *json)
{
    if (!expected)
        return;
    expected = false;
    puts(json);
    fflush(stdout);
}

void yk_failure_print(const char *error, int code)
{
    yk_json j = {0};
    char *text = NULL;
    if (!expected)
        return;
    yk_json_object(&j, NULL);
    YK_JSON_TEXTS(&j, {"state", code ? "failed" : "stopped"}, {"error", error});
    yk_json_int(&j, "exit_code", code);
    yk_json_end(&j);
    if ((text = yk_json_take(&j)))
        yk_failure_print_text(text);
    free(text);
}

/* Puts the indented text of a summary on one line. Newlines within its strings are escaped. */
static void unfold(char *text)
{
    char *to = text;
    for (const char *from = text; *from; from++) {
        if (*from == '\n')
            from += strspn(from, "\n ") - 1;
        else
            *to++ = *from;
    }
    *to = '\0';
}

void yk_failure_print_summary(const char *run_dir, time_t since)
{
    char path[PATH_MAX];
    struct stat file;
    snprintf(path, sizeof path, "%s/summary.json", run_dir);
    const int fd = expected ? open(path, O_RDONLY | O_NOFOLLOW | O_CLOEXEC) : -1;
    if (fd < 0)
        return;
    char *text = fstat(fd, &file) || !S_ISREG(file.st_mode) || file.st_mtime < since
                     ? NULL
                     : calloc(1, (size_t)file.st_size + 1);
    if (text && read(fd, text, (size_t)file.st_size) == file.st_size) {
        unfold(text);
        yk_failure_print_text(text);
    }
    free(text);
    close(fd);
}
