/* Frames: tables that the caller passes as Arrow streams (format/arrow.h), as sources of examples.
 *
 * Example:
 *     yk_frame *f;
 *     yk_status st = yk_frame_create(&(yoke_arrow){.stream = &stream, .options = "label=clicked&scale=log"}, &f);
 *     yk_source *s;
 *     if (!st)
 *         st = yk_source_from_frame(f, &options, &s);  // any number of sources; f must outlive them
 *     yk_frame_free(f);
 *
 * By default, a frame reads the whole stream when it is created. The arrays are not copied, and can be read any number of times, by
 * several threads. With `stream_once`, the stream is read while the source is read, so that it may be larger than memory; then the frame
 * has one source, which is read once.
 */
#ifndef YK_DATA_FRAME_H
#define YK_DATA_FRAME_H

#include "data/source.h"
#include "format/arrow.h"
#include <yoke.h>

typedef struct yk_frame yk_frame;

/* Moves the stream: it is empty afterwards, even after a failure. Copies the texts, but not the labels. */
yk_status yk_frame_create(const yoke_arrow *from, yk_frame **out);
void yk_frame_free(yk_frame *f); /* NULL is fine */

/* The name of column i; NULL: there is no such column. *type_out (may be NULL): its type, such as "int64". */
const char *yk_frame_column(const yk_frame *f, size_t i, const char **type_out);

yk_status yk_source_from_frame(yk_frame *f, const yk_source_options *o, yk_source **out);

#endif
