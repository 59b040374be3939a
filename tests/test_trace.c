/* Timelines: JSON that Chrome and Perfetto read, bounded in size, with all ranks on one clock. */
#include "scratch.h"

#include "watch/trace.h"
#include <jansson.h>
#include <math.h>

static json_t *save_and_load(char **piece, size_t n)
{
    json_error_t e;
    const char *path = in_directory("trace.json");
    assert_int_equal(yk_trace_save(directory, "trace.json", piece, n), YK_OK);
    json_t *root = json_load_file(path, 0, &e);
    if (!root)
        fail_msg("line %d: %s", e.line, e.text);
    for (size_t i = 0; i < n; i++)
        free(piece[i]);
    json_t *events = json_object_get(root, "traceEvents");
    assert_true(json_is_array(events));
    json_incref(events);
    json_decref(root);
    return events;
}

static const char *text_of(const json_t *o, const char *name)
{
    const char *s = json_string_value(json_object_get(o, name));
    return s ? s : "";
}

static double real_of(const json_t *o, const char *name)
{
    return json_number_value(json_object_get(o, name));
}

/* The number of events with this name and kind; *last_out is the last of them. */
static int count(const json_t *events, const char *ph, const char *name, const json_t **last_out)
{
    size_t i;
    json_t *e;
    int n = 0;
    json_array_foreach(events, i, e) if (strcmp(text_of(e, "ph"), ph) == 0 &&
                                         (!name || strcmp(text_of(e, "name"), name) == 0))
    {
        n++;
        if (last_out)
            *last_out = e;
    }
    return n;
}

static void slices_messages_and_counters(void **state)
{
    (void)state;
    yk_trace *t;
    const json_t *e = NULL;
    char *piece[1];
    assert_int_equal(yk_trace_create(2, "worker", &t), YK_OK);
    yk_trace_track *w = yk_trace_add(t, "worker \"0\" \\ of 1\n", 100);
    assert_non_null(w);
    yk_trace_clock(t, 0, 1000000);
    yk_trace_slice(w, "compute", 1500000, 250000);
    yk_trace_message(w, "pull", 3, 4096, 1600000, 1000);
    yk_trace_counter(w, "loss", 1700000, 0.25);
    yk_trace_counter(w, "loss", 1800000, (double)NAN); /* JSON has no such number */
    assert_true(yk_trace_wants_all(w));
    assert_int_equal(yk_trace_text(t, &piece[0]), YK_OK);
    yk_trace_free(t);
    json_t *events = save_and_load(piece, 1);
    assert_int_equal(count(events, "X", "compute", &e), 1);
    assert_true(real_of(e, "ts") == 500.0 && real_of(e, "dur") == 250.0 && real_of(e, "pid") == 2.0);
    const double tid = real_of(e, "tid");
    assert_int_equal(count(events, "X", "pull", &e), 1);
    assert_true(real_of(json_object_get(e, "args"), "bytes") == 4096.0);
    assert_true(real_of(json_object_get(e, "args"), "peer") == 3.0);
    assert_int_equal(count(events, "C", "loss", &e), 1);
    assert_true(real_of(json_object_get(e, "args"), "loss") == 0.25);
    assert_int_equal(count(events, "M", "thread_name", &e), 1);
    assert_true(real_of(e, "tid") == tid);
    assert_string_equal(text_of(json_object_get(e, "args"), "name"), "worker \"0\" \\ of 1\n");
    assert_int_equal(count(events, "M", "process_name", &e), 1);
    assert_string_equal(text_of(json_object_get(e, "args"), "name"), "rank 2 (worker)");
    json_decref(events);
}

static void a_long_timeline_keeps_both_ends(void **state)
{
    (void)state;
    enum { ROOM = 1000, EVENTS = 1000000 };
    yk_trace *t;
    char *piece[1];
    const json_t *e = NULL;
    assert_int_equal(yk_trace_create(0, "chief", &t), YK_OK);
    yk_trace_track *w = yk_trace_add(t, "worker 0", ROOM);
    for (uint64_t i = 0; i < EVENTS; i++)
        yk_trace_slice(w, "step", i * 1000, 900);
    assert_false(yk_trace_wants_all(w));
    assert_int_equal(yk_trace_text(t, &piece[0]), YK_OK);
    assert_true(strlen(piece[0]) < 300000);
    yk_trace_free(t);
    json_t *events = save_and_load(piece, 1);
    assert_int_equal(count(events, "X", "step", &e), ROOM);
    assert_true(real_of(e, "ts") == EVENTS - 1);
    assert_int_equal(count(events, "X", "999000 events dropped", &e), 1);
    assert_true(real_of(e, "ts") + real_of(e, "dur") <= EVENTS - ROOM / 2);
    json_decref(events);
}

static void ranks_share_a_clock(void **state)
{
    (void)state;
    char *piece[3] = {NULL, NULL, NULL};
    const json_t *e = NULL;
    for (int rank = 0; rank < 3; rank += 2) { /* rank 1 has no timeline */
        yk_trace *t;
        assert_int_equal(yk_trace_create(rank, "worker", &t), YK_OK);
        yk_trace_track *w = yk_trace_add(t, "worker", 16);
        /* both events happened at the same time; rank 2's clock is 5 ms behind */
        const int64_t offset = rank == 2 ? 5000000 : 0;
        yk_trace_clock(t, offset, 1000000000);
        yk_trace_slice(w, rank == 0 ? "here" : "there", (uint64_t)(1007000000 - offset), 10);
        assert_int_equal(yk_trace_text(t, &piece[rank]), YK_OK);
        yk_trace_free(t);
    }
    json_t *events = save_and_load(piece, 3);
    assert_int_equal(count(events, "X", "here", &e), 1);
    const double here = real_of(e, "ts");
    assert_int_equal(count(events, "X", "there", &e), 1);
    assert_true(here == 7000.0 && real_of(e, "ts") == here);
    json_decref(events);
}

static void null_is_ignored(void **state)
{
    (void)state;
    yk_trace_slice(NULL, "x", 1, 1);
    yk_trace_message(NULL, "x", 1, 1, 1, 1);
    yk_trace_counter(NULL, "x", 1, 1);
    assert_false(yk_trace_wants_all(NULL));
    assert_null(yk_trace_add(NULL, "x", 10));
    yk_trace_free(NULL);
    json_t *events = save_and_load(NULL, 0);
    assert_int_equal(json_array_size(events), 0);
    json_decref(events);
    char *none = NULL;
    assert_error(yk_trace_save(directory, "no/such/trace.json", &none, 1), YK_ESYSTEM, "no/such");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(slices_messages_and_counters),
        cmocka_unit_test(a_long_timeline_keeps_both_ends),
        cmocka_unit_test(ranks_share_a_clock),
        cmocka_unit_test(null_is_ignored),
    };
    return cmocka_run_group_tests(tests, make_test_directory, remove_test_directory);
}
