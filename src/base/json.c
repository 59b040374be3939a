#include "base/json.h"

#include <assert.h>
#include <inttypes.h>
#include <math.h>
#include <stdio.h>
#include <string.h>

/* ---- text */

size_t yk_utf8_length(const char *text)
{
    const unsigned char *s = (const unsigned char *)text;
    if (s[0] < 0x80)
        return 1;
    size_t n = s[0] >= 0xc2 && s[0] < 0xe0   ? 2
               : s[0] >= 0xe0 && s[0] < 0xf0 ? 3
               : s[0] >= 0xf0 && s[0] < 0xf5 ? 4
                                             : 0;
    for (size_t i = 1; i < n; i++)
        if ((s[i] & 0xc0) != 0x80)
            return 0;
    if ((s[0] == 0xe0 && s[1] < 0xa0) || (s[0] == 0xed && s[1] > 0x9f) || (s[0] == 0xf0 && s[1] < 0x90) ||
        (s[0] == 0xf4 && s[1] > 0x8f))
        return 0;
    return n;
}

bool yk_is_utf8(const char *s)
{
    for (size_t n; *s; s += n)
        if (!(n = yk_utf8_length(s)))
            return false;
    return true;
}

int yk_utf8_cut(const char *s, size_t max)
{
    size_t n = strnlen(s, max);
    while (n > 0 && (s[n] & 0xc0) == 0x80) /* inside a character */
        n--;
    return (int)n;
}

/* wcwidth() needs a locale. */
int yk_utf8_width(const char *s, size_t n)
{
    static const struct {
        uint32_t first, last;
        int width;
    } range[] = {{0x300, 0x36f, 0},     {0x1100, 0x115f, 2},   {0x200b, 0x200f, 0},  {0x2e80, 0x303e, 2},
                 {0x3041, 0xa4cf, 2},   {0xac00, 0xd7a3, 2},   {0xf900, 0xfaff, 2},  {0xfe00, 0xfe0f, 0},
                 {0xfe30, 0xfe6f, 2},   {0xff01, 0xff60, 2},   {0xffe0, 0xffe6, 2},  {0x1f300, 0x1f64f, 2},
                 {0x1f680, 0x1f6ff, 2}, {0x1f900, 0x1f9ff, 2}, {0x20000, 0x3fffd, 2}};
    int width = 0;
    for (size_t bytes; n; s += bytes, n -= bytes) {
        const size_t length = yk_utf8_length(s);
        bytes = length && length <= n ? length : 1;
        uint32_t code = (unsigned char)*s & (bytes > 1 ? 0x7fu >> bytes : 0xffu);
        for (size_t i = 1; i < bytes; i++)
            code = code << 6 | ((unsigned char)s[i] & 0x3fu);
        int w = 1;
        for (size_t i = 0; i < sizeof range / sizeof *range; i++)
            w = code >= range[i].first && code <= range[i].last ? range[i].width : w;
        width += w;
    }
    return width;
}

static void add(yk_json *j, const char *s)
{
    yk_text_add(&j->out, s);
}

static void quoted(yk_json *j, const char *s)
{
    add(j, "\"");
    const char *from = s; /* start of the text that is copied unchanged */
    for (size_t n; *s; s += n ? n : 1) {
        static const char plain[] = "\"\\\b\f\n\r\t", letter[] = "\"\\bfnrt";
        const unsigned char c = (unsigned char)*s;
        const char *at = strchr(plain, c);
        char code[8];
        n = yk_utf8_length(s);
        if (n && c >= 0x20 && c != 0x7f && !at)
            continue;
        yk_text_put(&j->out, from, (size_t)(s - from));
        from = s + 1;
        snprintf(code, sizeof code, at ? "\\%c" : "\\u%04x", at ? letter[at - plain] : n ? c : 0xfffd);
        add(j, code);
    }
    yk_text_put(&j->out, from, (size_t)(s - from));
    add(j, "\"");
}

/* ---- values */

static void line(yk_json *j)
{
    static const char blanks[] = "                                "; /* one per nesting level */
    if (j->indent) {
        add(j, "\n");
        yk_text_put(&j->out, blanks, j->depth);
    }
}

