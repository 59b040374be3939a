#include "observe/prom.h"

#include <math.h>
#include <string.h>

void yk_prom_family(yk_prom *p, const char *name, const char *help)
{
    const char *end = strrchr(name, '_');
    p->name = name;
    yk_text_print(&p->out, "# HELP %s %s\n# TYPE %s %s\n", name, help, name,
                  end && !strcmp(end, "_total") ? "counter" : "gauge");
}

/* Backslashes, newlines and double quotes are escaped. */
static void put_value(yk_text *out, const char *text)
{
    for (; *text; text++)
        if (*text == '\n')
            yk_text_add(out, "\\n");
        else
            yk_text_print(out, *text == '\\' || *text == '"' ? "\\%c" : "%c", *text);
}

void yk_prom_sample(yk_prom *p, const char *const *labels, double value)
{
    yk_text_add(&p->out, p->name);
    for (int i = 0; labels && labels[i]; i += 2) {
        yk_text_print(&p->out, "%s%s=\"", i ? "," : "{", labels[i]);
        put_value(&p->out, labels[i + 1]);
        yk_text_add(&p->out, "\"");
    }
    yk_text_add(&p->out, labels && labels[0] ? "} " : " ");
    if (isfinite(value))
        yk_text_print(&p->out, "%.15g\n", value);
    else
        yk_text_add(&p->out, isnan(value) ? "NaN\n" : value > 0 ? "+Inf\n" : "-Inf\n");
}
