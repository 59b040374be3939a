/* The hardware and the software of this host, for reports. */
#include "base/file.h"
#include "watch/resources.h"
#include <stdio.h>
#include <string.h>
#include <sys/utsname.h>

/* The value of the first line "NAME...: VALUE" or NAME="VALUE" of a text; "": none. */
static void value_of(const char *text, const char *name, char *out, size_t size)
{
    const char *at = text;
    while (at && strncmp(at, name, strlen(name)))
        at = strchr(at, '\n') ? strchr(at, '\n') + 1 : NULL;
    at = at ? strpbrk(at, ":=\n") : NULL;
    if (!at || *at == '\n')
        return;
    at += 1 + strspn(at + 1, " \t\"");
    snprintf(out, size, "%.*s", (int)strcspn(at, "\"\n"), at);
}

void yk__machine_read(const char *proc, yk_machine *out)
{
    struct utsname u;
    char text[8192];
    *out = (yk_machine){.yoke = YK_VERSION};
#ifdef __clang__
    snprintf(out->compiler, sizeof out->compiler, "clang %s", __clang_version__);
#else
    snprintf(out->compiler, sizeof out->compiler, "gcc %s", __VERSION__);
#endif
    if (!uname(&u)) {
        snprintf(out->kernel, sizeof out->kernel, "%.12s %.40s", u.sysname, u.release);
        snprintf(out->cpu, sizeof out->cpu, "%.60s", u.machine); /* unless its model is known */
    }
    if (yk_file_text(text, sizeof text, "%s/cpuinfo", proc))
        value_of(text, "model name", out->cpu, sizeof out->cpu);
    if (yk_file_text(text, sizeof text, "/etc/os-release"))
        value_of(text, "PRETTY_NAME", out->os, sizeof out->os);
}
