#include "data/formats.h"

#include "base/number.h"
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>

#define OPTIONS_MOST (sizeof((yk_spec *)0)->option / sizeof((yk_spec *)0)->option[0])

static bool letter(char c)
{
    return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z');
}

static bool key_char(char c)
{
    return letter(c) || (c >= '0' && c <= '9') || c == '_' || c == '-';
}

/* "features=10..." but not "/day=1": a '?' in a pattern may be followed by anything. */
static bool begins_option(const char *s)
{
    if (!letter(*s))
        return false;
    while (key_char(*s))
        s++;
    return *s == '=';
}

static char *find_options(char *where)
{
    for (char *q = strchr(where, '?'); q; q = strchr(q + 1, '?'))
        if (begins_option(q + 1))
            return q;
    return NULL;
}

/* The format is a word of letters and digits before the first ':', so that "./a:b" and "/x:y" stay paths. */
static char *end_of_format(char *s)
{
    if (!letter(*s))
        return NULL;
    char *p = s;
    while (letter(*p) || (*p >= '0' && *p <= '9'))
        p++;
    return *p == ':' && p - s > 1 ? p : NULL;
}

static yk_status parse_options(yk_spec *spec, char *list)
{
    for (char *next; list; list = next) {
        next = strchr(list, '&');
        if (next)
            *next++ = 0;
        if (!begins_option(list))
            return yk_fail(YK_EUSAGE, "%s: '%s' is not an option: write key=value, separated by '&'",
                           spec->text, list);
        char *value = strchr(list, '=');
        *value++ = 0;
        if (yk_spec_text(spec, list, NULL))
            return yk_fail(YK_EUSAGE, "%s: the option %s is given twice", spec->text, list);
        if (spec->noptions == OPTIONS_MOST)
            return yk_fail(YK_EUSAGE, "%s: more than %zu options", spec->text, OPTIONS_MOST);
        spec->option[spec->noptions].key = list;
        spec->option[spec->noptions++].value = value;
    }
    return YK_OK;
}

yk_status yk_spec_parse(const char *text, yk_spec *out)
{
    *out = (yk_spec){0};
    if (!*text)
        return yk_fail(YK_EUSAGE,
                       "the data spec is empty: write format:where, for instance synth:digits, or a path");
    size_t n = strlen(text);
    out->text = strdup(text);
    out->storage = malloc(n + 2); /* one more for an empty format */
    if (!out->text || !out->storage) {
        yk_spec_fini(out);
        return yk_fail_memory(2 * n, "a data spec");
    }
    memcpy(out->storage, text, n + 1);
    out->storage[n + 1] = 0;
    char *colon = end_of_format(out->storage);
    if (colon) {
        *colon = 0;
        out->format = out->storage;
        out->where = colon + 1;
    } else {
        out->format = out->storage + n + 1;
        out->where = out->storage;
    }
    char *options = find_options(out->where);
    if (!options)
        return YK_OK;
    *options = 0;
    yk_status st = parse_options(out, options + 1);
    if (st)
        yk_spec_fini(out);
    return st;
}

void yk_spec_fini(yk_spec *spec)
{
    free(spec->text);
    free(spec->storage);
    *spec = (yk_spec){0};
}

const char *yk_spec_text(const yk_spec *spec, const char *key, const char *fallback)
{
    for (size_t i = 0; i < spec->noptions; i++)
        if (!strcmp(spec->option[i].key, key))
            return spec->option[i].value;
    return fallback;
}

yk_status yk_spec_u64(const yk_spec *spec, const char *key, uint64_t fallback, uint64_t least, uint64_t most,
                      uint64_t *out)
{
    const char *s = yk_spec_text(spec, key, NULL);
    *out = fallback;
    if (!s)
        return YK_OK;
    const yk_status st = yk_number_u64(s, least, most, out);
    return st ? yk_fail(st, "%s: %s=%s: %s", spec->text, key, s, yk_error()) : YK_OK;
}

yk_status yk_spec_real(const yk_spec *spec, const char *key, double fallback, double least, double most,
                       double *out)
{
    const char *s = yk_spec_text(spec, key, NULL);
    *out = fallback;
    if (!s)
        return YK_OK;
    const yk_status st = yk_number_real(s, least, most, out);
    return st ? yk_fail(st, "%s: %s=%s: %s", spec->text, key, s, yk_error()) : YK_OK;
}

static bool listed(const char *keys, const char *key)
{
    size_t n = strlen(key);
    for (const char *p = keys; *p;) {
        size_t m = strcspn(p, " ");
        if (m == n && !memcmp(p, key, n))
            return true;
        p += m + strspn(p + m, " ");
    }
    return false;
}

yk_status yk_spec_check(const yk_spec *spec, const char *known_keys)
{
    for (size_t i = 0; i < spec->noptions; i++)
        if (!listed(known_keys, spec->option[i].key))
            return yk_fail(YK_EUSAGE, "%s: no option is called %s here; there %s%s", spec->text,
                           spec->option[i].key, *known_keys ? "are: " : "are none", known_keys);
    return YK_OK;
}

yk_status yk__spec_keys(const yk_spec *spec, const yk_source_options *o, unsigned usual_bits, uint64_t most,
                        yk_key_space *out)
{
    uint64_t bits, features;
    yk_status st = yk_spec_u64(spec, "bits", o->hash_bits ? o->hash_bits : usual_bits, 1, 31, &bits);
    if (!st)
        st = yk_spec_u64(spec, "features", 0, 1, most, &features);
    if (st)
        return st;
    if (features && yk_spec_text(spec, "bits", NULL))
        return yk_fail(YK_EUSAGE, "%s: give bits or features, not both", spec->text);
    if (!features && !yk_spec_text(spec, "bits", NULL))
        features = o->features;
    if (!features && bits > 31)
        return yk_fail(YK_EUSAGE, "--hash-bits %llu: from 1 to 31 are possible", (unsigned long long)bits);
    if (!features && bits)
        features = (uint64_t)1 << bits;
    if (features > UINT32_MAX)
        return yk_fail(YK_EUSAGE, "--features %llu: at most %llu are possible", (unsigned long long)features,
                       (unsigned long long)UINT32_MAX);
    *out = (yk_key_space){.features = features, .hash = bits != 0};
    return YK_OK;
}
