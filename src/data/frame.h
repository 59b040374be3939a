/* A table of the caller, which is handed over as an Arrow stream (format/arrow.h), as a source of examples.
 *
 * Example:
 *     yk_frame *f;
 *     yk_status st = yk_frame_create(&stream, &(yk_frame_options){.options = "label=clicked&scale=log"}, &f);
 *     yk_source *s;
 *     if (!st)
 *         st = yk_source_from_frame(f, &options, &s);  // any number of sources; f must outlive them
 *     yk_frame_free(f);
 *
 * A frame takes all arrays of the stream when it is created: they stay where they are, and can be read any number of times, by
 * several threads. With `once`, arrays are taken one after the other while the source is read, so that a stream may be larger
 * than memory; then the frame has one source, which is read once.
 */
#ifndef YK_DATA_FRAME_H
#define YK_DATA_FRAME_H

#include "data/source.h"
#include "format/arrow.h"

typedef struct yk_frame yk_frame;

typedef struct {
    const char *options; /* of a table, as in a spec: "label=clicked&scale=log"; NULL: none */
    const int32_t
        *labels; /* [rows] class numbers, instead of the column that is the label; borrowed. NULL: none */
    size_t rows; /* of the labels */
    const char *label; /* with labels: the name of their column, in the table or not; NULL: "label" */
    const char *const *class_names; /* [classes] with labels; NULL: only numbers */
    uint32_t classes;               /* with labels; 0: not known */
    bool once;
} yk_frame_options;

/* Takes the stream: *stream is empty afterwards, even after a failure. Copies the options. */
yk_status yk_frame_create(struct ArrowArrayStream *stream, const yk_frame_options *o, yk_frame **out);
void yk_frame_free(yk_frame *f); /* NULL is fine */

/* The name of a column; NULL: there are fewer. *type_out (may be NULL): "int64". */
const char *yk_frame_column(const yk_frame *f, size_t i, const char **type_out);

yk_status yk_source_from_frame(yk_frame *f, const yk_source_options *o, yk_source **out);

#endif
