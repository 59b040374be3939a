#include "format/ini.h"

#include "base/file.h"
#include "base/mem.h"
#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

char *yk_trim(char *text)
{
    text += strspn(text, YK_BLANKS);
    size_t n = strlen(text);
    while (n > 0 && strchr(YK_BLANKS, text[n - 1]))
        n--;
    text[n] = '\0';
    return text;
}

yk_status yk_ini_split(char *text, char **name_out, char **value_out)
{
    char *equals = strchr(text, '=');
    if (!equals)
        return yk_fail(YK_EUSAGE, "not a line of the form name = value");
    *equals = '\0';
    *name_out = yk_trim(text);
    *value_out = yk_trim(equals + 1);
    return YK_OK;
}

yk_status yk_ini_open(const char *path, unsigned flags, yk_ini *out)
{
    *out = (yk_ini){.section = "", .path = path, .flags = flags, .file = fopen(path, "re")};
    return out->file ? YK_OK : yk_fail(YK_EUSAGE, "%s: cannot read: %s", path, strerror(errno));
}

yk_status yk_ini_open_regular(const char *path, uint64_t max, unsigned flags, yk_ini *out)
{
    int fd;
    yk_status st = yk_file_open_regular(path, max, &fd);
    *out = (yk_ini){.section = "", .path = path, .flags = flags};
    if (st || fd < 0)
        return st;
    out->file = fdopen(fd, "r");
    if (!out->file) {
        close(fd);
        return yk_fail_memory(BUFSIZ, "a file");
    }
    return YK_OK;
}

yk_status yk_ini_open_text(const char *name, const char *text, yk_ini *out)
{
    *out =
        (yk_ini){.section = "", .path = name, .file = fmemopen((char *)(uintptr_t)text, strlen(text), "r")};
    return out->file ? YK_OK : yk_fail(YK_EDATA, "%s: empty", name);
}

static void cut_comment(char *text)
{
    bool quoted = false;
    for (char *p = text; *p; p++) {
        quoted ^= *p == '"';
        if (*p == ';' && !quoted && p > text && strchr(YK_BLANKS, p[-1])) {
            *p = '\0';
            return;
        }
    }
}

/* Like getline(), but a line that is too long, as in /dev/zero, is an error. False: at the end, or after an error. */
static bool read_line(yk_ini *in, yk_status *st)
{
    enum { MAX = 1 << 20 };
    int c = 0;
    for (size_t n = 0; !*st && c != '\n'; in->text[n] = '\0') {
        if ((*st = YK_RESERVE(in->text, in->cap, n + 2, "a line")))
            return false;
        if ((c = getc(in->file)) == EOF)
            return n > 0;
        in->text[n++] = (char)c;
        if (n == MAX) {
            in->line++;
            *st = yk_fail(YK_EUSAGE, "a line of more than 1 MB: not a text file of name = value lines");
        }
    }
    return !*st;
}

bool yk_ini_next(yk_ini *in, yk_status *st)
{
    errno = 0;
    while (!*st && in->file && read_line(in, st)) {
        const bool marked = in->line++ == 0 && strncmp(in->text, "\xef\xbb\xbf", 3) == 0;
        char *text = yk_trim(in->text + (marked ? 3 : 0));
        in->comment = *text == ';' || *text == '#' ? text : NULL;
        if (!*text || (in->comment && !(in->flags & YK_INI_COMMENTS)))
            continue;
        if (in->comment) {
            in->name = in->value = NULL;
            return true;
        }
        if (in->flags & YK_INI_END_COMMENTS)
            cut_comment(text);
        if (*text == '[') {
            free(in->section_text);
            in->section_text = strdup(yk_trim(text));
            in->section = in->section_text;
            in->name = in->value = NULL;
            if (!in->section)
                *st = yk_fail_memory(strlen(text), "a section");
            return !*st;
        }
        if (in->flags & YK_INI_LENIENT && !strchr(text, '='))
            continue;
        *st = yk_ini_split(text, &in->name, &in->value);
        return !*st;
    }
    if (!*st && in->file && !feof(in->file)) {
        in->line = 0;
        *st = yk_fail(YK_EUSAGE, "%s: cannot read: %s", in->path, strerror(errno));
    }
    return false;
}

yk_status yk_ini_close(yk_ini *in, yk_status st)
{
    if (st && in->line)
        yk_fail(st, "%s:%d: %s", in->path, in->line, yk_error());
    if (in->file)
        fclose(in->file);
    free(in->text);
    free(in->section_text);
    *in = (yk_ini){0};
    return st;
}
