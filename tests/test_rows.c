/* Examples as rows, the keys of a batch, and the key remap that puts frequent keys first. */
#include "scratch.h"

#include "base/rng.h"
#include "core/grad.h"
#include "core/keymap.h"
#include "core/keys.h"
#include "core/rows.h"
#include <math.h>
#include <sys/mman.h>

/* ---- rows */

static void add_row(yk_rows *rows, size_t n, const uint32_t *index, const float *value, int32_t label)
{
    uint32_t *to;
    float *x;
    assert_int_equal(yk_rows_sparse(rows, n, &to, &x), YK_OK);
    for (size_t i = 0; i < n; i++) {
        assert_true(x[i] == 1.0f);
        to[i] = index[i];
        if (value)
            x[i] = value[i];
    }
    assert_int_equal(yk_rows_commit(rows, n, label), YK_OK);
}

static void assert_row(const yk_rows *rows, size_t r, size_t n, const uint32_t *index, const float *value,
                       int32_t label)
{
    assert_true(r < rows->n);
    assert_int_equal(yk_rows_entries(rows, r), n);
    assert_int_equal(rows->label[r], label);
    for (size_t i = 0; i < n; i++) {
        assert_int_equal(rows->index[rows->start[r] + i], index[i]);
        assert_true((rows->value ? rows->value[rows->start[r] + i] : 1.0f) == (value ? value[i] : 1.0f));
    }
}

#define ROW(...)                                                                                             \
    (sizeof((uint32_t[]){__VA_ARGS__}) / 4), (uint32_t[])                                                    \
    {                                                                                                        \
        __VA_ARGS__                                                                                          \
    }
#define VALUES(...) ((float[]){__VA_ARGS__})

/* As between two processes: sends all bytes, then receives them. */
typedef struct {
    bool sends;
    char *bytes;
    size_t n;
} wire;

static yk_status move(void *context, void *data, size_t bytes)
{
    wire *w = context;
    if (w->sends)
        assert_non_null(w->bytes = realloc(w->bytes, w->n + bytes));
    memcpy(w->sends ? w->bytes + w->n : data, w->sends ? data : w->bytes + w->n, bytes);
    w->n += bytes;
    return YK_OK;
}

static void transfer(yk_rows *rows, yk_rows *back)
{
    wire w = {.sends = true};
    assert_int_equal(yk_rows_transfer(rows, true, move, &w), YK_OK);
    const size_t sent = w.n;
    w.sends = false;
    w.n = 0;
    assert_int_equal(yk_rows_transfer(back, false, move, &w), YK_OK);
    assert_int_equal(w.n, sent);
    free(w.bytes);
}

static void rows_become_sorted_and_merged(void **state)
{
    (void)state;
    yk_rows rows;
    yk_rows_init(&rows, YK_ROWS_SPARSE, 0);
    add_row(&rows, ROW(3, 7, 402), NULL, 1);
    add_row(&rows, 0, NULL, NULL, 0);
    add_row(&rows, ROW(9, 2, 5), NULL, 0);
    assert_null(rows.value);
    assert_int_equal(rows.dim, 403);
    assert_int_equal(yk_rows_bytes(&rows), 3 * 4 + 4 * 8 + 6 * 4);
    uint32_t *index;
    float *value;
    assert_int_equal(yk_rows_sparse(&rows, 50, &index, &value),
                     YK_OK); /* a reserved row that is not committed adds nothing */
    assert_int_equal(rows.n, 3);
    add_row(&rows, ROW(4, 1, 4), NULL, 1); /* index 4 twice: its value is 2, so all rows get values */
    assert_non_null(rows.value);
    add_row(&rows, ROW(6, 5), VALUES(0.5f, -3.0f), 0);
    add_row(&rows, ROW(8), NULL, 1);
    assert_row(&rows, 0, ROW(3, 7, 402), NULL, 1);
    assert_row(&rows, 1, 0, NULL, NULL, 0);
    assert_row(&rows, 2, ROW(2, 5, 9), NULL, 0);
    assert_row(&rows, 3, ROW(1, 4), VALUES(1, 2), 1);
    assert_row(&rows, 4, ROW(5, 6), VALUES(-3.0f, 0.5f), 0);
    assert_row(&rows, 5, ROW(8), NULL, 1);
    yk_rows_clear(&rows);
    assert_int_equal(rows.n + rows.dim, 0);
    add_row(&rows, ROW(1, 0), VALUES(2, 3), 0);
    assert_row(&rows, 0, ROW(0, 1), VALUES(3, 2), 0);
    yk_rows_fini(&rows);
    assert_null(rows.index);
}

