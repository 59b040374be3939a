/* Writes a source to a file of another format: `yoke data gen` and `yoke data convert`.
 *
 * Example:
 *     yk_export_stats stats;
 *     st = yk_export(source, "cache", "clicks.cache", &stats);
 *
 * The formats:
 *
 *     tfrecord   tf.train.Example records with label, index, value, field (format/example.h); read back by tfrecord:FILE
 *     libsvm     a text line for each example, indices from 1; read back by libsvm:FILE
 *     libffm     the same with a field number before each index, indices from 0; read back by libffm:FILE
 *     cache      the binary cache (format/cache.h); keeps everything: images, fields, known probabilities; cache:FILE
 *
 * Examples keep their order and class numbers. In tfrecord, libsvm and libffm, a dense row is written as its nonzero
 * columns, pixels as byte/255. Memory use does not grow with the data. Writing a cache reads the source twice. The file appears
 * under its name when it is complete and on disk, or not at all.
 *
 * Bad records are skipped as by any reader (--skip-bad). A source without examples is YK_EDATA, an unknown format
 * YK_EUSAGE, a failed system call YK_ESYSTEM. Not thread-safe.
 */
#ifndef YK_DATA_EXPORT_H
#define YK_DATA_EXPORT_H

#include "data/source.h"

typedef struct {
    uint64_t examples;
    uint64_t entries; /* written */
    uint64_t bytes;   /* of the file */
    uint64_t dim;     /* 1 + the largest index, or the source's columns if they are known */
    uint32_t classes; /* 1 + the largest label, at least 2, or the source's */
} yk_export_stats;

yk_status yk_export(yk_source *s, const char *format, const char *path, yk_export_stats *out);

#endif
