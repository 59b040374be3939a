#include "model/net_options.h"

#include "base/number.h"
#include <math.h>
#include <stdio.h>
#include <string.h>

yk_status yk_net_options_init(yk_net_options *o, const char *text)
{
    static const struct {
        const char *name;
        yk_init_kind kind;
    } plain[] = {
        {"he", YK_INIT_HE}, {"glorot", YK_INIT_GLOROT}, {"torch", YK_INIT_TORCH}, {"uniform", YK_INIT_TORCH}};
    if (!text)
        return YK_OK;
    o->given = true;
    for (size_t i = 0; i < sizeof plain / sizeof *plain; i++)
        if (strcmp(text, plain[i].name) == 0) {
            o->init = plain[i].kind;
            return YK_OK;
        }
    const bool normal = strncmp(text, "normal:", 7) == 0, uniform = strncmp(text, "uniform:", 8) == 0;
    if (!normal && !uniform)
        return yk_fail(
            YK_EUSAGE,
            "unknown --init %s; choose he, glorot, torch, normal:SIGMA or uniform:LIMIT, as in --init "
            "normal:0.01",
            text);
    const char *end = yk_decimal(strchr(text, ':') + 1, &o->init_size);
    if (!end || *end || !(o->init_size > 0.0))
        return yk_fail(YK_EUSAGE, "--init %s: expected a number above 0 after the colon, as in %s:0.01", text,
                       normal ? "normal" : "uniform");
    o->init = normal ? YK_INIT_NORMAL : YK_INIT_UNIFORM;
    return YK_OK;
}

/* "0.49/0.23,0.46/0.22" */
static yk_status parse_channels(yk_net_options *o, const char *text)
{
    for (const char *p = text;;) {
        double mean, deviation = 0.0;
        if (o->channels == YK_MAX_CHANNELS)
            return yk_fail(YK_EUSAGE, "--standardize channel: at most %d channels", YK_MAX_CHANNELS);
        const char *slash = yk_decimal(p, &mean),
                   *end = slash && *slash == '/' ? yk_decimal(slash + 1, &deviation) : NULL;
        if (!end || (*end && *end != ',') || !isfinite((float)mean) || !isnormal((float)deviation) ||
            deviation < 0.0)
            return yk_fail(YK_EUSAGE,
                           "--standardize channel:%s: expected MEAN/DEVIATION for each channel, as in "
                           "channel:0.49/0.23,0.46/0.22,0.41/0.23",
                           text);
        o->mean[o->channels] = (float)mean;
        o->deviation[o->channels++] = (float)deviation;
        if (!*end)
            return YK_OK;
        p = end + 1;
    }
}

yk_status yk_net_options_standardize(yk_net_options *o, const char *text)
{
    o->channels = 0;
    if (!text || strcmp(text, "none") == 0) {
        o->standardize = YK_STANDARDIZE_NONE;
        return YK_OK;
    }
    const bool image = strcmp(text, "image") == 0;
    o->given = true;
    o->standardize = image ? YK_STANDARDIZE_IMAGE : YK_STANDARDIZE_CHANNEL;
    if (image || strcmp(text, "channel") == 0)
        return YK_OK;
    if (strncmp(text, "channel:", 8) == 0)
        return parse_channels(o, text + 8);
    return yk_fail(YK_EUSAGE,
                   "unknown --standardize %s; choose none, image, channel or channel:MEAN/DEVIATION,...",
                   text);
}

void yk_net_options_standardize_text(const yk_net_options *o, char out[static YK_STANDARDIZE_TEXT])
{
    static const char *const name[] = {"none", "image", "channel"};
    int n = snprintf(out, YK_STANDARDIZE_TEXT, "%s", name[o->standardize]);
    for (size_t i = 0; o->standardize == YK_STANDARDIZE_CHANNEL && i < o->channels; i++)
        n += snprintf(out + n, (size_t)(YK_STANDARDIZE_TEXT - n), "%c%.9g/%.9g", i ? ',' : ':',
                      (double)o->mean[i], (double)o->deviation[i]);
}

yk_status yk_net_options_augment(yk_net_options *o, const char *text)
{
    if (!text || strcmp(text, "none") == 0)
        return YK_OK;
    o->given = true;
    for (const char *p = text;;) {
        const size_t length = strcspn(p, ",");
        if (length == 4 && strncmp(p, "flip", 4) == 0) {
            o->flip = true;
        } else if (length > 5 && strncmp(p, "crop:", 5) == 0) {
            uint64_t pixels = 0;
            if (yk_digits(p + 5, YK_MAX_CROP, &pixels) != p + length || !pixels)
                return yk_fail(YK_EUSAGE, "--augment %s: crop:PIXELS takes 1 to %d pixels, as in crop:4",
                               text, YK_MAX_CROP);
            o->crop = pixels;
        } else {
            return yk_fail(
                YK_EUSAGE,
                "unknown --augment %s; choose flip, crop:PIXELS or both, as in --augment flip,crop:4", text);
        }
        if (!p[length])
            return YK_OK;
        p += length + 1;
    }
}
