#include "report/line.h"

#include <math.h>
#include <stdint.h>
#include <stdlib.h>

static void blanks(yk_line *l)
{
    while (l->at < l->end && (*l->at == ' ' || *l->at == '\t' || *l->at == '\r' || *l->at == '\n'))
        l->at++;
}

static bool take(yk_line *l, char c)
{
    blanks(l);
    if (l->at == l->end || *l->at != c)
        return false;
    l->at++;
    return true;
}

/* What is between the quotes; at is behind the first one. */
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

/* The object or array that begins here, to its closing bracket. */
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

/* Digits, point, exponent. Up to 15 digits and powers up to 22 are exact in doubles, and so is their product or
 * quotient but for one rounding (Clinger 1990): that is nearly every number of a log. The rest goes to strtod. */
static bool number(yk_line *l, double *out)
{
    static const double power[] = {1e0,  1e1,  1e2,  1e3,  1e4,  1e5,  1e6,  1e7,  1e8,  1e9,  1e10, 1e11,
                                   1e12, 1e13, 1e14, 1e15, 1e16, 1e17, 1e18, 1e19, 1e20, 1e21, 1e22};
    const char *begin = l->at, *s = begin, *end = l->end;
    bool minus = s < end && *s == '-';
    s += minus;
    const char *first = s;
    uint64_t whole = 0;
    int digits = 0, scale = 0, exponent = 0;
    for (; s < end && *s >= '0' && *s <= '9'; s++)
        if (digits < 18 && (whole || *s != '0'))
            whole = whole * 10 + (uint64_t)(*s - '0'), digits++;
        else if (whole)
            digits++, scale++;
    if (s == first)
        return false;
    if (s < end && *s == '.') {
        const char *point = ++s;
        for (; s < end && *s >= '0' && *s <= '9'; s++)
            if (digits < 18) {
                whole = whole * 10 + (uint64_t)(*s - '0');
                digits += whole != 0;
                scale--;
            } else {
                digits++;
            }
        if (s == point)
            return false;
    }
    if (s < end && (*s == 'e' || *s == 'E')) {
        s++;
        bool down = s < end && *s == '-';
        s += s < end && (*s == '-' || *s == '+');
        const char *power_at = s;
        for (; s < end && *s >= '0' && *s <= '9'; s++)
            exponent = exponent < 10000 ? exponent * 10 + (*s - '0') : exponent;
        if (s == power_at)
            return false;
        scale += down ? -exponent : exponent;
    }
    l->at = s;
    if (digits <= 15 && scale >= -22 && scale <= 22) {
        double x = scale < 0 ? (double)whole / power[-scale] : (double)whole * power[scale];
        *out = minus ? -x : x;
        return true;
    }
    char copy[512]; /* the line does not end with a zero byte */
    size_t n = (size_t)(s - begin);
    if (n >= sizeof copy)
        n = sizeof copy - 1; /* digits that no double can hold */
    memcpy(copy, begin, n);
    copy[n] = 0;
    *out = strtod(copy, NULL);
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
    return take(out, '{');
}

int yk_line_next(yk_line *l, yk_field *out)
{
    if (take(l, '}')) {
        blanks(l);
        return l->at == l->end ? 0 : -1;
    }
    if (l->begun && !take(l, ','))
        return -1;
    l->begun = true;
    if (!take(l, '"') || !quoted(l, &out->key, &out->key_size) || !take(l, ':'))
        return -1;
    blanks(l);
    out->number = NAN;
    out->text = l->at;
    out->size = 0;
    out->kind = YK_FIELD_NONE;
    if (l->at == l->end)
        return -1;
    bool ok;
    switch (*l->at) {
    case '"':
        l->at++;
        out->kind = YK_FIELD_TEXT;
        ok = quoted(l, &out->text, &out->size);
        break;
    case '{':
    case '[':
        out->kind = *l->at == '{' ? YK_FIELD_OBJECT : YK_FIELD_ARRAY;
        ok = bracketed(l, &out->text, &out->size);
        break;
    case 't':
        out->number = 1.0;
        ok = word(l, "true");
        break;
    case 'f':
        out->number = 0.0;
        ok = word(l, "false");
        break;
    case 'n':
        ok = word(l, "null");
        break;
    default:
        out->kind = YK_FIELD_NUMBER;
        ok = number(l, &out->number);
    }
    return ok ? 1 : -1;
}
