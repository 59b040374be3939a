#include "data/formats.h"

#include "base/number.h"
#include "base/text.h"
#include <stdlib.h>
#include <string.h>

#define MAX_OPTIONS (sizeof((yk_spec *)0)->option / sizeof((yk_spec *)0)->option[0])

#define LETTERS "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ"
#define DIGITS  "0123456789"

/* "features=10..." but not "/day=1": in a pattern anything may follow a '?'. */
static bool begins_option(const char *s)
{
    return strspn(s, LETTERS) && s[strspn(s, LETTERS DIGITS "_-")] == '=';
}

/* A format consists of at least two letters and digits before the first ':', so that "./a:b" and "c:x" are paths. */
static char *end_of_format(char *s)
{
    const size_t n = strspn(s, LETTERS DIGITS);
    return strspn(s, LETTERS) && n > 1 && s[n] == ':' ? s + n : NULL;
}

static yk_status add_option(yk_spec *spec, char *key, char *value)
{
    if (spec->noptions == MAX_OPTIONS)
        return yk_fail(YK_EUSAGE, "%s: more than %zu options", spec->text, MAX_OPTIONS);
    spec->option[spec->noptions].key = key;
    spec->option[spec->noptions++].value = value;
    return YK_OK;
}

static yk_status parse_options(yk_spec *spec, char *list)
{
    for (char *next; list; list = next) {
        next = strchr(list, '&');
        if (next)
            *next++ = 0;
        if (!begins_option(list))
            return yk_fail(YK_EUSAGE, "%s: '%s' is not an option: write name=value, separated by '&'",
                           spec->text, list);
        char *value = strchr(list, '=');
        *value++ = 0;
        if (yk_spec_text(spec, list))
            return yk_fail(YK_EUSAGE, "%s: the option %s is given twice", spec->text, list);
        const yk_status st = add_option(spec, list, value);
        if (st)
            return st;
        spec->ngiven = spec->noptions;
    }
    return YK_OK;
}

yk_status yk_spec_parse(const char *text, yk_spec *out)
{
    *out = (yk_spec){0};
    if (!*text)
        return yk_fail(YK_EUSAGE,
                       "the data spec is empty: write FORMAT:WHERE, such as synth:digits, or a path");
    size_t n = strlen(text);
    out->text = strdup(text);
    out->storage = malloc(n + 2); /* another zero byte, for an empty format */
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
    char *options = strchr(out->where, '?');
    while (options && !begins_option(options + 1))
        options = strchr(options + 1, '?');
    if (!options)
        return YK_OK;
    *options = 0;
    yk_status st = parse_options(out, options + 1);
    if (st)
        yk_spec_fini(out);
    return st;
}

bool yk_spec_is_stdin(const char *text)
{
    yk_spec spec;
    if (yk_spec_parse(text, &spec))
        return false;
    const bool is = !strcmp(spec.where, YK_STDIN);
    yk_spec_fini(&spec);
    return is;
}

void yk_spec_fini(yk_spec *spec)
{
    free(spec->text);
    free(spec->storage);
    free(spec->of_model);
    *spec = (yk_spec){0};
}

const char *yk_spec_text(const yk_spec *spec, const char *key)
{
    for (size_t i = 0; i < spec->noptions; i++)
        if (!strcmp(spec->option[i].key, key))
            return spec->option[i].value;
    return NULL;
}

bool yk_spec_inherits(const yk_spec *spec, const char *key)
{
    size_t i = spec->ngiven;
    while (i < spec->noptions && strcmp(spec->option[i].key, key))
        i++;
    return i < spec->noptions;
}

uint64_t yk_spec_u64(yk_spec *spec, const char *key, uint64_t fallback, uint64_t min, uint64_t max)
{
    const char *s = spec->status ? NULL : yk_spec_text(spec, key);
    if (s && (spec->status = yk_number_u64(s, min, max, &fallback)))
        yk_fail(spec->status, "%s: %s=%s: %s", spec->text, key, s, yk_error());
    return fallback;
}

double yk_spec_real(yk_spec *spec, const char *key, double fallback, double min, double max)
{
    const char *s = spec->status ? NULL : yk_spec_text(spec, key);
    if (s && (spec->status = yk_number_real(s, min, max, &fallback)))
        yk_fail(spec->status, "%s: %s=%s: %s", spec->text, key, s, yk_error());
    return fallback;
}

/* The number of `word` in a list of words that are separated by spaces; -1: it is not in the list. */
static int find_word(const char *list, const char *word)
{
    const size_t n = strlen(word);
    for (int i = 0; *list; i++) {
        size_t m = strcspn(list, " ");
        if (m == n && !memcmp(list, word, n))
            return i;
        list += m + strspn(list + m, " ");
    }
    return -1;
}