/* Writes what comes before a value: a comma, its name. */
static void begin(yk_json *j, const char *name)
{
    const uint32_t bit = 1u << j->depth;
    if (j->depth == 0) {
        if (j->filled & bit && j->between)
            add(j, j->between);
    } else {
        if (j->filled & bit)
            add(j, ",");
        line(j);
    }
    j->filled |= bit;
    if (name) {
        quoted(j, name);
        add(j, j->indent ? ": " : ":");
    }
}

static void open(yk_json *j, const char *name, bool array)
{
    begin(j, name);
    add(j, array ? "[" : "{");
    assert(j->depth < YK_JSON_DEPTH);
    j->depth++;
    j->filled &= ~(1u << j->depth);
    j->array = array ? j->array | 1u << j->depth : j->array & ~(1u << j->depth);
}

void yk_json_object(yk_json *j, const char *name)
{
    open(j, name, false);
}

void yk_json_array(yk_json *j, const char *name)
{
    open(j, name, true);
}

void yk_json_end(yk_json *j)
{
    const uint32_t bit = 1u << j->depth--;
    if (j->filled & bit)
        line(j);
    add(j, j->array & bit ? "]" : "}");
}

void yk_json_raw(yk_json *j, const char *name, const char *text)
{
    begin(j, name);
    add(j, text ? text : "null");
}

void yk_json_null(yk_json *j, const char *name)
{
    yk_json_raw(j, name, NULL);
}

void yk_json_text(yk_json *j, const char *name, const char *text)
{
    if (!text) {
        yk_json_null(j, name);
        return;
    }
    begin(j, name);
    quoted(j, text);
}

void yk_json_real(yk_json *j, const char *name, double x)
{
    char number[40] = "null";
    if (isfinite(x)) {
        const int n = snprintf(number, sizeof number, "%.*g", j->digits ? j->digits : 9, x);
        if (!strpbrk(number, ".e"))
            strcpy(number + n, ".0");
    }
    if (isfinite(x) || !j->known_only)
        yk_json_raw(j, name, number);
}

void yk_json_fixed(yk_json *j, const char *name, double x, int decimals)
{
    if (isfinite(x) || !j->known_only)
        yk_json_raw(j, name, isfinite(x) ? "" : NULL);
    if (isfinite(x))
        yk_text_print(&j->out, "%.*f", decimals, x);
}

void yk_json_int(yk_json *j, const char *name, int64_t n)
{
    begin(j, name);
    yk_text_print(&j->out, "%" PRId64, n);
}

void yk_json_put(yk_json *j, const yk_json_item *item)
{
    for (; item->kind; item++)
        if (item->kind == '{' || item->kind == '[')
            open(j, item->name, item->kind == '[');
        else if (item->kind == '}')
            yk_json_end(j);
        else if (item->kind == 't')
            yk_json_text(j, item->name, item->text);
        else if (item->kind == 'r')
            yk_json_real(j, item->name, item->real);
        else if (item->kind == 'f')
            yk_json_fixed(j, item->name, item->real, item->decimals);
        else if (item->kind == 'i')
            yk_json_int(j, item->name, item->whole);
        else if (item->kind == 'b')
            yk_json_raw(j, item->name, item->whole ? "true" : "false");
        else if (item->kind != ' ')
            yk_json_raw(j, item->name, item->kind == 'j' ? item->text : NULL);
}

/* ---- the document */

char *yk_json_take(yk_json *j)
{
    char *text = yk_text_take(&j->out);
    *j = (yk_json){0};
    return text;
}

yk_status yk_json_write(yk_json *j, yk_file *f)
{
    add(j, "\n");
    const yk_status st = j->out.status ? j->out.status : yk_file_write(f, j->out.s, j->out.n);
    j->out.n = 0;
    j->depth = 0;
    j->filled = 0;
    return st;
}

void yk_json_fini(yk_json *j)
{
    yk_text_fini(&j->out);
    *j = (yk_json){0};
}
