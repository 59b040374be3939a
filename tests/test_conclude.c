/* What the processes of a job on one host use together: the rest of the host is other programs'. */
#include "scratch.h"

#include "train/trainer.h"
#include <math.h>

static yk_process process(const char *host, int workers, double cpu, double seconds)
{
    yk_process p = {.workers = workers,
                    .usage = {.host_cores = 2,
                              .cpu = {cpu, cpu},
                              .cpu_host = {2.0, 2.0},
                              .delayed = {0.5, 0.5},
                              .seconds = seconds}};
    snprintf(p.usage.host, sizeof p.usage.host, "%s", host);
    return p;
}

static void ranks_of_one_host_are_added_up(void **state)
{
    (void)state;
    yk_process p[] = {process("a", 0, 0.2, 10.0), process("a", 1, 0.8, 10.0), process("b", 1, 1.0, 10.0),
                      process("a", 1, 0.9, 10.0)};
    yk_usage u;
    int workers;
    yk__usage_of_host(p, 4, 0, &u, &workers);
    assert_int_equal(workers, 2);
    assert_true(fabs(u.cpu.mean - 1.9) < 1e-9);     /* 0.1 of the two cores are others' */
    assert_true(fabs(u.delayed.mean - 1.5) < 1e-9); /* of three processes */
    assert_true(u.cpu_host.mean == 2.0);
    yk__usage_of_host(p, 4, 2, &u, &workers);
    assert_int_equal(workers, 1);
    assert_true(u.cpu.mean == 1.0);
}

/* A mean over the second half of the run is half as much of all of it. */
static void who_came_late_or_is_gone_counts_for_its_time(void **state)
{
    (void)state;
    yk_process p[] = {process("a", 1, 1.0, 10.0), process("a", 1, 0.8, 5.0), process("a", 1, 0.4, 2.5)};
    yk_usage u;
    int workers;
    p[2].lost = true;
    yk__usage_of_host(p, 3, 0, &u, &workers);
    assert_int_equal(workers, 2);
    assert_true(fabs(u.cpu.mean - (1.0 + 0.4 + 0.1)) < 1e-9);
    p[0].usage.seconds = 0.0; /* nothing was measured yet */
    yk__usage_of_host(p, 3, 0, &u, &workers);
    assert_true(u.cpu.mean == 1.0);
}

/* The last line of a log that has something, also where it is half written. */
static void the_last_line_that_says_it(void **state)
{
    (void)state;
    char line[256], name[16];
    const char *path = in_folder("log.jsonl");
    yk__lines_last(path, "step", line, sizeof line);
    assert_string_equal(line, ""); /* there is no file */
    assert_true(isnan(yk__line_number(line, "step")));
    const char text[] = "{\"kind\":\"train\",\"step\":7,\"bottleneck\":\"cpu\",\"share\":0.5}\n"
                        "{\"kind\":\"eval\",\"step\":9}\n"
                        "{\"kind\":\"train\",\"step\":1";
    put(path, text, strlen(text));
    yk__lines_last(path, "step", line, sizeof line);
    assert_true(yk__line_number(line, "step") == 9.0);
    yk__lines_last(path, "bottleneck", line, sizeof line);
    yk__line_text(line, "bottleneck", name, sizeof name);
    assert_string_equal(name, "cpu");
    assert_true(yk__line_number(line, "share") == 0.5);
    yk__line_text(line, "nothing", name, sizeof name);
    assert_string_equal(name, "");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(ranks_of_one_host_are_added_up),
        cmocka_unit_test(who_came_late_or_is_gone_counts_for_its_time),
        cmocka_unit_test(the_last_line_that_says_it),
    };
    return cmocka_run_group_tests(tests, make_folder, remove_folder);
}
