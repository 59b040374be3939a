#include "watch/prom.h"

#include "base/mem.h"
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static void put(yk_prom *p, const char *bytes, size_t n)
{
    char *grown = p->failed ? NULL : yk_grow(p->text, &p->cap, p->n + n + 1, 1, "metrics");
    if (!grown) {
        p->failed = true;
        return;
    }
    p->text = grown;
    memcpy(p->text + p->n, bytes, n);
    p->n += n;
    p->text[p->n] = '\0';
}

static void puts_of(yk_prom *p, const char *text)
{
    put(p, text, strlen(text));
}

/* In a label's value, a backslash, a quote and a new line are written with a backslash; in a help, all but the quote. */
static void escaped(yk_prom *p, const char *text, bool label)
{
    for (; *text; text++)
        if (*text == '\\')
            puts_of(p, "\\\\");
        else if (*text == '\n')
            puts_of(p, "\\n");
        else if (*text == '"' && label)
            puts_of(p, "\\\"");
        else
            put(p, text, 1);
}

void yk_prom_family(yk_prom *p, const char *name, const char *type, const char *help)
{
    p->name = name;
    puts_of(p, "# HELP ");
    puts_of(p, name);
    puts_of(p, " ");
    escaped(p, help, false);
    puts_of(p, "\n# TYPE ");
    puts_of(p, name);
    puts_of(p, " ");
    puts_of(p, type);
    puts_of(p, "\n");
}

void yk_prom_sample(yk_prom *p, const char *const *labels, double value)
{
    char number[40];
    puts_of(p, p->name);
    for (int i = 0; labels && labels[i]; i += 2) {
        puts_of(p, i ? "," : "{");
        puts_of(p, labels[i]);
        puts_of(p, "=\"");
        escaped(p, labels[i + 1], true);
        puts_of(p, "\"");
    }
    if (labels && labels[0])
        puts_of(p, "}");
    if (isnan(value))
        snprintf(number, sizeof number, " NaN\n");
    else if (isinf(value))
        snprintf(number, sizeof number, value > 0 ? " +Inf\n" : " -Inf\n");
    else
        snprintf(number, sizeof number, " %.15g\n", value);
    puts_of(p, number);
}

char *yk_prom_take(yk_prom *p)
{
    char *text = p->text;
    if (p->failed || !text) {
        free(text);
        text = NULL;
    }
    *p = (yk_prom){0};
    return text;
}
