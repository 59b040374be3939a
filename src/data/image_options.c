#include "data/image_options.h"

#include "base/number.h"
#include "data/schema.h"
#include <string.h>

#define MAX_SIDE 4096

static yk_status read_size(const yk_spec *spec, yk_image_form *out)
{
    const char *text = yk_spec_text(spec, "size");
    uint64_t height = 0, width;
    out->height = out->width = 0;
    if (!text)
        return YK_OK;
    const char *end = yk_digits(text, MAX_SIDE, &height);
    width = height;
    if (end && *end == 'x')
        end = yk_digits(end + 1, MAX_SIDE, &width);
    if (!end || *end || !height || !width)
        return yk_fail(YK_EUSAGE, "%s: size=%s: must be size=224 or size=HEIGHTxWIDTH, each from 1 to %d",
                       spec->text, text, MAX_SIDE);
    out->height = height;
    out->width = width;
    return YK_OK;
}

yk_status yk__image_options(yk_source *source, yk_image_form *out)
{
    yk_spec *spec = &source->parsed;
    const yk_schema *images = source->options.images;
    static const char *const names[] = {"crop", "pad", "resize"};
    const char *fit = yk_spec_text(spec, "fit");
    const yk_schema *model =
        images && images->fit && images->height <= MAX_SIDE && images->width <= MAX_SIDE ? images : NULL;
    yk_status st = read_size(spec, out);
    if (st)
        return st;
    if (model && fit && strcmp(fit, model->fit))
        return yk_fail(YK_EUSAGE, "%s: fit=%s: the model was trained with fit=%s: leave out this option",
                       spec->text, fit, model->fit);
    if (model && !out->height) {
        out->height = model->height;
        out->width = model->width;
    }
    if (fit && !out->height)
        return yk_fail(YK_EUSAGE, "%s: fit=%s needs a size: add size=224 or size=HEIGHTxWIDTH", spec->text,
                       fit);
    const size_t channels[] = {1, 3, model ? model->channels : out->height ? 3 : 0};
    int known = YK_FIT_CROP;
    while (model && known < YK_FIT_RESIZE && strcmp(names[known], model->fit))
        known++;
    out->channels = channels[yk_spec_choice(spec, "channels", "1 3", 2)];
    out->fit = (yk_fit)yk_spec_choice(spec, "fit", YK_FIT_NAMES, known);
    source->fit = out->height ? names[out->fit] : NULL;
    return spec->status;
}

yk_status yk__image_form_like(const uint8_t *bytes, size_t n, yk_image_form *form)
{
    yk_image_decoder *d;
    yk_image_form own;
    yk_status st = yk_image_decoder_create(&d);
    if (st)
        return st;
    st = yk_image_measure(d, bytes, n, &own);
    yk_image_decoder_free(d);
    if (st)
        return st;
    if (own.height > MAX_SIDE || own.width > MAX_SIDE)
        return yk_fail(YK_EUSAGE, "the first image has %zu x %zu pixels, which is too large: add ?size=224",
                       own.height, own.width);
    own.channels = form->channels ? form->channels : own.channels;
    *form = own;
    return YK_OK;
}

yk_status yk__image_add(yk_image_decoder *d, const uint8_t *bytes, size_t n, const yk_image_form *form,
                        int32_t label, yk_rows *rows)
{
    uint8_t *planes;
    yk_status st = yk_rows_dense_u8(rows, &planes);
    if (!st)
        st = yk_image_decode(d, bytes, n, form, planes);
    return st ? st : yk_rows_commit(rows, 0, label);
}
