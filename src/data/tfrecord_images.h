/* TFRecords of images, such as ImageNet's: each record is a tf.train.Example with an encoded image and its class.
 *
 *     image/encoded        bytes[1]   JPEG or PNG       (or `image`, as TensorFlow Datasets writes it)
 *     image/class/label    int64[1]   the class         (or `label`)
 *
 *     tfrecord:GLOB?size=224&fit=crop&channels=3&classes=1000&base=1
 *
 * base: the number of the first class in the files; 1 for ImageNet, 0 by default. classes: the number of classes; a label
 * out of range is a bad record; by default, classes are counted when the data is loaded. label and image: names of the
 * features. form=image or form=sparse sets the kind of the records; by default, the first good record decides. The other
 * options are those of image_options.h.
 *
 * Used by tfrecord.c, which reads files, blocks and frames. Stateless except for the decoder; each reader has its own.
 */
#ifndef YK_DATA_TFRECORD_IMAGES_H
#define YK_DATA_TFRECORD_IMAGES_H

#include "data/files.h"
#include "data/image_options.h"

#define YK__TFR_IMAGE_KEYS YK__IMAGE_KEYS " form base classes image"

typedef struct {
    const char *label_name, *image_name; /* set before open; NULL: those above. Borrowed */
    bool unlabeled;                      /* records may have no label: class 0 */
    bool on;                             /* the records are images */
    yk_image_form form;
    int64_t base;
    uint32_t classes; /* 0: not known */
} yk__tfr_images;

/* Reads the options; if they do not decide everything, also the first records. */
yk_status yk__tfr_images_open(yk_source *source, const yk_files *files, yk__tfr_images *out);

/* Decodes the image of one record into a new row. YK_EDATA: yk_error() is the reason, without file and record. */
yk_status yk__tfr_images_add(const yk__tfr_images *t, yk_image_decoder *d, const uint8_t *record, size_t n,
                             yk_rows *rows);

#endif
