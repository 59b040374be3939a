#include "base/arena.h"

#include "base/mem.h"
#include <stdio.h>
#include <stdlib.h>

void *yk_arena_alloc(yk_arena *a, size_t count, size_t size, const char *what)
{
    if (!a->status)
        a->status = YK_RESERVE(a->piece, a->cap, a->n + 2, what);
    void *piece = a->status ? NULL : yk_alloc(count, size, what);
    if (!piece) {
        a->status = YK_ESYSTEM;
        return NULL;
    }
    a->piece[a->n++] = piece;
    a->piece[a->n] = NULL;
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

char *yk_arena_print(yk_arena *a, const char *format, ...)
{
    va_list args, again;
    va_start(args, format);
    va_copy(again, args);
    const int n = vsnprintf(NULL, 0, format, args);
    char *text = n < 0 ? NULL : yk_arena_alloc(a, (size_t)n + 1, 1, "a text");
    if (n < 0 && !a->status)
        a->status = yk_fail(YK_ESYSTEM, "cannot format a text: it is longer than 2 GB");
    if (text)
        vsnprintf(text, (size_t)n + 1, format, again);
    va_end(again);
    va_end(args);
    return text;
}

void yk_arena_free(yk_arena *a)
{
    for (size_t i = 0; i < a->n; i++)
        yk_free(a->piece[i]);
    free(a->piece);
    *a = (yk_arena){0};
}
