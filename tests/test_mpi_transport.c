/* MPI as a transport (comm/mpi_plugin.c) does what every transport does. The test starts itself under mpirun. */
#include "comm/plugin.h"
#include "scratch.h"

#include "transport_conformance.h"
#include <unistd.h>

static int run_rank(void)
{
    yk_transport t = {0};
    yk_world world;
    yk_status st = yk_mpi_load(&t.ops);
    if (!st && t.ops->start(t.self, &world))
        st = yk_fail(YK_ESYSTEM, "MPI cannot start");
    if (!st)
        st = conform(&t, world.rank, world.size);
    if (!st)
        t.ops->stop(t.self);
    else
        fprintf(stderr, "%s\n", yk_error());
    return st ? 1 : 0;
}

static const char *program;

static void test_conformance(void **state)
{
    char command[PATH_MAX + 200];
    (void)state;
    if (!yk_mpi_has_plugin(YK_MPI_OPEN_MPI) ||
        system("command -v mpirun >/dev/null")) /* not with sanitizers */
        skip();
    snprintf(command, sizeof command,
             "OMPI_ALLOW_RUN_AS_ROOT=1 OMPI_ALLOW_RUN_AS_ROOT_CONFIRM=1 timeout 60 mpirun --oversubscribe "
             "--mca btl self,vader --mca mpi_yield_when_idle 1 -n 3 '%s'",
             program);
    assert_int_equal(system(command), 0);
}

int main(int argc, char **argv)
{
    (void)argc;
    if (getenv("OMPI_COMM_WORLD_SIZE"))
        return run_rank();
    program = argv[0];
    const struct CMUnitTest tests[] = {cmocka_unit_test(test_conformance)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
