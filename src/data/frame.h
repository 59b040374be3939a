/* Frames: tables that the caller passes as Arrow streams (format/arrow.h), as sources of examples.
 *
 * Example:
 *     yk_frame *f;
 *     yk_status st = yk_frame_create(&stream, &(yk_frame_options){.options = "label=clicked&scale=log"}, &f);
 *     yk_source *s;
 *     if (!st)
 *         st = yk_source_from_frame(f, &options, &s);  // any number of sources; f must outlive them
 *     yk_frame_free(f);
 *
 * By default, a frame reads the whole stream when it is created. The arrays are not copied, and can be read any number of times, by
 * several threads. With `once`, the stream is read while the source is read, so that it may be larger than memory; then the frame
 * has one source, which is read once.
 */
#ifndef YK_DATA_FRAME_H
#define YK_DATA_FRAME_H

#include "data/source.h"
#include "format/arrow.h"

typedef struct yk_frame yk_frame;

typedef struct {
    const char *options;   /* of a table, as in a spec: "label=clicked&scale=log"; NULL: none */
    const int32_t *labels; /* [rows] class numbers, instead of a label column; borrowed. NULL: none */
    const float *weights;  /* [rows] instead of a weight column; borrowed. NULL: none */
    const float
        *targets;      /* [rows] labels that are numbers, instead of a label column; borrowed. NULL: none */
    size_t rows;       /* of the labels, weights and targets */
    const char *label; /* with labels: the name of their column, in the table or not; NULL: "label" */
    const char *const *class_names; /* [classes] with labels; NULL: only numbers */
    uint32_t classes;               /* with labels; 0: not known */
    bool once;
} yk_frame_options;

/* Moves the stream: *stream is empty afterwards, even after a failure. Copies the options, but not the labels. */
yk_status yk_frame_create(struct ArrowArrayStream *stream, const yk_frame_options *o, yk_frame **out);
void yk_frame_free(yk_frame *f); /* NULL is fine */

/* The name of column i; NULL: there is no such column. *type_out (may be NULL): its type, such as "int64". */
const char *yk_frame_column(const yk_frame *f, size_t i, const char **type_out);

yk_status yk_source_from_frame(yk_frame *f, const yk_source_options *o, yk_source **out);

#endif