/* Long rows are sorted by another algorithm; the result is compared with a plain table. */
static void long_rows_are_sorted_too(void **state)
{
    (void)state;
    enum { DIM = 600, N = 1000 };
    static uint32_t index[N];
    static float value[N];
    yk_rng r = yk_rng_seed(3, 0);
    for (int n = 250; n <= N; n += 6) { /* below and above the length at which the algorithm changes */
        double sum[DIM] = {0};
        bool seen[DIM] = {false};
        for (int i = 0; i < n; i++) {
            index[i] = yk_rng_below(&r, DIM);
            value[i] = (float)yk_rng_below(&r, 64) / 8; /* sums are exact */
            sum[index[i]] += (double)value[i];
            seen[index[i]] = true;
        }
        yk_rows rows;
        yk_rows_init(&rows, YK_ROWS_SPARSE, 0);
        add_row(&rows, (size_t)n, index, value, 1);
        size_t at = 0;
        for (uint32_t k = 0; k < DIM; k++)
            if (seen[k]) {
                assert_true(at < rows.start[1] && rows.index[at] == k);
                assert_true((double)rows.value[at++] == sum[k]);
            }
        assert_int_equal(at, rows.start[1]);
        yk_rows_fini(&rows);
    }
}

/* ---- field numbers */

typedef struct {
    uint32_t index;
    float value;
    uint16_t field;
} entry;

#define ENTRIES(...) (sizeof((entry[]){__VA_ARGS__}) / sizeof(entry)), ((entry[]){__VA_ARGS__})

static void add_entries(yk_rows *rows, size_t n, const entry *e)
{
    uint32_t *index;
    float *value;
    uint16_t *field;
    assert_int_equal(yk_rows_sparse(rows, n, &index, &value), YK_OK);
    assert_int_equal(yk_rows_fields(rows, n, &field), YK_OK);
    for (size_t i = 0; i < n; i++) {
        assert_int_equal(field[i], 0);
        index[i] = e[i].index;
        value[i] = e[i].value;
        field[i] = e[i].field;
    }
    assert_int_equal(yk_rows_commit(rows, n, 1), YK_OK);
}

static void assert_entries(const yk_rows *rows, size_t r, size_t n, const entry *e)
{
    assert_int_equal(yk_rows_entries(rows, r), n);
    for (size_t i = 0; i < n; i++) {
        const uint64_t at = rows->start[r] + i;
        assert_int_equal(rows->index[at], e[i].index);
        assert_true((rows->value ? rows->value[at] : 1.0f) == e[i].value);
        assert_int_equal(rows->field ? rows->field[at] : 0, e[i].field);
    }
}

static void fields_are_sorted_and_merged(void **state)
{
    (void)state;
    yk_rows rows, plain, all, back;
    yk_rows_init(&rows, YK_ROWS_SPARSE, 0);
    yk_rows_init(&plain, YK_ROWS_SPARSE, 0);
    yk_rows_init(&all, YK_ROWS_SPARSE, 0);
    add_row(&rows, ROW(4, 8), NULL, 1);
    assert_null(rows.field);
    /* sorted by index and field; entries with equal index and field are merged */
    add_entries(&rows, ENTRIES({9, 1, 7}, {2, 1, 65535}, {9, 1, 3}, {9, 1, 7}));
    add_row(&rows, ROW(5), NULL, 1); /* a row without fields among others */
    assert_entries(&rows, 0, ENTRIES({4, 1, 0}, {8, 1, 0}));
    assert_entries(&rows, 1, ENTRIES({2, 1, 65535}, {9, 1, 3}, {9, 2, 7}));
    assert_entries(&rows, 2, ENTRIES({5, 1, 0}));
    assert_int_equal(yk_rows_bytes(&rows), 3 * 4 + 4 * 8 + 6 * (4 + 4 + 2));

    add_row(&plain, ROW(1, 2), NULL, 0);
    assert_int_equal(yk_rows_append(&all, &plain, 0, 1), YK_OK);
    assert_int_equal(yk_rows_append(&all, &rows, 1, 2), YK_OK);
    assert_int_equal(yk_rows_append(&all, &plain, 0, 1), YK_OK);
    assert_entries(&all, 0, ENTRIES({1, 1, 0}, {2, 1, 0}));
    assert_entries(&all, 1, ENTRIES({2, 1, 65535}, {9, 1, 3}, {9, 2, 7}));
    assert_entries(&all, 3, ENTRIES({1, 1, 0}, {2, 1, 0}));

    transfer(&all, &back);
    assert_entries(&back, 1, ENTRIES({2, 1, 65535}, {9, 1, 3}, {9, 2, 7}));
    assert_entries(&back, 2, ENTRIES({5, 1, 0}));
    yk_rows_fini(&back);

    yk_rows_clear(&rows);
    add_entries(&rows, ENTRIES({3, 1, 2}));
    assert_entries(&rows, 0, ENTRIES({3, 1, 2}));

    assert_int_equal(yk_rows_drop_fields(&all), YK_OK);
    assert_null(all.field);
    assert_int_equal(all.n, 4);
    assert_int_equal(all.dim, 10);
    assert_entries(&all, 1, ENTRIES({2, 1, 0}, {9, 3, 0}));
    assert_entries(&all, 3, ENTRIES({1, 1, 0}, {2, 1, 0}));
    yk_rows_fini(&rows);
    yk_rows_fini(&plain);
    yk_rows_fini(&all);
}

