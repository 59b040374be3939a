#include "data/tfrecord_images.h"

#include "format/example.h"
#include "format/tfrecord.h"

#define MAX_CLASSES 65536
#define PROBED      16 /* records that are tried to find a good one */

/* ---- one record */

enum { ENCODED, IMAGE, CLASS, LABEL, NFEATURES };

static yk_status find_features(const yk__tfr_images *t, const uint8_t *record, size_t n,
                               const yk_feature **picture_out, const yk_feature **label_out,
                               yk_feature f[NFEATURES])
{
    static const char *const names[NFEATURES] = {"image/encoded", "image", "image/class/label", "label"};
    for (int i = 0; i < NFEATURES; i++) {
        const char *given = i < CLASS ? t->image_name : t->label_name;
        f[i] = (yk_feature){.name = given ? given : names[i]};
    }
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

static yk_status read_class(const yk__tfr_images *t, const yk_feature *f, int32_t *out)
{
    int64_t max = (t->classes ? t->classes : MAX_CLASSES) - 1;
    if (f->number < t->base || f->number - t->base > max)
        return yk_fail(YK_EDATA, "the label %lld is not in the range %lld to %lld%s", (long long)f->number,
                       (long long)t->base, (long long)(t->base + max),
                       t->classes ? " (options base and classes)" : "");
    *out = (int32_t)(f->number - t->base);
    return YK_OK;
}

yk_status yk__tfr_images_add(const yk__tfr_images *t, yk_image_decoder *d, const uint8_t *record, size_t n,
                             yk_rows *rows)
{
    yk_feature f[NFEATURES];
    const yk_feature *image, *label;
    int32_t class = 0;
    yk_status st = find_features(t, record, n, &image, &label, f);
    if (st ||
        (st = check_feature(image, YK_FEATURE_BYTES, t->image_name ? t->image_name : "image/encoded")) ||
        (!(t->unlabeled && !label->kind) &&
         ((st = check_feature(label, YK_FEATURE_INTS, t->label_name ? t->label_name : "image/class/label")) ||
          (st = read_class(t, label, &class)))))
        return st;
    st = yk__image_add(d, image->bytes, image->size, &t->form, class, rows);
    if (st == YK_EDATA)
        return yk_fail(st, "at byte %zu of the image: %s", yk_image_offset(d), yk_error());
    return st;
}

/* ---- opening */

/* Searches the first records for an image, and takes its shape unless the options set it. Damaged records are skipped:
 * reading the data will report them. */
static yk_status probe(const yk_files *files, yk__tfr_images *out, bool *found_out)
{
    yk_input *in;
    yk_status st = yk_input_open(files->path[0], 0, &in);
    *found_out = false;
    if (st)
        return st;
    for (int i = 0; i < PROBED && !*found_out; i++) {
        yk_tfr rec;
        yk_feature f[NFEATURES];
        const yk_feature *image, *label;
        if (yk_tfr_next(in, &rec) || (rec.kind != YK_TFR_RECORD && rec.kind != YK_TFR_BAD_DATA))
            break;
        if (rec.kind != YK_TFR_RECORD || find_features(out, rec.data, rec.size, &image, &label, f) ||
            image->kind != YK_FEATURE_BYTES || image->count != 1)
            continue;
        st = out->form.height ? YK_OK : yk__image_form_like(image->bytes, image->size, &out->form);
        *found_out = !st || st == YK_EUSAGE;
        if (st == YK_ESYSTEM)
            break;
    }
    yk_input_free(in);
    return st == YK_EUSAGE    ? yk_fail(st, "%s: %s", files->path[0], yk_error())
           : st == YK_ESYSTEM ? st
                              : YK_OK;
}

static bool has_any(const yk_spec *spec, const char *const *keys)
{
    while (*keys && !yk_spec_text(spec, *keys))
        keys++;
    return *keys;
}

yk_status yk__tfr_images_open(yk_source *source, const yk_files *files, yk__tfr_images *out)
{
    yk_spec *spec = &source->parsed;
    enum { FORM_IMAGE, FORM_SPARSE, FORM_AUTO };
    static const char *const of_sparse[] = {"features", "index", "value", "field", NULL};
    static const char *const of_images[] = {"size", "fit", "channels", "base", "classes", "image", NULL};
    *out = (yk__tfr_images){.label_name = out->label_name, .image_name = out->image_name};
    const int form = yk_spec_choice(spec, "form", "image sparse", FORM_AUTO);
    const bool sparse = form == FORM_SPARSE || has_any(spec, of_sparse),
               images = form == FORM_IMAGE || has_any(spec, of_images);
    bool found = true;
    if (spec->status)
        return spec->status;
    if (sparse && images)
        return yk_fail(YK_EUSAGE, "%s: options of images and of sparse records cannot be combined",
                       spec->text);
    if (sparse)
        return YK_OK;
    out->base = (int64_t)yk_spec_u64(spec, "base", 0, 0, INT32_MAX);
    out->classes = (uint32_t)yk_spec_u64(spec, "classes", 0, 1, MAX_CLASSES);
    yk_status st = yk__image_options(source, &out->form);
    if (st)
        return st;
    if ((!images || !out->form.height) && (st = probe(files, out, &found)))
        return st;
    if (!found && images)
        return yk_fail(
            YK_EDATA,
            "%s: none of the first %d records has a valid image in 'image/encoded', so the size is "
            "not known: add size=224",
            files->path[0], PROBED);
    out->on = found;
    return YK_OK;
}
