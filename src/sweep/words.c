#include "sweep/words.h"

#include "format/ini.h"
#include <string.h>

char *yk__unquote(char *text)
{
    size_t n = strlen(text);
    if (n < 2 || text[0] != '"' || strchr(text + 1, '"') != text + n - 1)
        return text;
    text[n - 1] = '\0';
    return text + 1;
}

size_t yk__split_choices(char *text, size_t max, char **choice)
{
    size_t n = 0;
    bool quoted = false;
    choice[n++] = text;
    for (char *p = text; *p; p++) {
        quoted ^= *p == '"';
        if (*p != '|' || quoted)
            continue;
        *p = '\0';
        if (n == max)
            return 0;
        choice[n++] = p + 1;
    }
    return n;
}

size_t yk__split_words(char *text, bool commas, size_t max, char **word)
{
    const char *between = commas ? YK_BLANKS "," : YK_BLANKS;
    size_t n = 0;
    for (char *p = text + strspn(text, between); *p; p += strspn(p, between)) {
        char *begin = p;
        bool quoted = false;
        for (; *p && (quoted || !strchr(between, *p)); p++)
            quoted ^= *p == '"';
        if (*p)
            *p++ = '\0';
        if (n < max)
            word[n] = yk__unquote(begin);
        n++;
    }
    return n;
}
