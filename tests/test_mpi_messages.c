/* What the launcher makes of the messages and the version of MPI. */
#include "scratch.h"

#include "cli/network.h"
#include "cli/output_filter.h"

static const char *reason_of(const char *text)
{
    static char reason[200];
    static yk_output_filter o;
    snprintf(o.held, sizeof o.held, "%s", text);
    yk_output_filter_reason(&o, reason, sizeof reason);
    return reason;
}

static void reasons(void **state)
{
    (void)state;
    assert_string_equal(reason_of("Host:      vm\nFramework: pml\nComponent: x\n"),
                        "the component 'x' of the framework 'pml' was not found");
    assert_string_equal(reason_of("  BTLs attempted: self tcp \n\nYour MPI job\n"),
                        "processes cannot reach each other over the allowed transports (self tcp)");
    assert_string_equal(
        reason_of("developer):\n\n  ompi_mpi_init: failed\n  --> Returned \"Not found\" (-13) instead\n"),
        "ompi_mpi_init: failed: \"Not found\"");
    assert_string_equal(reason_of("--> Returned"), "");
    assert_string_equal(reason_of(""), "");
}

static const char *obstacle(bool has_run_dir, const char *library)
{
    static char text[240];
    yk_network_join_obstacle(has_run_dir, library, text, sizeof text);
    return text;
}

static void joining(void **state)
{
    (void)state;
    assert_non_null(
        strstr(obstacle(true, "Open MPI v5.0.7"), "unlike Open MPI 4, Open MPI v5.0.7 has no name server"));
    assert_non_null(strstr(obstacle(true, "Open MPI v4.1.4"), "did not start"));
    assert_non_null(strstr(obstacle(true, "MPICH Version: 4.0.2"), "cannot connect jobs"));
    assert_non_null(strstr(obstacle(false, "Open MPI v4.1.4"), "no run directory"));
}

/* Open MPI 5 writes zero bytes between lines. Messages of MPI wait until all processes are connected. */
static void filtering(void **state)
{
    static const char text[] =
        "\001alive 0\n\0[vm:1] *** An error occurred in MPI_Init_thread\n\0\001ended 2\n";
    int err[2], out[2];
    (void)state;
    assert_false(pipe(err) || pipe(out));
    assert_int_equal(write(err[1], text, sizeof text - 1), sizeof text - 1);
    close(err[1]);
    close(out[1]);
    yk_output_filter o = {.err.fd = err[0], .out.fd = out[0], .ended = -1};
    assert_int_equal(yk_output_filter_end(&o), YK_OK);
    assert_true(o.init_failed && o.ended == 2 && o.nheld > 40);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(reasons),
        cmocka_unit_test(joining),
        cmocka_unit_test(filtering),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
