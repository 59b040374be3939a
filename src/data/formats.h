/* The formats that yk_source_open() knows: one opener each, in a file of its own. A new source is a file with an opener
 * and a row in source.c's table.
 *
 * `where` is the spec without its "format:" and options; `spec` gives the options (yk_spec_u64(spec, "features", ...)).
 */
#ifndef YK_DATA_FORMATS_H
#define YK_DATA_FORMATS_H

#include "data/source.h"
#include "data/spec.h"

yk_status yk_idx_open(const yk_spec *spec, yk_split split, const yk_source_options *o, yk_source **out);
yk_status yk_tfrecord_open(const yk_spec *spec, yk_split split, const yk_source_options *o, yk_source **out);
yk_status yk_libsvm_open(const yk_spec *spec, yk_split split, const yk_source_options *o, yk_source **out);
yk_status yk_criteo_open(const yk_spec *spec, yk_split split, const yk_source_options *o, yk_source **out);
yk_status yk_cifar10_open(const yk_spec *spec, yk_split split, const yk_source_options *o, yk_source **out);
yk_status yk_images_open(const yk_spec *spec, yk_split split, const yk_source_options *o, yk_source **out);
yk_status yk_cache_open(const yk_spec *spec, yk_split split, const yk_source_options *o, yk_source **out);
yk_status yk_synth_open(const yk_spec *spec, yk_split split, const yk_source_options *o, yk_source **out);

/* cached.c: readers for sources that have all rows in memory (yk_source.cached). Each copies its block: all rows if
 * there is one block, else YK__CACHED_BLOCK rows. */
enum { YK__CACHED_BLOCK = 4096 };
yk_status yk__cached_read(yk_source *source, size_t block, yk_reader **out);
yk_status yk__cached_next(yk_reader *reader, yk_rows *rows, size_t max, size_t *got_out);
void yk__cached_reader_free(yk_reader *reader);

/* Whether the directory holds the idx files of that half. */
bool yk_idx_in(const char *directory, yk_split split);

/* Whether the directory holds CIFAR-10's binary files of either half. */
bool yk_cifar10_in(const char *directory);

#endif
