/* `cifar10:DIRECTORY`, `cifar10:FILE`: CIFAR-10 in its binary version, plain or compressed.
 *
 *     data_batch_1.bin .. data_batch_5.bin     the training split, 10,000 records each
 *     test_batch.bin                           the test split
 *     batches.meta.txt                         the names of the classes, one per line; may be missing
 *
 *     record   | label u8, 0..9 | 1024 red | 1024 green | 1024 blue |     3073 bytes, planes of 32 x 32, row by row
 *
 * The names may end in .gz. A file or a pattern is used as given, for either split. A block is about a megabyte of whole
 * records of a plain file, or a compressed file.
 */
#include "data/columns.h"
#include "data/formats.h"
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#define SIDE    32
#define PIXELS  (3 * SIDE * SIDE)
#define RECORD  (1 + PIXELS)
#define CLASSES 10
#define BATCHES 5
#define BLOCK   (RECORD * 340)

/* ---- which files */

static bool has_file(const char *directory, const char *name)
{
    char *path = NULL;
    bool there = !yk__find_plain_or_gz(directory, name, &path) && path;
    free(path);
    return there;
}

static bool has_directory(const char *directory)
{
    return has_file(directory, "data_batch_1.bin") || has_file(directory, "test_batch.bin");
}

/* Adds the file to the list if it exists. */
static yk_status add_file(yk_files *files, const char *directory, const char *name)
{
    char *path;
    yk_status st = yk__find_plain_or_gz(directory, name, &path);
    if (!st && path)
        st = yk_files_add(files, path);
    free(path);
    return st;
}

static yk_status find_split(const char *directory, yk_split split, yk_files *files)
{
    yk_status st = split == YK_SPLIT_TEST ? add_file(files, directory, "test_batch.bin") : YK_OK;
    for (int i = 1; i <= BATCHES && split != YK_SPLIT_TEST && !st; i++) {
        char name[32];
        snprintf(name, sizeof name, "data_batch_%d.bin", i);
        st = add_file(files, directory, name);
    }
    if (!st && !files->n)
        st = yk_fail(YK_EDATA, "%s: no %s[.gz] in this directory", directory,
                     split == YK_SPLIT_TEST ? "test_batch.bin" : "data_batch_1.bin to data_batch_5.bin");
    return st;
}

/* ---- reading */

static yk_status cifar_row(yk_reader *r, yk_rows *rows)
{
    const uint64_t at = r->in->offset, record = at / RECORD + 1;
    const char *const path = r->range->path;
    const uint8_t *p;
    uint8_t *pixels;
    size_t have = 0;
    yk_status st = at < r->range->end ? yk_input_peek(r->in, RECORD, &p, &have) : YK_OK;
    r->ended = st || have < RECORD;
    if (st) /* if the compressed data is damaged, there are no more records */
        return st == YK_EDATA ? yk_source_bad(r->source, path, record, r->in->offset, "%s", r->in->reason)
                              : st;
    if (r->ended && !have && at)
        return YK_OK;
    if (r->ended)
        return yk_source_bad(r->source, path, record, at,
                             "truncated: a record has %d bytes, but the file ends after %zu (only CIFAR-10's "
                             "binary version can be read)",
                             RECORD, have);
    if (p[0] >= CLASSES) {
        st = yk_source_bad(r->source, path, record, at, "the label %u is not a class from 0 to 9", p[0]);
    } else if (!(st = yk_rows_dense_u8(rows, &pixels))) {
        memcpy(pixels, p + 1, PIXELS);
        st = yk_rows_commit(rows, 0, p[0]);
    }
    yk_input_skip(r->in, RECORD);
    return st;
}

/* The number of rows is known, unless the file is compressed. */
static yk_status cifar_reader_open(yk_reader *r)
{
    const yk_status st = yk__file_reader_open(r, 0);
    if (!st && r->range->end != UINT64_MAX)
        r->end = (r->range->end - r->range->begin) / RECORD;
    return st;
}

static yk_status read_names(yk_source *s, const char *directory)
{
    char *path = yk__path_join(directory, "batches.meta.txt");
    yk_input *in = NULL;
    yk_status st = path ? YK_OK : yk_fail_memory(strlen(directory), "a file's name");
    const char *line = path && !access(path, F_OK) ? "" : NULL;
    if (line)
        st = yk_input_open(path, 0, &in);
    while (line && !st && s->names.n < CLASSES) {
        size_t n;
        uint64_t lines;
        char token[48];
        st = yk_input_line(in, false, &line, &n, &lines);
        if (st || !line || !n)
            continue;
        if (yk__words_find(&s->names, line, n) < s->names.n)
            st = yk_fail(YK_EDATA, "%s: two classes have the name '%s'", path, yk__text_show(line, n, token));
        else
            st = yk__names_add(&s->names, line, n);
    }
    yk_input_free(in);
    free(path);
    return st;
}

static yk_status cifar_open(yk_source *source)
{
    yk_spec *spec = &source->parsed;
    bool directory = yk__is_directory(spec->where), whole = true;
    yk_status st = directory ? find_split(spec->where, source->split, &source->files)
                             : yk_files_find(spec->where, &source->files);
    if (st || (st = yk__file_blocks(source, BLOCK)) || (directory && (st = read_names(source, spec->where))))
        return st;
    source->class_names = source->names.n == CLASSES ? &source->names : NULL;
    yk__set_images(source, SIDE, SIDE, 3);
    for (size_t b = 0; b < source->nblocks; b++) {
        const yk_file_block *k = &source->files.block[b];
        const uint64_t bytes = k->end - k->begin;
        whole &= k->end != UINT64_MAX && bytes % RECORD == 0;
        source->examples += bytes / RECORD;
    }
    source->examples = whole ? source->examples : 0; /* not known if a file is compressed or incomplete */
    source->classes = CLASSES;
    source->has_test = directory && has_file(spec->where, "test_batch.bin");
    return YK_OK;
}

const yk_source_ops yk__cifar10_source = {
    .name = "cifar10",
    .usage = "cifar10:DIRECTORY",
    .options = "",
    .has_directory = has_directory,
    .open = cifar_open,
    .reader_open = cifar_reader_open,
    .row = cifar_row,
    .two_sets = true,
};
