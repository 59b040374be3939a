/* `images:DIRECTORY`: JPEG and PNG images in class directories (image_folder.h), scaled to one size (image_options.h).
 *
 * The files are listed class by class, and a stream is shuffled only within windows. So blocks take the files in a fixed
 * random order: every block is a sample of all classes. A reader opens and decodes one file at a time, in the thread that
 * reads.
 */
#include "base/mem.h"
#include "base/perm.h"
#include "data/formats.h"
#include "data/image_folder.h"
#include "data/image_options.h"
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#define BLOCK_FILES 32
#define ORDER_SEED  0x70696374u
#define MAX_FILE    ((uint64_t)512 << 20)

typedef struct {
    yk_source base;
    yk_image_folder directories;
    yk_perm order;
    yk_image_form form;
} image_source;

typedef struct {
    yk_reader base;
    yk_image_decoder *decoder;
    uint64_t at, end;         /* positions in the order */
    size_t file[BLOCK_FILES]; /* of the last examples */
    uint8_t *bytes;           /* of one file */
    size_t cap;
} image_reader;

/* Reads a whole file. YK_EDATA: yk_error() is the reason, without the path. */
static yk_status load_file(const char *path, uint8_t **bytes, size_t *cap, size_t *n_out)
{
    struct stat s;
    yk_status st;
    const int fd = open(path, O_RDONLY | O_CLOEXEC);
    if (fd < 0)
        return yk_fail(errno == EMFILE || errno == ENFILE || errno == ENOMEM ? YK_ESYSTEM : YK_EDATA,
                       "cannot read: %s", strerror(errno));
    if (fstat(fd, &s))
        st = yk_fail(YK_EDATA, "%s", strerror(errno));
    else if ((uint64_t)s.st_size > MAX_FILE)
        st = yk_fail(YK_EDATA, "the file is too large: %llu bytes", (unsigned long long)s.st_size);
    else
        st = YK_RESERVE(*bytes, *cap, (size_t)s.st_size + 1, path);
    *n_out = 0;
    for (ssize_t got = 1; !st && got && *n_out < (size_t)s.st_size;) {
        got = read(fd, *bytes + *n_out, (size_t)s.st_size - *n_out);
        if (got > 0)
            *n_out += (size_t)got;
        else if (got < 0 && errno != EINTR)
            st = yk_fail(YK_EDATA, "%s", strerror(errno));
    }
    close(fd);
    return st;
}

/* ---- reading */

static yk_status image_reader_open(yk_reader *reader)
{
    const image_source *s = (const image_source *)reader->source;
    image_reader *r = (image_reader *)reader;
    r->at = (uint64_t)reader->block * BLOCK_FILES;
    r->end = s->directories.files - r->at > BLOCK_FILES ? r->at + BLOCK_FILES : s->directories.files;
    return yk_image_decoder_create(&r->decoder);
}

/* Adds one image; *added_out is false if it is bad and was skipped. */
static yk_status add_image(image_reader *r, size_t file, yk_rows *rows, bool *added_out)
{
    image_source *s = (image_source *)r->base.source;
    char path[PATH_MAX];
    size_t n, offset = 0;
    yk_image_folder_path(&s->directories, file, path, sizeof path);
    yk_status st = load_file(path, &r->bytes, &r->cap, &n);
    if (!st) {
        st = yk__image_add(r->decoder, r->bytes, n, &s->form, (int32_t)s->directories.file[file].class, rows);
        offset = yk_image_offset(r->decoder);
    }
    *added_out = !st;
    if (st == YK_EDATA)
        return yk_source_bad(&s->base, path, UINT64_MAX, offset, "%s", yk_error());
    return st ? yk_fail(st, "%s: %s", path, yk_error()) : YK_OK;
}

static yk_status image_next(yk_reader *reader, yk_rows *rows, size_t max, size_t *got_out)
{
    image_reader *r = (image_reader *)reader;
    const image_source *s = (const image_source *)reader->source;
    size_t got = 0;
    yk_status st = YK_OK;
    while (got < max && r->at < r->end && !st) {
        bool added;
        r->file[got] = (size_t)yk_perm_at(&s->order, r->at++);
        st = add_image(r, r->file[got], rows, &added);
        got += added;
    }
    *got_out = got;
    return st;
}

static void image_file(const yk_reader *reader, size_t i, char *path, size_t size)
{
    const image_reader *r = (const image_reader *)reader;
    yk_image_folder_path(&((const image_source *)reader->source)->directories, r->file[i], path, size);
}

static void image_reader_close(yk_reader *reader)
{
    image_reader *r = (image_reader *)reader;
    yk_image_decoder_free(r->decoder);
    free(r->bytes);
}

static void image_free(yk_source *source)
{
    yk_image_folder_fini(&((image_source *)source)->directories);
}

/* ---- opening */

/* Takes the size of the first good image. Reading the data will report the bad ones before it. */
static yk_status find_size(image_source *s)
{
    uint8_t *bytes = NULL;
    size_t cap = 0, n;
    char path[PATH_MAX];
    yk_status st = YK_EDATA;
    for (size_t i = 0; i < s->directories.files && st == YK_EDATA; i++) {
        yk_image_folder_path(&s->directories, i, path, sizeof path);
        if (!(st = load_file(path, &bytes, &cap, &n)))
            st = yk__image_form_like(bytes, n, &s->form);
    }
    free(bytes);
    return st ? yk_fail(st, "%s: %s", path, yk_error()) : YK_OK;
}

static yk_status image_open(yk_source *source, yk_spec *spec, yk_split split, const yk_source_options *o)
{
    (void)o;
    image_source *s = (image_source *)source;
    yk_status st = yk__image_options(spec, &s->form);
    if (!st && !*spec->where)
        st = yk_fail(YK_EUSAGE, "%s: the directory is missing: write images:DIRECTORY", spec->text);
    if (!st)
        st = yk_image_folder_list(spec->where, split, &s->directories);
    if (!st && !s->form.height)
        st = find_size(s);
    if (st)
        return st;
    s->order = yk_perm_make(s->directories.files, ORDER_SEED);
    yk__image_set_shape(source, &s->form);
    source->examples = s->directories.files;
    source->nblocks = (s->directories.files + BLOCK_FILES - 1) / BLOCK_FILES;
    source->classes = (uint32_t)s->directories.classes.n;
    source->has_test = s->directories.has_test;
    return YK_OK;
}

const yk_source_ops yk__images_source = {
    .name = "images",
    .usage = "images:DIRECTORY",
    .options = YK__IMAGE_KEYS,
    .source_size = sizeof(image_source),
    .reader_size = sizeof(image_reader),
    .open = image_open,
    .free = image_free,
    .reader_open = image_reader_open,
    .reader_close = image_reader_close,
    .next = image_next,
    .file = image_file,
};