/* Shuffling and remapping: the field of an entry is its index modulo 97, and stays with it. */
static void fields_stay_with_their_entries(void **state)
{
    (void)state;
    enum { N = 5000, LONG = 400 };
    yk_rows block[3], rows; /* the second one has no rows */
    yk_keymap map;
    yk_rng r = yk_rng_seed(5, 0);
    static entry e[LONG];
    for (int b = 0; b < 3; b++)
        yk_rows_init(&block[b], YK_ROWS_SPARSE, 0);
    for (int i = 0; i < N; i++) {
        const size_t n = i % 100 ? 5 : LONG; /* both sorting algorithms */
        for (size_t k = 0; k < n; k++) {
            const uint32_t index = yk_rng_below(&r, 3000);
            e[k] = (entry){index, 1.0f, (uint16_t)(index % 97)};
        }
        add_entries(&block[i < N / 3 ? 0 : 2], n, e);
    }
    assert_int_equal(yk_rows_shuffled_copy(block, 3, 7, &rows), YK_OK);
    assert_int_equal(rows.n, N);
    yk_rows all, one;
    yk_rows_init(&all, YK_ROWS_SPARSE, 0);
    for (int b = 0; b < 3; b++) {
        assert_int_equal(yk_rows_append(&all, &block[b], 0, block[b].n), YK_OK);
        yk_rows_fini(&block[b]);
    }
    assert_int_equal(yk_rows_shuffled_copy(&all, 1, 7, &one), YK_OK); /* the blocks do not matter */
    assert_memory_equal(one.start, rows.start, (N + 1) * sizeof *one.start);
    assert_memory_equal(one.index, rows.index, one.start[N] * sizeof *one.index);
    yk_rows_fini(&one);
    yk_scatter s; /* the same order */
    assert_int_equal(yk_scatter_init(&s, &all, N, LONG, 7, &one), YK_OK);
    assert_true(yk_scatter_put(&s, &all, 0));
    yk_scatter_end(&s);
    assert_memory_equal(one.start, rows.start, (N + 1) * sizeof *one.start);
    assert_memory_equal(one.index, rows.index, one.start[N] * sizeof *one.index);
    assert_memory_equal(one.field, rows.field, one.start[N] * sizeof *one.field);
    assert_int_equal(yk_rows_set_weight(&all, 2.0f), YK_OK);
    assert_false(yk_scatter_put(&s, &all, 0));
    yk_rows_fini(&all);
    yk_rows_fini(&one);
    for (size_t i = 0; i < rows.start[N]; i++)
        assert_int_equal(rows.field[i], rows.index[i] % 97);
    assert_int_equal(yk_keymap_make(&rows, NULL, 3000, UINT32_MAX, 64, &map), YK_OK);
    uint32_t key_of[3000];
    for (uint32_t k = 0; k < 3000; k++)
        key_of[yk_keymap_id(&map, k)] = k;
    assert_int_equal(yk_keymap_rows(&map, &rows), YK_OK);
    for (size_t i = 0; i < rows.start[N]; i++)
        assert_int_equal(rows.field[i], key_of[rows.index[i]] % 97);
    yk_keymap_fini(&map);
    yk_rows_fini(&rows);
}

