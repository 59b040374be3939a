#include "train/sweep_words.h"

#include <string.h>

char *yk__trim(char *text)
{
    text += strspn(text, YK__BLANKS);
    size_t n = strlen(text);
    while (n > 0 && strchr(YK__BLANKS, text[n - 1]))
        text[--n] = '\0';
    return text;
}

void yk__cut_comment(char *text)
{
    bool quoted = false;
    for (char *p = text; *p; p++) {
        quoted ^= *p == '"';
        if (*p == ';' && !quoted && (p == text || strchr(YK__BLANKS, p[-1]))) {
            *p = '\0';
            return;
        }
    }
}

char *yk__unquote(char *text)
{
    size_t n = strlen(text);
    if (n < 2 || text[0] != '"' || strchr(text + 1, '"') != text + n - 1)
        return text;
    text[n - 1] = '\0';
    return text + 1;
}

size_t yk__cut_choices(char *text, size_t most, char **choice)
{
    size_t n = 0;
    bool quoted = false;
    choice[n++] = text;
    for (char *p = text; *p; p++) {
        quoted ^= *p == '"';
        if (*p != '|' || quoted)
            continue;
        *p = '\0';
        if (n == most)
            return 0;
        choice[n++] = p + 1;
    }
    return n;
}

size_t yk__cut_words(char *text, bool commas, size_t most, char **word)
{
    const char *between = commas ? YK__BLANKS "," : YK__BLANKS;
    size_t n = 0;
    for (char *p = text + strspn(text, between); *p; p += strspn(p, between)) {
        char *begin = p;
        bool quoted = false;
        for (; *p && (quoted || !strchr(between, *p)); p++)
            quoted ^= *p == '"';
        if (*p)
            *p++ = '\0';
        if (n < most)
            word[n] = yk__unquote(begin);
        n++;
    }
    return n;
}
