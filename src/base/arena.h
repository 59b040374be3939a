/* Memory that is allocated piece by piece and freed at once.
 *
 * Example:
 *     yk_arena a = {0};
 *     float *z = yk_arena_alloc(&a, 64, sizeof *z, "the margins of a batch");
 *     float *err = yk_arena_alloc(&a, 64, sizeof *err, "the errors of a batch");
 *     if (!a.status)
 *         z[0] = err[0];
 *     yk_arena_free(&a);
 *
 * Pieces are zeroed and aligned (base/mem.h). The first error is kept: later calls return NULL, so that one check of `status` at
 * the end is enough. One thread at a time.
 */
#ifndef YK_BASE_ARENA_H
#define YK_BASE_ARENA_H

#include "base/status.h"

typedef struct {
    void **piece; /* [n] owned, then NULL */
    size_t n, cap;
    yk_status status; /* YK_OK or YK_ESYSTEM */
} yk_arena;

void *yk_arena_alloc(yk_arena *a, size_t count, size_t size, const char *what);
/* Takes a piece out of the arena: the caller passes it to yk_free(). NULL: it is not one. */
void *yk_arena_take(yk_arena *a, void *piece);
char *yk_arena_print(yk_arena *a, const char *format, ...) __attribute__((format(printf, 2, 3)));
void yk_arena_free(yk_arena *a);

/* The pieces of an arena that has only texts, then NULL, such as the arguments of a program. Valid until the next piece is added; NULL if
 * there are none. */
static inline char **yk_arena_texts(const yk_arena *a)
{
    return (char **)a->piece;
}

#endif
