#include "observe/prom.h"

#include <math.h>
#include <string.h>

/* Backslashes and newlines are escaped, and double quotes in the values of labels. */
static void escaped(yk_prom *p, const char *text, bool label)
{
    for (; *text; text++)
        if (*text == '\n')
            yk_text_add(&p->out, "\\n");
        else
            yk_text_print(&p->out, *text == '\\' || (*text == '"' && label) ? "\\%c" : "%c", *text);
}

void yk_prom_family(yk_prom *p, const char *name, const char *help)
{
    const char *end = strrchr(name, '_');
    p->name = name;
    yk_text_print(&p->out, "# HELP %s ", name);
    escaped(p, help, false);
    yk_text_print(&p->out, "\n# TYPE %s %s\n", name, end && !strcmp(end, "_total") ? "counter" : "gauge");
}

void yk_prom_sample(yk_prom *p, const char *const *labels, double value)
{
    yk_text_add(&p->out, p->name);
    for (int i = 0; labels && labels[i]; i += 2) {
        yk_text_print(&p->out, "%s%s=\"", i ? "," : "{", labels[i]);
        escaped(p, labels[i + 1], true);
        yk_text_add(&p->out, "\"");
    }
    yk_text_add(&p->out, labels && labels[0] ? "} " : " ");
    if (isnan(value))
        yk_text_add(&p->out, "NaN\n");
    else if (isinf(value))
        yk_text_add(&p->out, value > 0 ? "+Inf\n" : "-Inf\n");
    else
        yk_text_print(&p->out, "%.15g\n", value);
}

char *yk_prom_take(yk_prom *p)
{
    return yk_text_take(&p->out);
}
