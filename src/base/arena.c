#include "base/arena.h"

#include "base/mem.h"
#include <stdlib.h>

void *yk_arena_alloc(yk_arena *a, size_t count, size_t size, const char *what)
{
    if (!a->status)
        a->status = YK_RESERVE(a->piece, a->cap, a->n + 1, what);
    void *piece = a->status ? NULL : yk_alloc(count, size, what);
    if (!piece)
        a->status = YK_ESYSTEM;
    else
        a->piece[a->n++] = piece;
    return piece;
}

void *yk_arena_take(yk_arena *a, void *piece)
{
    for (size_t i = 0; i < a->n; i++)
        if (a->piece[i] == piece) {
            a->piece[i] = NULL;
            return piece;
        }
    return NULL;
}

void yk_arena_free(yk_arena *a)
{
    for (size_t i = 0; i < a->n; i++)
        yk_free(a->piece[i]);
    free(a->piece);
    *a = (yk_arena){0};
}
