#include "data/tfrecord_pictures.h"

#include "format/example.h"
#include "format/tfrecord.h"
#include <string.h>

#define CLASSES_MOST 65536
#define LOOKED_AT    16 /* records, before it is given up to find a good one */

/* ---- one record */

enum { ENCODED, IMAGE, CLASS, LABEL, NFEATURES };

static yk_status find_features(const uint8_t *record, size_t n, const yk_feature **picture_out,
                               const yk_feature **label_out, yk_feature f[NFEATURES])
{
    static const char *const names[NFEATURES] = {"image/encoded", "image", "image/class/label", "label"};
    for (int i = 0; i < NFEATURES; i++)
        f[i] = (yk_feature){.name = names[i]};
    yk_status st = yk_example_find(record, n, f, NFEATURES);
    *picture_out = &f[f[ENCODED].kind ? ENCODED : IMAGE];
    *label_out = &f[f[CLASS].kind ? CLASS : LABEL];
    return st;
}

static yk_status check_feature(const yk_feature *f, yk_feature_kind kind, const char *missing)
{
    if (f->kind == YK_FEATURE_NONE)
        return yk_fail(YK_EDATA, "the feature '%s' is missing", missing);
    if (f->kind != kind)
        return yk_fail(YK_EDATA, "the feature '%s' is not a list of %s", f->name,
                       kind == YK_FEATURE_INTS ? "int64" : "bytes");
    if (f->count != 1)
        return yk_fail(YK_EDATA, "the feature '%s' has %zu values, not one", f->name, f->count);
    return YK_OK;
}

static yk_status read_class(const yk__tfr_pictures *t, const yk_feature *f, int32_t *out)
{
    int64_t most = (t->classes ? t->classes : CLASSES_MOST) - 1;
    if (f->number < t->base || f->number - t->base > most)
        return yk_fail(YK_EDATA, "the label %lld is not from %lld to %lld%s", (long long)f->number,
                       (long long)t->base, (long long)(t->base + most),
                       t->classes ? " (options base and classes)" : "");
    *out = (int32_t)(f->number - t->base);
    return YK_OK;
}

yk_status yk__tfr_pictures_add(const yk__tfr_pictures *t, yk_image_decoder *d, const uint8_t *record,
                               size_t n, yk_rows *rows)
{
    yk_feature f[NFEATURES];
    const yk_feature *picture, *label;
    int32_t class = 0;
    yk_status st = find_features(record, n, &picture, &label, f);
    if (st || (st = check_feature(picture, YK_FEATURE_BYTES, "image/encoded")) ||
        (st = check_feature(label, YK_FEATURE_INTS, "image/class/label")) ||
        (st = read_class(t, label, &class)))
        return st;
    st = yk__pictures_add(d, picture->bytes, picture->size, &t->form, class, rows);
    if (st == YK_EDATA)
        return yk_fail(st, "at byte %zu of its picture: %s", yk_image_offset(d), yk_error());
    return st;
}

/* ---- what the set is */

static bool looks_at_end(const yk_tfr *rec)
{
    return rec->kind != YK_TFR_RECORD && rec->kind != YK_TFR_BAD_DATA;
}

/* Looks for a picture in the first records: whether there is one, and if the form is open, its shape. Damage is no
 * error here: whoever reads the data meets it again and can say where it is. */
static yk_status look(const yk_files *files, yk__tfr_pictures *out, bool *found_out)
{
    yk_input *in;
    yk_status st = yk_input_open(files->path[0], 0, &in);
    *found_out = false;
    if (st)
        return st;
    for (int i = 0; i < LOOKED_AT && !*found_out; i++) {
        yk_tfr rec;
        yk_feature f[NFEATURES];
        const yk_feature *picture, *label;
        if (yk_tfr_next(in, &rec) || looks_at_end(&rec))
            break;
        if (rec.kind != YK_TFR_RECORD || find_features(rec.data, rec.size, &picture, &label, f) ||
            picture->kind != YK_FEATURE_BYTES || picture->count != 1)
            continue;
        st = out->form.height ? YK_OK : yk__pictures_like(picture->bytes, picture->size, &out->form);
        *found_out = !st || st == YK_EUSAGE;
        if (st == YK_ESYSTEM)
            break;
    }
    yk_input_free(in);
    return st == YK_EUSAGE    ? yk_fail(st, "%s: %s", files->path[0], yk_error())
           : st == YK_ESYSTEM ? st
                              : YK_OK;
}

static bool has_any(const yk_spec *spec)
{
    static const char *const keys[] = {"size", "fit", "channels", "base", "classes"};
    for (size_t i = 0; i < sizeof keys / sizeof keys[0]; i++)
        if (yk_spec_text(spec, keys[i], NULL))
            return true;
    return false;
}

yk_status yk__tfr_pictures_open(const yk_spec *spec, const yk_files *files, yk__tfr_pictures *out)
{
    const char *form = yk_spec_text(spec, "form", NULL);
    uint64_t base, classes;
    bool found = true;
    *out = (yk__tfr_pictures){0};
    if (form && strcmp(form, "image") && strcmp(form, "sparse"))
        return yk_fail(YK_EUSAGE, "%s: form=%s: image or sparse is expected", spec->text, form);
    bool sparse = (form && *form == 's') || yk_spec_text(spec, "features", NULL);
    if (sparse && (has_any(spec) || (form && *form == 'i')))
        return yk_fail(YK_EUSAGE, "%s: options of pictures and of sparse records do not go together",
                       spec->text);
    if (sparse)
        return YK_OK;
    yk_status st = yk__pictures_options(spec, &out->form);
    if (!st)
        st = yk_spec_u64(spec, "base", 0, 0, INT32_MAX, &base);
    if (!st)
        st = yk_spec_u64(spec, "classes", 0, 1, CLASSES_MOST, &classes);
    if (st)
        return st;
    bool told = form || has_any(spec);
    if ((!told || !out->form.height) && (st = look(files, out, &found)))
        return st;
    if (!found && told)
        return yk_fail(YK_EDATA,
                       "%s: none of its first records holds a good picture in 'image/encoded', so nothing "
                       "tells the size: add size=224",
                       files->path[0]);
    out->on = found;
    out->base = (int64_t)base;
    out->classes = (uint32_t)classes;
    return YK_OK;
}