int yk_spec_choice(yk_spec *spec, const char *key, const char *choices, int fallback)
{
    const char *s = spec->status ? NULL : yk_spec_text(spec, key);
    int i = s ? find_word(choices, s) : fallback;
    if (s && i < 0)
        spec->status = yk_fail(YK_EUSAGE, "%s: %s=%s: must be one of: %s", spec->text, key, s, choices);
    return i < 0 ? fallback : i;
}

yk_status yk_spec_check(const yk_spec *spec, const char *known_keys)
{
    for (size_t i = 0; i < spec->noptions; i++)
        if (find_word(known_keys, spec->option[i].key) < 0 && strcmp(spec->option[i].key, "split"))
            return yk_fail(YK_EUSAGE, "%s: unknown option %s; the options are: %s%ssplit", spec->text,
                           spec->option[i].key, known_keys, *known_keys ? " " : "");
    return YK_OK;
}

const char *yk_spec_kept(const yk_spec *spec, const char *keys, yk_arena *a)
{
    const char *all = NULL;
    for (size_t i = 0; keys && i < spec->noptions; i++)
        if (find_word(keys, spec->option[i].key) >= 0)
            all = yk_arena_print(a, "%s%s%s=%s", all ? all : "", all ? "&" : "", spec->option[i].key,
                                 spec->option[i].value);
    return all;
}

yk_status yk_spec_inherit(yk_spec *spec, const char *kept)
{
    yk_spec model = {0};
    yk_text t = {0};
    yk_text_print(&t, "model:?%s", kept);
    yk_status st = t.status ? t.status : yk_spec_parse(t.s, &model);
    for (size_t i = 0; i < model.noptions && !st; i++) {
        char *key = model.option[i].key, *value = model.option[i].value;
        const char *given = yk_spec_text(spec, key);
        if (!given)
            st = add_option(spec, key, value);
        else if (strcmp(given, value) && find_word("namespaces numeric", key) >= 0)
            st = yk_fail(YK_EUSAGE, "%s: %s is %s here, but %s in the model: leave out this option",
                         spec->text, key, given, value);
    }
    spec->of_model = model.storage;
    free(model.text);
    yk_text_fini(&t);
    return st;
}

/* Rejects a value of the spec that differs from that of the command-line option. */
static void refuse_conflict(yk_spec *spec, const char *key, const char *option, uint64_t value,
                            uint64_t other)
{
    if (other && value != other && !spec->status)
        spec->status = yk_fail(YK_EUSAGE, "%s: ?%s=%llu contradicts %s %llu: leave out one of them",
                               spec->text, key, (unsigned long long)value, option, (unsigned long long)other);
}

yk_key_space yk__spec_keys(yk_source *s, unsigned default_bits, uint64_t max)
{
    yk_spec *spec = &s->parsed;
    const yk_source_options *o = &s->options;
    uint64_t bits = yk_spec_u64(spec, "bits", o->hash_bits, 1, 31);
    uint64_t features = yk_spec_u64(spec, "features", o->features, 1, max);
    refuse_conflict(spec, "bits", "--hash-bits", bits, o->hash_bits);
    refuse_conflict(spec, "features", "--features", features, o->features);
    if (yk_spec_text(spec, "bits") && features && !spec->status)
        spec->status = yk_fail(YK_EUSAGE, "%s: bits and features cannot be combined", spec->text);
    if (bits > 31 && !spec->status)
        spec->status =
            yk_fail(YK_EUSAGE, "--hash-bits %llu: must be between 1 and 31", (unsigned long long)bits);
    const bool hash = bits || default_bits || o->keys.hash;
    const bool of_model = o->keys.features && !features && !bits;
    if (of_model)
        features = o->keys.features;
    bits = bits ? bits : default_bits;
    if (!features && bits && !spec->status)
        features = (uint64_t)1 << bits;
    return (yk_key_space){.features = features, .hash = hash, .of_model = of_model};
}

bool yk__spec_fields(yk_source *s)
{
    const yk_fields needed = s->options.fields;
    return yk_spec_choice(&s->parsed, "fields", "0 1 one", needed == YK_FIELDS_ALL) == 1 &&
           needed != YK_FIELDS_NONE;
}

bool yk__spec_positions(yk_source *s)
{
    enum { ONE, POSITION };
    yk_spec *spec = &s->parsed;
    const yk_source_options *o = &s->options;
    const int rule = yk_spec_choice(spec, "fields", "one position", -1);
    const uint64_t n = yk_spec_u64(spec, "nfields", 0, 1, YK__MAX_FIELDS);
    if (o->fields == YK_FIELDS_NONE || rule == ONE || spec->status)
        return false;
    s->by_position = rule == POSITION;
    s->positions = o->positions ? o->positions : s->by_position ? &s->own_positions : NULL;
    if (s->by_position)
        s->positions->expected = n;
    if (s->by_position && s->hashed_into)
        spec->status =
            yk_fail(YK_EUSAGE,
                    "%s: fields=position needs indices that are not hashed, because the order of hashes "
                    "means nothing: leave out --hash-bits and ?bits, or use libffm: with field numbers",
                    spec->text);
    return true;
}
