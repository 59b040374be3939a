/* Arenas: pieces are zeroed and separate, the first error is kept, and everything is freed. */
#include "scratch.h"

#include "base/arena.h"
#include "base/mem.h"

static void pieces_are_zeroed_and_aligned(void **state)
{
    (void)state;
    yk_arena a = {0};
    for (size_t n = 0; n < 100; n++) {
        unsigned char *p = yk_arena_alloc(&a, n, 1000, "a piece");
        assert_non_null(p);
        assert_int_equal((uintptr_t)p % YK_ALIGN, 0);
        for (size_t i = 0; i < n * 1000; i++)
            assert_int_equal(p[i], 0);
        memset(p, 1, n * 1000);
    }
    assert_int_equal(a.status, YK_OK);
    yk_arena_free(&a);
    assert_non_null(yk_arena_alloc(&a, 1, 1, "a piece")); /* can be used again */
    yk_arena_free(&a);
    yk_arena_free(&a);
}

static void the_first_error_is_kept(void **state)
{
    (void)state;
    yk_arena a = {0};
    assert_non_null(yk_arena_alloc(&a, 1, 1, "a piece"));
    assert_null(yk_arena_alloc(&a, SIZE_MAX / 2, 3, "too many things"));
    assert_message("too many things");
    assert_null(yk_arena_alloc(&a, 1, 1, "another piece"));
    assert_message("too many things");
    assert_int_equal(a.status, YK_ESYSTEM);
    yk_arena_free(&a);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(pieces_are_zeroed_and_aligned),
        cmocka_unit_test(the_first_error_is_kept),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
