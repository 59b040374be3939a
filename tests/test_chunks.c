/* Chunks of examples: the slot of every entry refers to its key, each key is listed once, sorted by server; and the order of a feed
 * that keeps chunks together. */
#include "scratch.h"

#include "base/rng.h"
#include "core/keys.h"
#include "data/assignment.h"
#include "data/feed.h"
#include "store/chunks.h"
#include "store/messages.h"
#include <string.h>

enum { ROWS = 1003, KEYS = 400, CHUNK_ROWS = 60 };

static void make_rows(yk_rows *rows, bool values, uint64_t seed)
{
    yk_rng r = yk_rng_seed(seed, 1);
    yk_rows_init(rows, YK_ROWS_SPARSE, 0);
    for (int i = 0; i < ROWS; i++) {
        uint32_t *index;
        float *value;
        assert_int_equal(yk_rows_sparse(rows, 8, &index, &value), YK_OK);
        for (int k = 0; k < 8; k++) {
            index[k] = yk_rng_below(&r, k % 2 ? KEYS : 5);
            value[k] = values ? (float)(1 + yk_rng_below(&r, 4)) : 1.0f;
        }
        assert_int_equal(yk_rows_commit(rows, yk_rng_below(&r, 9), (int32_t)(i % 2)), YK_OK);
    }
}

static uint32_t key_of(const yk_chunk *c, uint32_t cursor, int servers)
{
    int server = 0;
    while (cursor >= c->begin[server + 1])
        server++;
    return (uint32_t)yk__key_of(c->row[cursor], (uint32_t)server, (uint32_t)servers);
}

static void check_chunk(const yk_rows *rows, const yk_rows *keys, size_t first, const yk_chunk *c,
                        int servers, uint32_t bias)
{
    const size_t end = first + CHUNK_ROWS < ROWS ? first + CHUNK_ROWS : ROWS;
    double squares[KEYS + 1] = {0};
    bool listed[KEYS + 1] = {false};
    for (uint64_t e = keys->start[first]; e < keys->start[end]; e++) {
        const double x = keys->value ? (double)keys->value[e] : 1.0;
        assert_true(rows->index[e] < c->nkeys);
        assert_int_equal(key_of(c, rows->index[e], servers), keys->index[e]);
        squares[keys->index[e]] += x * x;
    }
    if (bias != UINT32_MAX)
        squares[bias] += (double)(end - first);
    assert_int_equal(c->begin[servers], c->nkeys);
    for (uint32_t i = 0; i < c->nkeys; i++) {
        const uint32_t key = key_of(c, i, servers);
        assert_false(listed[key]); /* each once */
        listed[key] = true;
        assert_true(c->squares[i] == (float)squares[key]);
    }
    for (uint32_t k = 0; k <= KEYS; k++)
        assert_int_equal(listed[k], squares[k] > 0.0);
    if (bias != UINT32_MAX)
        assert_int_equal(key_of(c, c->bias, servers), bias);
}

static void slots_refer_to_keys(void **state)
{
    (void)state;
    for (int how = 0; how < 16; how++) {
        const int servers = 1 + how % 4;
        const uint32_t bias = how & 4 ? KEYS : UINT32_MAX;
        yk_rows rows, keys;
        yk_chunks *c;
        make_rows(&rows, how & 8, (uint64_t)how);
        make_rows(&keys, how & 8, (uint64_t)how);
        assert_int_equal(yk_chunks_create(&rows, CHUNK_ROWS, servers, bias, &c), YK_OK);
        const int threads = 1 + how % 3;
        for (int me = 0; me < threads; me++)
            assert_int_equal(yk_chunks_prepare(c, me, threads), YK_OK);
        for (size_t first = 0; first < ROWS; first += CHUNK_ROWS)
            check_chunk(&rows, &keys, first, yk_chunks_get(c, first), servers, bias);
        yk_chunks_free(c);
        yk_rows_fini(&rows);
        yk_rows_fini(&keys);
    }
}

/* ---- the order of the feed ---- */

typedef struct {
    yk_assignment assignment;
} lease_source;

