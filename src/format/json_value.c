#include "format/json_value.h"

#include <math.h>
#include <stdio.h>
#include <string.h>

const json_t *yk_value_at(const json_t *from, const char *path)
{
    while (from && *path) {
        char name[64];
        const int n = (int)strcspn(path, ".");
        snprintf(name, sizeof name, "%.*s", n, path);
        from = json_object_get(from, name);
        path += n + (path[n] != 0);
    }
    return json_is_null(from) ? NULL : from;
}

double yk_number_at(const json_t *from, const char *path)
{
    const json_t *j = yk_value_at(from, path);
    return json_is_number(j) ? json_number_value(j) : json_is_true(j) ? 1.0 : json_is_false(j) ? 0.0 : NAN;
}

const char *yk_string_at(const json_t *from, const char *path)
{
    const char *s = json_string_value(yk_value_at(from, path));
    return s && *s ? s : NULL;
}