/* To bytes and back: sparse with and without values, dense, with and without probabilities, no rows. */
static void rows_are_serialized(void **state)
{
    (void)state;
    for (int kind = 0; kind < 6; kind++) {
        yk_rows rows, back;
        yk_rows_init(&rows,
                     kind < 4    ? YK_ROWS_SPARSE
                     : kind == 4 ? YK_ROWS_U8
                                 : YK_ROWS_F32,
                     kind < 4 ? 0 : 3);
        for (int i = 0; i < 5 && kind; i++) {
            uint8_t *pixel;
            float *x;
            if (kind < 4) {
                add_row(&rows, ROW(1, 2 + (uint32_t)i, 40), kind == 2 ? VALUES(0.5f, 2.0f, 1.0f) : NULL,
                        i % 2);
            } else if (kind == 4) {
                assert_int_equal(yk_rows_dense_u8(&rows, &pixel), YK_OK);
                memcpy(pixel, (uint8_t[3]){(uint8_t)i, 2, 3}, 3);
                assert_int_equal(yk_rows_commit(&rows, 0, i), YK_OK);
            } else {
                assert_int_equal(yk_rows_dense_f32(&rows, &x), YK_OK);
                memcpy(x, (float[3]){(float)i, 2.0f, 3.0f}, 3 * sizeof *x);
                assert_int_equal(yk_rows_commit(&rows, 0, i) || yk_rows_set_truth(&rows, 0.25f), YK_OK);
            }
        }
        transfer(&rows, &back);
        assert_int_equal(back.n, rows.n);
        assert_int_equal(back.dim, rows.dim);
        assert_int_equal(back.value != NULL, rows.value != NULL);
        assert_int_equal(back.truth != NULL, rows.truth != NULL);
        for (size_t i = 0; i < rows.n; i++) {
            assert_int_equal(back.label[i], rows.label[i]);
            if (kind < 4)
                assert_memory_equal(back.index + back.start[i], rows.index + rows.start[i],
                                    3 * sizeof *rows.index);
            if (kind == 2)
                assert_memory_equal(back.value + back.start[i], rows.value + rows.start[i],
                                    3 * sizeof *rows.value);
            if (kind == 4)
                assert_memory_equal(back.u8 + 3 * i, rows.u8 + 3 * i, 3);
            if (kind == 5)
                assert_memory_equal(back.f32 + 3 * i, rows.f32 + 3 * i, 3 * sizeof(float));
        }
        yk_rows_fini(&back);
        yk_rows_fini(&rows);
    }
}

static void rows_are_appended(void **state)
{
    (void)state;
    yk_rows plain, valued, all;
    yk_rows_init(&plain, YK_ROWS_SPARSE, 0);
    yk_rows_init(&valued, YK_ROWS_SPARSE, 0);
    yk_rows_init(&all, YK_ROWS_SPARSE, 0);
    add_row(&plain, ROW(1, 2), NULL, 0);
    add_row(&plain, ROW(5), NULL, 1);
    add_row(&plain, ROW(0, 9), NULL, 0);
    add_row(&valued, ROW(3, 4), VALUES(0.25f, 4.0f), 1);
    assert_int_equal(yk_rows_append(&all, &plain, 1, 0), YK_OK);
    assert_int_equal(all.n, 0);
    assert_int_equal(yk_rows_append(&all, &plain, 1, 2), YK_OK);
    assert_null(all.value);
    assert_int_equal(yk_rows_append(&all, &valued, 0, 1), YK_OK);
    assert_int_equal(yk_rows_append(&all, &plain, 0, 1), YK_OK);
    for (int i = 0; i < 500; i++)
        assert_int_equal(yk_rows_append(&all, i % 2 ? &plain : &valued, 0, 1), YK_OK);
    assert_int_equal(all.n, 504);
    assert_int_equal(all.dim, 10);
    assert_row(&all, 0, ROW(5), NULL, 1);
    assert_row(&all, 1, ROW(0, 9), NULL, 0);
    assert_row(&all, 2, ROW(3, 4), VALUES(0.25f, 4.0f), 1);
    assert_row(&all, 3, ROW(1, 2), NULL, 0);
    assert_row(&all, 502, ROW(3, 4), VALUES(0.25f, 4.0f), 1);
    assert_row(&all, 503, ROW(1, 2), NULL, 0);

    yk_rows picked;
    yk_rows_init(&picked, YK_ROWS_SPARSE, 0);
    assert_int_equal(yk_rows_append_picked(&picked, &plain, (uint32_t[]){2, 0}, 2), YK_OK);
    assert_null(picked.value);
    assert_int_equal(yk_rows_append_picked(&picked, &valued, (uint32_t[]){0}, 1), YK_OK);
    assert_int_equal(yk_rows_append_picked(&picked, &plain, (uint32_t[]){1}, 1), YK_OK);
    assert_int_equal(picked.n, 4);
    assert_int_equal(picked.dim, 10);
    assert_row(&picked, 0, ROW(0, 9), NULL, 0);
    assert_row(&picked, 1, ROW(1, 2), NULL, 0);
    assert_row(&picked, 2, ROW(3, 4), VALUES(0.25f, 4.0f), 1);
    assert_row(&picked, 3, ROW(5), NULL, 1);
    yk_rows_fini(&picked);
    yk_rows_fini(&plain);
    yk_rows_fini(&valued);
    yk_rows_fini(&all);
}

