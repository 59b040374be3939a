/* Rows of the caller (data/memory.h): what yk_memory_check() finds out, and parts of them. */
#include "data/memory.h"
#include "scratch.h"

#include <math.h>

enum { ROWS = 100, WIDTH = 3, COLUMNS = 50 };

typedef struct {
    uint64_t start[ROWS + 1];
    uint32_t index[ROWS * WIDTH];
    float value[ROWS * WIDTH];
    int32_t label[ROWS];
} arrays;

/* Three ascending indices in each row, values of 1, alternating labels. */
static yk_memory_data fill(arrays *a)
{
    for (int r = 0; r < ROWS; r++) {
        a->start[r + 1] = (uint64_t)(r + 1) * WIDTH;
        a->label[r] = r % 2;
        for (int k = 0; k < WIDTH; k++) {
            a->index[r * WIDTH + k] =
                (uint32_t)(r % 10 + 20 * k); /* a row begins below the end of the last */
            a->value[r * WIDTH + k] = 1.0f;
        }
    }
    a->start[0] = 0;
    return (yk_memory_data){.rows = {.kind = YK_ROWS_SPARSE,
                                     .n = ROWS,
                                     .dim = COLUMNS,
                                     .start = a->start,
                                     .index = a->index,
                                     .value = a->value,
                                     .label = a->label}};
}

static void checks(void **state)
{
    (void)state;
    arrays a;
    yk_memory_data m = fill(&a);
    for (int r = 0; r < ROWS; r++)
        for (int k = 0; k < WIDTH; k++)
            a.index[r * WIDTH + k] =
                (uint32_t)(r % 10 + 20 * k); /* rows begin below the end of the row before */
    assert_int_equal(yk_memory_check(&m), YK_OK);
    assert_true(m.ascending && m.mixed && !m.rows.value);
    assert_int_equal(m.classes, 2);

    m = fill(&a);
    a.value[ROWS * WIDTH - 1] = 0.5f;
    a.index[7] = a.index[6];
    for (int r = 0; r < ROWS; r++)
        a.label[r] = r >= ROWS / 2; /* sorted by class */
    assert_int_equal(yk_memory_check(&m), YK_OK);
    assert_true(!m.ascending && !m.mixed && m.rows.value);

    m = fill(&a);
    a.value[ROWS * WIDTH - 1] = INFINITY;
    assert_int_equal(yk_memory_check(&m), YK_EDATA);
    assert_non_null(strstr(yk_error(), "row 99"));
    m = fill(&a);
    a.index[ROWS * WIDTH - 2] = COLUMNS;
    assert_int_equal(yk_memory_check(&m), YK_EDATA);
    assert_non_null(strstr(yk_error(), "row 99: index 50"));
    m = fill(&a);
    a.start[ROWS] -= 2 * WIDTH;
    assert_int_equal(yk_memory_check(&m), YK_EDATA);
    m = fill(&a);
    a.start[ROWS] = (uint64_t)-1;
    assert_int_equal(yk_memory_check(&m), YK_EDATA);
    assert_non_null(strstr(yk_error(), "ends at entry -1"));
}

static void empty_rows_do_not_count(void **state)
{
    (void)state;
    uint64_t start[] = {0, 0, 2, 2, 4, 4};
    uint32_t index[] = {3, 4, 1, 2};
    int32_t label[5] = {0};
    yk_memory_data m = {
        .rows = {.kind = YK_ROWS_SPARSE, .n = 5, .dim = 5, .start = start, .index = index, .label = label}};
    assert_int_equal(yk_memory_check(&m), YK_OK);
    assert_true(m.ascending);
    index[3] = 1;
    assert_int_equal(yk_memory_check(&m), YK_OK);
    assert_false(m.ascending);
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(checks), cmocka_unit_test(empty_rows_do_not_count)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
