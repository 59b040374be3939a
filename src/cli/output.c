#include "cli/output.h"

#include "base/file.h"
#include "base/json.h"
#include "cli/cli.h"
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

struct yk_output {
    yk_file *file; /* NULL: stdout */
    yk_status st;  /* the first error */
};

yk_output *yk_output_open(const char *path)
{
    yk_output *o = calloc(1, sizeof *o);
    yk_status st = !o     ? yk_fail_memory(sizeof *o, "the output")
                   : path ? yk_file_create(path, &o->file)
                          : YK_OK;
    if (st)
        exit(yk_cli_exit(st));
    return o;
}

static yk_status write_out(yk_output *o, const char *text, size_t n)
{
    return o->file                           ? yk_file_write(o->file, text, n)
           : fwrite(text, 1, n, stdout) == n ? YK_OK
                                             : yk_cli_flush();
}

void yk_output_print(yk_output *o, const char *format, ...)
{
    char text[512];
    va_list args;
    va_start(args, format);
    const int n = vsnprintf(text, sizeof text, format, args);
    va_end(args);
    if (!o->st)
        o->st = n < (int)sizeof text ? write_out(o, text, (size_t)n)
                                     : yk_fail(YK_ESYSTEM, "a line of %d bytes is too long", n);
}

void yk_output_json_text(yk_output *o, const char *text)
{
    yk_json j = {0};
    yk_json_array(&j, NULL);
    yk_json_text(&j, NULL, text);
    yk_json_end(&j);
    char *array = yk_json_take(&j); /* ["text"] */
    const size_t n = array ? strlen(array) : 0;
    if (!o->st)
        o->st = n ? write_out(o, array + 1, n - 2) : yk_fail_memory(strlen(text), "a line");
    free(array);
}

int yk_output_failed(const yk_output *o)
{
    return o->st != YK_OK;
}

int yk_output_close(yk_output *o, int code)
{
    const bool to_stdout = !o->file;
    yk_status st = yk_file_close(o->file, code && !o->st ? YK_ESTOP : o->st);
    if (to_stdout && !st)
        st = yk_cli_flush();
    free(o);
    return code ? code : yk_cli_exit(st);
}