/* Rows 0 .. n - 1 have label i, weight i (1: not stored) and target -i. */
static void assert_weights(const yk_rows *rows, bool targets)
{
    for (size_t i = 0; i < rows->n; i++) {
        assert_true(yk_rows_weight(rows, i) == (float)rows->label[i]);
        assert_true(yk_rows_target(rows, i) == (targets ? -1.0f : 1.0f) * (float)rows->label[i]);
    }
}

static void weights_stay_with_their_rows(void **state)
{
    (void)state;
    yk_rows rows, other, all, shuffled, back;
    yk_rows_init(&rows, YK_ROWS_SPARSE, 0);
    yk_rows_init(&other, YK_ROWS_SPARSE, 0);
    add_row(&other, 1, (uint32_t[]){3}, NULL, 1);
    assert_int_equal(yk_rows_set_weight(&other, 1.0f), YK_OK);
    assert_null(other.weight); /* no memory while all weights are 1 */
    assert_weights(&other, false);
    for (int32_t i = 0; i < 100; i++) {
        add_row(&rows, 2, (uint32_t[]){7, 7}, NULL, i == 50 ? 1 : i);
        if (i != 50) /* the default is 1 */
            assert_int_equal(yk_rows_set_weight(&rows, (float)i), YK_OK);
        assert_int_equal(yk_rows_set_target(&rows, i == 50 ? -1.0f : (float)-i), YK_OK);
    }
    assert_weights(&rows, true);
    yk_rows_init(&all, YK_ROWS_SPARSE, 0);
    assert_int_equal(yk_rows_append(&all, &other, 0, 1), YK_OK);
    assert_int_equal(yk_rows_append(&all, &rows, 0, rows.n), YK_OK);
    assert_true(yk_rows_weight(&all, 0) == 1.0f && yk_rows_target(&all, 0) == 0.0f); /* it has no target */
    all.target[0] = -1.0f;
    assert_weights(&all, true);
    assert_int_equal(yk_rows_shuffled_copy(&all, 1, 5, &shuffled), YK_OK);
    assert_weights(&shuffled, true);
    transfer(&shuffled, &back);
    assert_weights(&back, true);
    const uint32_t pick[] = {0, 3};
    const yk_batch batch = {.rows = &all, .pick = pick, .n = 2};
    assert_true(yk_batch_total(&batch) == 3.0);
    const float twice[100] = {1.0f, 2.0f, 2.0f};
    const yk_batch by_class = {.rows = &all, .pick = pick, .n = 2, .class_weight = twice};
    assert_true(yk_batch_total(&by_class) == 6.0);
    yk_rows_fini(&back);
    yk_rows_fini(&shuffled);
    yk_rows_fini(&all);
    yk_rows_fini(&other);
    yk_rows_fini(&rows);
}

static void dense_rows_are_stored(void **state)
{
    (void)state;
    yk_rows bytes, floats, more;
    yk_rows_init(&bytes, YK_ROWS_U8, 5);
    yk_rows_init(&floats, YK_ROWS_F32, 3);
    yk_rows_init(&more, YK_ROWS_F32, 3);
    for (int i = 0; i < 100; i++) {
        uint8_t *b;
        float *f;
        assert_int_equal(yk_rows_dense_u8(&bytes, &b), YK_OK);
        memset(b, i, 5);
        assert_int_equal(yk_rows_commit(&bytes, 0, i % 10), YK_OK);
        assert_int_equal(yk_rows_dense_f32(&floats, &f), YK_OK);
        f[0] = f[1] = f[2] = (float)i / 2;
        assert_int_equal(yk_rows_commit(&floats, 0, i % 2) || yk_rows_set_truth(&floats, (float)i / 128),
                         YK_OK);
    }
    assert_int_equal(yk_rows_append(&more, &floats, 90, 10), YK_OK);
    for (size_t i = 0; i < 100; i++) {
        assert_true(bytes.u8[i * 5 + 4] == i && bytes.label[i] == (int)i % 10);
        assert_true(floats.f32[i * 3 + 2] == (float)i / 2 && floats.truth[i] == (float)i / 128);
    }
    assert_true(bytes.scale == 1.0f / 255.0f && bytes.dim == 5 && bytes.n == 100);
    assert_true(more.n == 10 && more.f32[29] == 49.5f && more.truth[9] == 99.0f / 128 && more.label[9] == 1);
    assert_int_equal(yk_rows_bytes(&bytes), 100 * (5 + 4));
    yk_rows_fini(&bytes);
    yk_rows_fini(&floats);
    yk_rows_fini(&more);
}

/* ---- keys */