static yk_status lease(void *context, int worker, uint64_t *epoch, uint64_t *begin, uint64_t *end)
{
    yk_lease l;
    yk_status st = yk_assignment_lease(&((lease_source *)context)->assignment, worker, &l);
    *epoch = l.epoch;
    *begin = l.begin;
    *end = l.end;
    return st;
}

static void batches_stay_in_their_chunk_and_are_used_once(void **state)
{
    (void)state;
    enum { BATCH = 20, EPOCHS = 3 };
    yk_rows rows;
    make_rows(&rows, false, 7);
    yk_source source = {0};
    yk_dataset data = {.source = &source,
                       .rows = &rows,
                       .kind = YK_ROWS_SPARSE,
                       .examples = ROWS,
                       .classes = 2,
                       .shuffled = true};
    lease_source o;
    yk_assignment_init(&o.assignment, ROWS, EPOCHS, UINT64_MAX, BATCH, 2, CHUNK_ROWS);
    const yk_feed_plan plan = {.workers = 2,
                               .batch = BATCH,
                               .seed = 3,
                               .epochs = EPOCHS,
                               .steps = UINT64_MAX,
                               .chunk_rows = CHUNK_ROWS,
                               .lease = lease,
                               .lease_context = &o};
    yk_feed *f;
    assert_int_equal(yk_feed_create(&data, &plan, &f), YK_OK);
    assert_int_equal(yk_feed_chunk_rows(f), CHUNK_ROWS);
    int seen[ROWS] = {0}, first_in_chunk[EPOCHS] = {-1, -1, -1}, epoch = 0;
    size_t used = 0;
    for (int me = 0, none = 0; none < 2; me = !me) {
        yk_batch b;
        assert_int_equal(yk_feed_next(f, me, 1, &b), YK_OK);
        none = b.n ? 0 : none + 1;
        if (!b.n)
            continue;
        for (size_t i = 0; i < b.n; i++) {
            assert_int_equal(b.pick[i] / CHUNK_ROWS, b.pick[0] / CHUNK_ROWS);
            seen[b.pick[i]]++;
        }
        if (b.pick[0] / CHUNK_ROWS == 4 && first_in_chunk[epoch] < 0)
            first_in_chunk[epoch] = (int)b.pick[0];
        used += b.n;
        epoch = (int)(used / ROWS) < EPOCHS ? (int)(used / ROWS) : EPOCHS - 1;
        yk_assignment_used(&o.assignment, me, b.n);
    }
    for (int i = 0; i < ROWS; i++)
        assert_int_equal(seen[i], EPOCHS);
    assert_false(first_in_chunk[0] == first_in_chunk[1] && first_in_chunk[1] == first_in_chunk[2]);

    /* a cursor saved with chunks of this size continues with it, whatever the plan has; an older cursor uses the default */
    uint64_t cursor[3] = {2 | (uint64_t)CHUNK_ROWS << 8, 1, 120};
    yk_feed_free(f);
    yk_feed_plan other = plan;
    other.chunk_rows = 0;
    assert_int_equal(yk_feed_create(&data, &other, &f), YK_OK);
    assert_int_equal(yk_feed_cursor_restore(f, cursor, 3, 0), YK_OK);
    assert_int_equal(yk_feed_chunk_rows(f), CHUNK_ROWS);
    yk_feed_free(f);
    assert_int_equal(yk_feed_create(&data, &plan, &f), YK_OK);
    cursor[0] = 2;
    assert_int_equal(yk_feed_cursor_restore(f, cursor, 3, 0), YK_OK);
    assert_int_not_equal(yk_feed_chunk_rows(f), CHUNK_ROWS);
    /* with leases, only the chunk size of a saved cursor matters */
    cursor[0] = 2 | (uint64_t)CHUNK_ROWS << 8;
    size_t chunk_rows;
    assert_int_equal(yk_feed_chunk_rows_restore(f, cursor, 3, &chunk_rows), YK_OK);
    assert_int_equal(yk_feed_chunk_rows(f), CHUNK_ROWS);
    yk_feed_free(f);
    yk_assignment_fini(&o.assignment);
    yk_rows_fini(&rows);
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(slots_refer_to_keys),
                                       cmocka_unit_test(batches_stay_in_their_chunk_and_are_used_once)};
    return cmocka_run_group_tests_name("chunks", tests, NULL, NULL);
}
