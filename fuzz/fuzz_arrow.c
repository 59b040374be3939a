/* Arbitrary bytes as a table of Arrow arrays: rows or an error, never a crash. Buffers have the sizes that Arrow prescribes, and
 * their contents are arbitrary; but offsets of texts ascend, because nothing states the size of the texts (format/arrow.h). */
#include "input.h"

#include "data/frame.h"

enum { MAX_COLUMNS = 4, MAX_ROWS = 40, MAX_OFFSET = 7 };

static const uint8_t *at;
static size_t left;

static unsigned take(unsigned limit)
{
    if (!left)
        return 0;
    left--;
    return *at++ % limit;
}

/* `size` arbitrary bytes in memory of their own, so that a read beyond them is found. */
static void *fill(size_t size)
{
    uint8_t *p = calloc(size ? size : 1, 1);
    const size_t n = size < left ? size : left;
    if (!p)
        abort();
    memcpy(p, at, n);
    at += n;
    left -= n;
    return p;
}

static const char *const format[] = {"c",     "C",   "s",    "S",       "i",   "I",    "l",    "L",
                                     "e",     "f",   "g",    "b",       "u",   "U",    "z",    "Z",
                                     "tdD",   "tdm", "tsu:", "tss:UTC", "ttm", "n",    "vu",   "+l",
                                     "d:9,2", "w:3", "tDs",  "x",       "",    "tsn:", "tsm:", "tDm"};
static const char *const options[] = {"label=a",
                                      "label=a&scale=standard",
                                      "label=none",
                                      "label=a&encode=onehot&weight=b",
                                      "label=b&categorical=a,c",
                                      "label=a&split=0.5",
                                      "label=c&missing=1",
                                      ""};

typedef struct {
    struct ArrowSchema schema[MAX_COLUMNS], dictionary[MAX_COLUMNS], *child[MAX_COLUMNS];
    char name[MAX_COLUMNS][2];
    unsigned columns, batches;
} table;

static void release_schema(struct ArrowSchema *s)
{
    s->release = NULL;
}

static void release_array(struct ArrowArray *a)
{
    for (int64_t i = 0; i < a->n_children; i++) {
        a->children[i]->release(a->children[i]);
        free(a->children[i]);
    }
    free(a->children);
    for (int64_t i = 0; i < a->n_buffers; i++)
        free((void *)(uintptr_t)a->buffers[i]);
    free(a->buffers);
    if (a->dictionary)
        a->dictionary->release(a->dictionary);
    free(a->dictionary);
    a->release = NULL;
}

/* Ascending offsets, of `width` bytes each, into a buffer of 256 bytes. */
static void *offsets_of(size_t rows, size_t width)
{
    uint8_t *p = calloc(rows + 1, width);
    if (!p)
        abort();
    for (size_t i = 1, sum = 0; i <= rows; i++) {
        sum += sum < 200 ? take(5) : 0;
        memcpy(p + i * width, &sum, width);
    }
    return p;
}

static void fill_array(struct ArrowArray *a, const struct ArrowSchema *s, size_t rows)
{
    const char kind = s->format[0];
    const bool text = strchr("uUzZ", kind) && kind, wide = kind == 'U' || kind == 'Z';
    *a = (struct ArrowArray){
        .length = (int64_t)rows, .offset = (int64_t)take(MAX_OFFSET + 1), .release = release_array};
    const size_t all = rows + (size_t)a->offset;
    a->n_buffers = kind == 'n' ? 0 : text ? 3 : 2;
    a->buffers = calloc(4, sizeof *a->buffers);
    if (!a->buffers)
        abort();
    a->null_count = take(2) ? -1 : 0;
    if (a->n_buffers)
        a->buffers[0] = a->null_count ? fill((all + 7) / 8) : NULL;
    if (text) {
        a->buffers[1] = offsets_of(all, wide ? 8 : 4);
        a->buffers[2] = fill(256);
    } else if (a->n_buffers) {
        a->buffers[1] = fill(all * 16);
    }
    if (s->dictionary) {
        if (!(a->dictionary = calloc(1, sizeof *a->dictionary)))
            abort();
        fill_array(a->dictionary, s->dictionary, take(9));
    }
}

static int get_schema(struct ArrowArrayStream *stream, struct ArrowSchema *out)
{
    table *t = stream->private_data;
    *out = (struct ArrowSchema){.format = "+s",
                                .name = "",
                                .n_children = t->columns,
                                .children = t->child,
                                .release = release_schema};
    return 0;
}

static int get_next(struct ArrowArrayStream *stream, struct ArrowArray *out)
{
    table *t = stream->private_data;
    *out = (struct ArrowArray){.release = NULL};
    if (!t->batches)
        return 0;
    t->batches--;
    const size_t rows = take(MAX_ROWS);
    *out = (struct ArrowArray){
        .length = (int64_t)rows, .n_buffers = 1, .n_children = t->columns, .release = release_array};
    out->buffers = calloc(1, sizeof *out->buffers);
    out->children = calloc(t->columns, sizeof *out->children);
    for (unsigned i = 0; i < t->columns; i++) {
        out->children[i] = calloc(1, sizeof **out->children);
        fill_array(out->children[i], &t->schema[i], rows);
    }
    return 0;
}

static const char *last_error(struct ArrowArrayStream *stream)
{
    (void)stream;
    return "none";
}

static void release_stream(struct ArrowArrayStream *stream)
{
    stream->release = NULL;
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    at = data;
    left = size;
    table t = {.columns = 1 + take(MAX_COLUMNS), .batches = take(3)};
    yoke_arrow from = {.options = options[take(8)], .stream_once = take(2)};
    for (unsigned i = 0; i < t.columns; i++) {
        t.name[i][0] = (char)('a' + i);
        t.schema[i] = (struct ArrowSchema){
            .format = format[take(32)], .name = t.name[i], .release = release_schema, .flags = 2};
        t.dictionary[i] =
            (struct ArrowSchema){.format = format[take(32)], .name = "", .release = release_schema};
        if (take(3) == 0)
            t.schema[i].dictionary = &t.dictionary[i];
        t.child[i] = &t.schema[i];
    }
    struct ArrowArrayStream stream = {.get_schema = get_schema,
                                      .get_next = get_next,
                                      .get_last_error = last_error,
                                      .release = release_stream,
                                      .private_data = &t};
    const yk_source_options source = {.skip_bad = 5, .fields = YK_FIELDS_STORED};
    yk_frame *f = NULL;
    yk_source *s = NULL;
    yk_rows rows = {0};
    from.stream = &stream;
    if (!yk_frame_create(&from, &f) && !yk_source_from_frame(f, &source, &s)) {
        read_all(s, 5, &rows);
        for (size_t i = 0; i < rows.n; i++)
            for (uint64_t k = rows.start ? rows.start[i] : 0; rows.start && k < rows.start[i + 1]; k++)
                if (rows.index[k] >= (s->dim ? s->dim : rows.dim))
                    abort();
        yk_rows_fini(&rows);
        yk_source_free(s);
    }
    yk_frame_free(f);
    return 0;
}