static void equal_keys_add_up(void **state)
{
    (void)state;
    enum { KEYS = 3000 };
    yk_merger m = {0};
    yk_rng r = yk_rng_seed(8, 0);
    assert_int_equal(yk_merger_reserve(&m, 4), YK_OK);
    for (int round = 0; round < 200; round++) {
        size_t n = yk_rng_below(&r, round < 100 ? 200 : KEYS), found = 0;
        static double sum[KEYS];
        static int order[KEYS];
        memset(sum, 0, sizeof sum);
        memset(order, 0, sizeof order);
        if (round == 50) { /* the generation counter wraps around: all slots have later stamps */
            m.stamp = 0u - (uint32_t)m.cap;
            yk_merger_clear(&m);
            assert_true(m.stamp != 0);
        }
        const bool reserved = round % 2;
        assert_int_equal(yk_merger_reserve(&m, reserved ? n : 0), YK_OK);
        assert_int_equal(m.n, 0);
        for (size_t i = 0; i < n; i++) {
            if (!reserved) /* existing entries keep their order */
                assert_int_equal(yk_merger_grow(&m, 1), YK_OK);
            uint32_t k = yk_rng_below(&r, KEYS);
            float v = (float)yk_rng_below(&r, 256) / 16;
            /* far apart, so that low and high bits of a key both matter */
            yk_merger_add(&m, k * 1431655u, v);
            sum[k] += (double)v;
            if (!order[k])
                order[k] = (int)++found;
        }
        assert_int_equal(m.n, found);
        for (uint32_t k = 0; k < KEYS; k++)
            if (order[k]) {
                assert_int_equal(m.key[order[k] - 1], k * 1431655u);
                assert_true((double)m.value[order[k] - 1] == sum[k]);
            }
    }
    yk_merger_fini(&m);
}

/* A merger that grows between two calls of yk_merger_slots() has each key once. */
static void slots_survive_growth(void **state)
{
    (void)state;
    enum { KEYS = 5000 };
    static uint32_t key[KEYS], slot[KEYS];
    yk_merger m = {0};
    assert_int_equal(yk_merger_reserve(&m, 4), YK_OK);
    for (uint32_t n = 1; n <= KEYS; n += n / 2 + 1) {
        for (uint32_t i = 0; i < n; i++)
            key[i] = i * 1431655u;
        assert_int_equal(yk_merger_grow(&m, n), YK_OK);
        yk_merger_slots(&m, key, n, slot);
        assert_int_equal(m.n, n);
        for (uint32_t i = 0; i < n; i++)
            assert_int_equal(slot[i], i);
    }
    yk_merger_fini(&m);
}

static void sparse_gradients_become_pairs(void **state)
{
    (void)state;
    for (int with = 0; with < 4; with++) { /* values or not, a bias or not */
        yk_rows rows;
        yk_rows_init(&rows, YK_ROWS_SPARSE, 0);
        add_row(&rows, ROW(1, 5, 7), with & 1 ? VALUES(0.5f, 2, -1) : NULL, 0);
        add_row(&rows, 0, NULL, NULL, 1);
        add_row(&rows, ROW(5, 9), NULL, 1);
        add_row(&rows, ROW(0), NULL, 0); /* not picked */
        const uint32_t pick[] = {2, 0, 1, 0};
        const float err[] = {0.25f, -0.5f, 3.0f, 1.0f};
        const float x1 = with & 1 ? 0.5f : 1, x5 = with & 1 ? 2 : 1, x7 = with & 1 ? -1 : 1;
        yk_group_grad g = {.rows = {&rows, pick, 4, 0}, .err = err, .bias = with & 2, .bias_key = 10};
        yk_merger m = {0};
        assert_int_equal(yk_merger_reserve(&m, 1), YK_OK);
        yk_merger_add(&m, 77, 1.0f); /* existing entries are removed */
        assert_int_equal(yk_grad_merge(&g, &m, yk_merger_add_all), YK_OK);
        const uint32_t key[] = {5, 9, 1, 7, 10};
        const float value[] = {0.25f + 0.5f * x5, 0.25f, 0.5f * x1, 0.5f * x7, 3.75f};
        assert_int_equal(m.n, with & 2 ? 5 : 4);
        for (size_t i = 0; i < m.n; i++) {
            assert_int_equal(m.key[i], key[i]);
            assert_true(m.value[i] == value[i]);
        }
        float sum[11] = {0};
        yk_grad_add(&g, sum);
        for (size_t i = 0; i < 5; i++)
            assert_true(sum[key[i]] == (i < m.n ? value[i] : 0.0f));
        g.rows.n = 0;
        assert_int_equal(yk_grad_merge(&g, &m, yk_merger_add_all), YK_OK);
        assert_int_equal(m.n, 0);
        yk_merger_fini(&m);
        yk_rows_fini(&rows);
    }
}

/* ---- the order of keys by how often they occur */

enum { FEATURES = 5000, EXAMPLES = 800 };

