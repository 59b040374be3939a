#include "cli/failure.h"

#include "base/json.h"
#include <fcntl.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

static bool expected;

void yk_failure_expect(void)
{
    expected = true;
}

void yk_failure_expect_option(int argc, char **argv)
{
    for (int i = 1; i < argc; i++)
        expected |= strcmp(argv[i], "--json") == 0;
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

/* Puts the indented text on one line. Newlines within its strings are escaped. */
void yk_failure_print_summary(const char *run_dir, time_t since)
{
    char path[PATH_MAX], *line = NULL;
    size_t cap = 0;
    struct stat file;
    yk_text text = {0};
    snprintf(path, sizeof path, "%s/summary.json", run_dir);
    const int fd = expected ? open(path, O_RDONLY | O_NOFOLLOW | O_CLOEXEC) : -1;
    FILE *f = fd >= 0 ? fdopen(fd, "r") : NULL;
    if (!f)
        return;
    if (fstat(fd, &file) == 0 && S_ISREG(file.st_mode) && file.st_mtime >= since)
        while (getline(&line, &cap, f) > 0) {
            line[strcspn(line, "\n")] = '\0';
            yk_text_add(&text, line + strspn(line, " "));
        }
    if (text.n && !text.status)
        yk_failure_print_text(text.s);
    yk_text_fini(&text);
    free(line);
    fclose(f);
}
