/* A data spec taken apart: `format:where?key=value&key=value`.
 *
 *     yk_spec spec;
 *     st = yk_spec_parse("synth:ctr?features=1000&seed=1", &spec);
 *     st = yk_spec_u64(&spec, "features", 33762578, 1, UINT32_MAX, &features);   // default, least, most
 *     st = yk_spec_check(&spec, "features examples seed");                       // any other key is a usage error
 *     yk_spec_fini(&spec);
 *
 * A bare path has an empty format; the path itself may hold a '?' only where a key=value list follows the last one.
 * Bad specs are YK_EUSAGE and say which option is wrong and what is accepted.
 */
#ifndef YK_DATA_SPEC_H
#define YK_DATA_SPEC_H

#include "base/status.h"
#include <stddef.h>
#include <stdint.h>

typedef struct {
    char *text;   /* as given */
    char *format; /* "synth", or "" */
    char *where;  /* "ctr" */
    size_t noptions;
    struct {
        char *key, *value;
    } option[16];
    char *storage; /* format, where and options point in here */
} yk_spec;

yk_status yk_spec_parse(const char *text, yk_spec *out);
void yk_spec_fini(yk_spec *spec);

yk_status yk_spec_u64(const yk_spec *spec, const char *key, uint64_t fallback, uint64_t least, uint64_t most,
                      uint64_t *out);
yk_status yk_spec_real(const yk_spec *spec, const char *key, double fallback, double least, double most,
                       double *out);
const char *yk_spec_text(const yk_spec *spec, const char *key, const char *fallback);
yk_status yk_spec_check(const yk_spec *spec, const char *known_keys);

#endif