static void power_law_rows(yk_rows *rows, bool values, uint64_t seed)
{
    yk_rng r = yk_rng_seed(seed, 0);
    yk_rows_init(rows, YK_ROWS_SPARSE, 0);
    for (int i = 0; i < EXAMPLES; i++) {
        uint32_t *index;
        float *value;
        assert_int_equal(yk_rows_sparse(rows, 12, &index, &value), YK_OK);
        size_t n = 0;
        for (int e = 0; e < 12; e++) {
            double u = yk_rng_unit(&r);
            uint32_t rank = (uint32_t)(u * u * u * u * FEATURES);
            index[n] = (rank * 2741u + 17) % FEATURES; /* so that frequent keys can be anywhere */
            bool again = false;
            for (size_t k = 0; k < n; k++)
                again |= index[k] == index[n];
            if (values)
                value[n] = (float)(1 + yk_rng_below(&r, 4)) / 2;
            n += !again;
        }
        assert_int_equal(yk_rows_commit(rows, n, i % 2), YK_OK);
    }
}

static void hot_keys_come_first(void **state)
{
    (void)state;
    static const uint32_t max[] = {0, 1, 100, FEATURES * 2};
    for (int with = 0; with < 16; with++) { /* with values or not, a bias or not, the limit on hot keys */
        const bool values = with & 1, bias = with & 2;
        const uint32_t limit = max[with / 4], nkeys = FEATURES + bias;
        yk_rows rows, remapped;
        yk_keymap map;
        power_law_rows(&rows, values, (uint64_t)with);
        assert_true((rows.value != NULL) == values);
        static double weight[FEATURES + 1];
        memset(weight, 0, sizeof weight);
        for (uint64_t e = 0; e < rows.start[rows.n]; e++)
            weight[rows.index[e]] += rows.value ? (double)rows.value[e] * (double)rows.value[e] : 1.0;
        weight[FEATURES] = bias ? EXAMPLES : 0;
        assert_int_equal(yk_keymap_make(&rows, NULL, nkeys, bias ? FEATURES : UINT32_MAX, limit, &map),
                         YK_OK);
        assert_true(map.hot <= limit);
        assert_true(limit > 100 ? map.hot > 300 : map.hot == limit);

        static uint32_t outside_of[FEATURES + 1];
        memset(outside_of, 0xff, sizeof outside_of);
        for (uint32_t k = 0; k < nkeys; k++) {
            uint32_t in = yk_keymap_id(&map, k);
            assert_true(in < nkeys && outside_of[in] == UINT32_MAX);
            outside_of[in] = k;
        }
        for (uint32_t i = 0; i < map.hot; i++) {
            assert_true(fabs((double)map.freq[i] * EXAMPLES - weight[outside_of[i]]) < 1e-3);
            assert_true(i == 0 || map.freq[i] <= map.freq[i - 1]);
            assert_true(values || weight[outside_of[i]] > 1); /* keys that occur once are not hot */
        }
        for (uint32_t i = map.hot; map.hot && i < nkeys;
             i++) /* no cold key is more frequent than the last hot one */
            assert_true(weight[outside_of[i]] <= weight[outside_of[map.hot - 1]] + 1e-3);
        if (bias && limit >= 100)
            assert_true(yk_keymap_id(&map, FEATURES) < map.hot);

        static float w[FEATURES + 1], in[FEATURES + 1];
        for (uint32_t k = 0; k < nkeys; k++)
            w[k] = in[k] = (float)k + 0.5f;
        assert_int_equal(yk_keymap_move(&map, in, 1, false), YK_OK);
        for (uint32_t k = 0; k < nkeys; k++)
            assert_true(in[yk_keymap_id(&map, k)] == w[k]);
        yk_rows_init(&remapped, YK_ROWS_SPARSE, 0);
        assert_int_equal(yk_rows_append(&remapped, &rows, 0, rows.n), YK_OK);
        assert_int_equal(yk_keymap_rows(&map, &remapped), YK_OK);
        for (uint64_t e = 0; e < rows.start[rows.n]; e++)
            assert_true(in[remapped.index[e]] == w[rows.index[e]]);
        assert_int_equal(yk_keymap_move(&map, in, 1, true), YK_OK);
        assert_memory_equal(in, w, nkeys * sizeof *w);
        yk_rows_fini(&remapped);
        yk_rows_fini(&rows);
        yk_keymap_fini(&map);
    }
}

