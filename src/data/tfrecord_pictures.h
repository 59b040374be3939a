/* TFRecords that hold pictures, as ImageNet's do: tf.train.Example with the encoded picture and its class.
 *
 *     image/encoded        bytes[1]   JPEG or PNG       (or `image`, as TensorFlow Datasets writes it)
 *     image/class/label    int64[1]   the class         (or `label`)
 *
 *     tfrecord:GLOB?size=224&fit=crop&channels=3&classes=1000&base=1
 *
 * base: the number of the first class in the files, 1 in ImageNet's, 0 where it is left out. classes: a label beyond is a
 * bad record; left out: counted when the data is loaded. The rest is that of pictures.h. That records are of this form
 * is seen in the first good one, or said by form=image.
 *
 * For tfrecord.c, which sees to files, blocks and damaged frames. Pure but for the decoder, of which every reader has its own.
 */
#ifndef YK_DATA_TFRECORD_PICTURES_H
#define YK_DATA_TFRECORD_PICTURES_H

#include "data/files.h"
#include "data/pictures.h"

#define YK__TFR_PICTURES_KEYS YK__PICTURES_KEYS " form base classes"

typedef struct {
    bool on; /* the records hold pictures */
    yk_image_form form;
    int64_t base;
    uint32_t classes; /* 0: not known */
} yk__tfr_pictures;

/* Options, and where they leave something open a look at the first records. */
yk_status yk__tfr_pictures_open(const yk_spec *spec, const yk_files *files, yk__tfr_pictures *out);

/* Adds the picture of one record. YK_EDATA: yk_error() is the reason, without file and record. */
yk_status yk__tfr_pictures_add(const yk__tfr_pictures *t, yk_image_decoder *d, const uint8_t *record,
                               size_t n, yk_rows *rows);

#endif
