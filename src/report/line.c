#include "report/line.h"

#include "base/number.h"
#include <math.h>

static void blanks(yk_line *l)
{
    while (l->at < l->end && (*l->at == ' ' || *l->at == '\t' || *l->at == '\r' || *l->at == '\n'))
        l->at++;
}

static bool skip(yk_line *l, char c)
{
    blanks(l);
    if (l->at == l->end || *l->at != c)
        return false;
    l->at++;
    return true;
}

/* A string, up to its closing quote; l->at is after the opening one. */
static bool quoted(yk_line *l, const char **text_out, size_t *size_out)
{
    *text_out = l->at;
    for (; l->at < l->end; l->at++) {
        if (*l->at == '"') {
            *size_out = (size_t)(l->at - *text_out);
            l->at++;
            return true;
        }
        if (*l->at == '\\' && ++l->at == l->end)
            break;
    }
    return false;
}

/* An object or array, up to its closing bracket. */
static bool bracketed(yk_line *l, const char **text_out, size_t *size_out)
{
    const char *ignored;
    size_t depth = 0, n;
    for (*text_out = l->at; l->at < l->end;) {
        char c = *l->at++;
        if (c == '"') {
            if (!quoted(l, &ignored, &n))
                return false;
        } else if (c == '{' || c == '[') {
            depth++;
        } else if ((c == '}' || c == ']') && --depth == 0) {
            *size_out = (size_t)(l->at - *text_out);
            return true;
        }
    }
    return false;
}

static bool is_digit(const yk_line *l, const char *at)
{
    return at < l->end && *at >= '0' && *at <= '9';
}

/* JSON does not allow "+1", ".5" and "1.". */
static bool number(yk_line *l, double *out)
{
    const char *first = l->at + (*l->at == '-'), *at = first, *end;
    while (is_digit(l, at))
        at++;
    if (at == first || (at < l->end && *at == '.' && !is_digit(l, at + 1)) ||
        !(end = yk_decimal_before(l->at, l->end, out)))
        return false;
    l->at = end;
    return true;
}

static bool word(yk_line *l, const char *name)
{
    size_t n = strlen(name);
    if ((size_t)(l->end - l->at) < n || memcmp(l->at, name, n))
        return false;
    l->at += n;
    return true;
}

bool yk_line_open(const char *text, size_t size, yk_line *out)
{
    *out = (yk_line){text, text + size, false};
    return skip(out, '{');
}

int yk_line_next(yk_line *l, yk_field *out)
{
    if (skip(l, '}')) {
        blanks(l);
        return l->at == l->end ? 0 : -1;
    }
    if (l->begun && !skip(l, ','))
        return -1;
    l->begun = true;
    if (!skip(l, '"') || !quoted(l, &out->key, &out->key_size) || !skip(l, ':'))
        return -1;
    blanks(l);
    out->number = NAN;
    out->text = l->at;
    out->size = 0;
    out->kind = YK_FIELD_NONE;
    if (l->at == l->end)
        return -1;
    if (is_digit(l, l->at) || *l->at == '-') {
        out->kind = YK_FIELD_NUMBER;
        return number(l, &out->number) ? 1 : -1;
    }
    if (skip(l, '"')) {
        out->kind = YK_FIELD_TEXT;
        return quoted(l, &out->text, &out->size) ? 1 : -1;
    }
    if (*l->at == '{' || *l->at == '[') {
        out->kind = *l->at == '{' ? YK_FIELD_OBJECT : YK_FIELD_ARRAY;
        return bracketed(l, &out->text, &out->size) ? 1 : -1;
    }
    const bool yes = word(l, "true"), no = !yes && word(l, "false");
    out->number = yes ? 1.0 : no ? 0.0 : NAN;
    return yes || no || word(l, "null") ? 1 : -1;
}