static void without_copies_frequent_keys_are_in_different_cache_lines(void **state)
{
    (void)state;
    enum { LINE = 16 };
    yk_rows rows;
    yk_keymap map;
    uint32_t count[FEATURES] = {0}, lines[FEATURES / LINE + 1] = {0};
    power_law_rows(&rows, false, 1);
    for (uint64_t e = 0; e < rows.start[rows.n]; e++)
        count[rows.index[e]]++;
    assert_int_equal(yk_keymap_make(&rows, &rows, FEATURES, UINT32_MAX, 0, &map), YK_OK);
    assert_int_equal(map.hot, 0);
    uint32_t frequent = 0;
    for (uint32_t k = 0; k < FEATURES; k++) {
        uint32_t more = 0;
        for (uint32_t other = 0; other < FEATURES; other++)
            more += count[other] > count[k];
        if (more < 20) {
            frequent++;
            assert_int_equal(lines[yk_keymap_id(&map, k) / LINE]++, 0);
        }
    }
    assert_true(frequent >= 20);
    float in[FEATURES], w[FEATURES];
    for (uint32_t k = 0; k < FEATURES; k++)
        w[k] = in[k] = (float)k;
    assert_int_equal(yk_keymap_move(&map, in, 1, false), YK_OK);
    assert_memory_not_equal(in, w, sizeof w);
    assert_int_equal(yk_keymap_move(&map, in, 1, true), YK_OK);
    assert_memory_equal(in, w, sizeof w);
    yk_rows_fini(&rows);
    yk_keymap_fini(&map);
}

static void without_a_sample_keys_are_not_remapped(void **state)
{
    (void)state;
    yk_rows rows;
    yk_keymap map = {0}, made;
    yk_rows_init(&rows, YK_ROWS_SPARSE, 0);
    assert_int_equal(yk_keymap_make(&rows, NULL, 10, 9, 100, &made), YK_OK);
    assert_int_equal(made.hot, 0);
    float w[] = {1, 2, 3};
    assert_int_equal(yk_keymap_move(&made, w, 1, false), YK_OK);
    for (uint32_t k = 0; k < 10; k++)
        assert_true(yk_keymap_id(&made, k) == k && yk_keymap_id(&map, k) == k);
    assert_true(w[0] == 1 && w[1] == 2 && w[2] == 3);
    assert_int_equal(yk_keymap_rows(&made, &rows), YK_OK);
    yk_keymap_fini(&made);
    yk_rows_fini(&rows);
}

/* Rows of a binary cache are in a private, read-only mapping. */
static void mapped_rows_are_remapped_and_unmapped(void **state)
{
    (void)state;
    yk_rows made, rows = {.kind = YK_ROWS_SPARSE};
    yk_keymap map;
    power_law_rows(&made, false, 1);
    assert_int_equal(yk_keymap_make(&made, NULL, FEATURES, UINT32_MAX, 64, &map), YK_OK);
    const size_t entries = made.start[made.n], size = (made.n + 1) * 8 + entries * 4 + made.n * 4;
    char *p = mmap(NULL, size, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    assert_true(p != MAP_FAILED);
    rows.n = made.n;
    rows.dim = made.dim;
    rows.map = p;
    rows.map_size = size;
    rows.start = memcpy(p, made.start, (made.n + 1) * 8);
    rows.index = memcpy(p + (made.n + 1) * 8, made.index, entries * 4);
    rows.label = memcpy(p + (made.n + 1) * 8 + entries * 4, made.label, made.n * 4);
    assert_int_equal(mprotect(p, size, PROT_READ), 0);
    assert_int_equal(yk_keymap_rows(&map, &rows), YK_OK);
    for (size_t e = 0; e < entries; e++)
        assert_int_equal(rows.index[e], yk_keymap_id(&map, made.index[e]));
    assert_int_equal(rows.label[1], 1);
    yk_rows_fini(&rows);
    assert_null(rows.map);
    unsigned char there;
    assert_int_equal(mincore(p, 1, &there), -1); /* unmapped */
    yk_rows_fini(&made);
    yk_keymap_fini(&map);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(rows_become_sorted_and_merged),
        cmocka_unit_test(long_rows_are_sorted_too),
        cmocka_unit_test(rows_are_appended),
        cmocka_unit_test(rows_are_serialized),
        cmocka_unit_test(fields_are_sorted_and_merged),
        cmocka_unit_test(fields_stay_with_their_entries),
        cmocka_unit_test(weights_stay_with_their_rows),
        cmocka_unit_test(dense_rows_are_stored),
        cmocka_unit_test(equal_keys_add_up),
        cmocka_unit_test(slots_survive_growth),
        cmocka_unit_test(sparse_gradients_become_pairs),
        cmocka_unit_test(hot_keys_come_first),
        cmocka_unit_test(without_copies_frequent_keys_are_in_different_cache_lines),
        cmocka_unit_test(without_a_sample_keys_are_not_remapped),
        cmocka_unit_test(mapped_rows_are_remapped_and_unmapped),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
