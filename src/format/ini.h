/* Files of `name = value` lines: configurations, sweeps.
 *
 * Example:
 *     yk_ini in;
 *     st = yk_ini_open("run.ini", 0, &in);
 *     while (yk_ini_next(&in, &st))
 *         st = in.name ? set(in.section, in.name, in.value) : YK_OK;     // name NULL: a section begins
 *     st = yk_ini_close(&in, st);                                        // prefixes an error with "run.ini:7: "
 *
 * The file:
 *
 *     ; a comment            # also a comment
 *     [train]
 *     data = synth:digits?examples=100       the value is the rest of the line, without surrounding blanks
 *
 * A UTF-8 byte order mark is skipped; lines may end with CR LF and have up to 1 MB. (Debian's inih truncates lines at 200
 * bytes and values at a ';', but paths may be long and contain anything.) One thread at a time.
 */
#ifndef YK_FORMAT_INI_H
#define YK_FORMAT_INI_H

#include "base/status.h"
#include <stdio.h>

#define YK_BLANKS " \t\r\n\v\f"

enum {
    YK_INI_END_COMMENTS = 1, /* a ';' after a blank, outside of double quotes, begins a comment */
    YK_INI_LENIENT = 2,      /* skips lines that it cannot parse */
    YK_INI_COMMENTS = 4      /* also returns lines that are comments */
};

typedef struct {
    const char *section;
    char *name, *value; /* of this line; NULL if it begins a section or is a comment */
    char *comment; /* the line, if it is a comment; else NULL. All four are borrowed until the next call */
    int line;
    /* internal */
    const char *path; /* borrowed */
    FILE *file;
    char *text, *section_text;
    size_t cap;
    unsigned flags;
} yk_ini;

yk_status yk_ini_open(const char *path, unsigned flags, yk_ini *out);

/* Opens a file in an untrusted directory, with yk_file_open_regular(). A missing file has no lines, and `file` is NULL. */
yk_status yk_ini_open_regular(const char *path, uint64_t max, unsigned flags, yk_ini *out);

yk_status yk_ini_open_text(const char *name, const char *text, yk_ini *out); /* borrows both */

/* The next line that is not empty and, without YK_INI_COMMENTS, not a comment. False at the end, or if *st is or becomes an
 * error. */
bool yk_ini_next(yk_ini *in, yk_status *st);

yk_status yk_ini_close(yk_ini *in, yk_status st);

/* Splits "name = value" in place. */
yk_status yk_ini_split(char *text, char **name_out, char **value_out);

/* Removes leading and trailing blanks, in place. */
char *yk_trim(char *text);

#endif
