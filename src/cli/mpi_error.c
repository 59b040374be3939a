#include "cli/mpi_error.h"

#include <stdio.h>
#include <string.h>

bool yk_mpi_error_in_init(const char *text, size_t n)
{
    static const char *const known[] = {
        "MPI_INIT failed", "MPI_INIT has failed", "An error occurred in MPI_Init",
        "MPI job is now going to abort"}; /* no transport; others may be lost */
    for (size_t i = 0; i < sizeof known / sizeof *known; i++)
        if (memmem(text, n, known[i], strlen(known[i])))
            return true;
    return false;
}

/* The rest of the line after `label`, without blanks around it, for "%.*s"; the length is 0 if there is none. */
static int value_of(const char *text, size_t n, const char *label, const char **out)
{
    enum { MAX = 100 };
    const char *at = memmem(text, n, label, strlen(label));
    if (!at)
        return 0;
    size_t first = (size_t)(at - text) + strlen(label), end = first;
    while (first < n && text[first] == ' ')
        first++;
    for (end = first; end < n && text[end] != '\n' && end - first < MAX;)
        end++;
    while (end > first && text[end - 1] == ' ')
        end--;
    *out = text + first;
    return (int)(end - first);
}

/* The line before this position: "  mca_pml_base_open() failed". */
static int line_before(const char *text, const char *at, const char **out)
{
    while (at > text && at[-1] != '\n')
        at--;
    const char *stop = at > text ? at - 1 : at, *begin = stop;
    while (begin > text && begin[-1] != '\n')
        begin--;
    while (begin < stop && *begin == ' ')
        begin++;
    *out = begin;
    return (int)(stop - begin < 100 ? stop - begin : 100);
}

void yk_mpi_error_reason(const char *text, size_t n, char *out, size_t size)
{
    const char *a, *b;
    int x, y;
    *out = '\0';
    if ((x = value_of(text, n, "Framework:", &a)) && (y = value_of(text, n, "Component:", &b))) {
        snprintf(out, size, "the component '%.*s' of the framework '%.*s' was not found", y, b, x, a);
    } else if ((x = value_of(text, n, "BTLs attempted:", &a))) {
        snprintf(out, size, "processes cannot reach each other over the allowed transports (%.*s)", x, a);
    } else if ((x = value_of(text, n, "--> Returned", &a))) {
        const char *arrow = memmem(text, n, "--> Returned", 12);
        y = line_before(text, arrow, &b);
        const char *instead = memmem(a, (size_t)x, " (", 2);
        snprintf(out, size, "%.*s: %.*s", y, b, (int)(instead ? instead - a : x), a);
    }
}
