/* The formats that yk_source_open() knows, each in a file of its own; and what several of them share. A new source is a
 * file with a yk_source_ops and a row in source.c's table.
 *
 * `where` is the spec without its "format:" and options; `spec` gives the options (yk_spec_u64(spec, "features", ...)).
 */
#ifndef YK_DATA_FORMATS_H
#define YK_DATA_FORMATS_H

#include "data/files.h"
#include "data/source.h"
#include "format/input.h"

extern const yk_source_ops yk__idx_source, yk__tfrecord_source, yk__libsvm_source, yk__libffm_source,
    yk__criteo_source, yk__cifar10_source, yk__images_source, yk__cache_source, yk__synth_source;

/* How a sparse format's keys become columns: `features` and `bits` of the spec, then --features and --hash-bits; a number of
 * features goes before bits. usual_bits: hashed into 2^usual_bits where nothing is said; 0: not hashed. */
yk_status yk__spec_keys(const yk_spec *spec, const yk_source_options *o, unsigned usual_bits, uint64_t most,
                        yk_key_space *out);

/* ---- readers.c: sources of files in blocks */

typedef struct {
    yk_source base;
    yk_files files;
} yk__file_source;

typedef struct {
    yk_reader base;
    yk_input *in;
    const yk_file_block *block;
} yk__file_reader;

/* Cuts s->files into blocks. Before: yk_files_find() or the like. */
yk_status yk__file_blocks(yk__file_source *s, uint64_t block_bytes);
void yk__file_free(yk_source *s);
yk_status yk__file_reader_open(yk_reader *r);
void yk__file_reader_close(yk_reader *r);

/* ---- and sources that have all rows in memory (yk_source.cached). A reader copies its block: all rows if there is one
 * block, else YK__CACHED_BLOCK rows. */

enum { YK__CACHED_BLOCK = 4096 };

typedef struct {
    yk_reader base;
    size_t at; /* rows of the block that were given */
} yk__cached_reader;

yk_status yk__cached_next(yk_reader *reader, yk_rows *rows, size_t max, size_t *got_out);

/* Whether the directory holds the idx files of that half. */
bool yk_idx_in(const char *directory, yk_split split);

/* Whether the directory holds CIFAR-10's binary files of either half. */
bool yk_cifar10_in(const char *directory);

#endif
