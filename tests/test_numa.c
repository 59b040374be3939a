/* NUMA nodes, from a directory that stands in for /sys, and which process gets which cores. */
#include "base/numa.h"

#include "scratch.h"

static void make_node(int node, const char *list)
{
    char path[64];
    snprintf(path, sizeof path, "devices/system/node/node%d", node);
    assert_int_equal(mkdir(in_directory(path), 0777), 0);
    strcat(path, "/cpulist");
    put(in_directory(path), list, strlen(list));
}

static int make_nodes(void **state)
{
    if (make_test_directory(state))
        return 1;
    assert_int_equal(mkdir(in_directory("devices"), 0777), 0);
    assert_int_equal(mkdir(in_directory("devices/system"), 0777), 0);
    assert_int_equal(mkdir(in_directory("devices/system/node"), 0777), 0);
    make_node(0, "0-3,8\n");
    make_node(1, "\n"); /* only memory */
    make_node(2, "4-7,9-10\n");
    make_node(5, "11\n");
    return 0;
}

static void assert_cores(const cpu_set_t *set, const char *list)
{
    char have[256] = "";
    for (int k = 0; k < 64; k++)
        if (CPU_ISSET(k, set))
            snprintf(have + strlen(have), sizeof have - strlen(have), "%d ", k);
    assert_string_equal(have, list);
}

static void nodes_are_read(void **state)
{
    (void)state;
    yk_numa n;
    yk_numa_read(in_directory("none"), &n);
    assert_int_equal(n.nodes, 0);
    yk_numa_read(directory, &n);
    assert_int_equal(n.nodes, 3);
    assert_cores(&n.cores[0], "0 1 2 3 8 ");
    assert_cores(&n.cores[1], "4 5 6 7 9 10 ");
    assert_cores(&n.cores[2], "11 ");
}

static void nodes_are_divided(void **state)
{
    (void)state;
    static const struct {
        int process, processes;
        const char *cores; /* NULL: all */
    } want[] = {{0, 1, NULL},
                {0, 2, "0 1 2 3 8 "},
                {1, 2, "4 5 6 7 9 10 11 "},
                {1, 3, "4 5 6 7 9 10 "},
                {3, 7, "4 5 6 7 9 10 "},
                {6, 7, "11 "}};
    yk_numa n;
    cpu_set_t own;
    yk_numa_read(directory, &n);
    for (size_t i = 0; i < sizeof want / sizeof *want; i++) {
        assert_int_equal(yk_numa_part(&n, want[i].process, want[i].processes, &own), want[i].cores != NULL);
        assert_cores(&own, want[i].cores ? want[i].cores : "");
    }
}

static void restricted_cores(void **state)
{
    (void)state;
    yk_numa n;
    cpu_set_t allowed, own;
    CPU_ZERO(&allowed);
    for (int k = 0; k < 16; k++)
        CPU_SET(k, &allowed);
    yk_numa_read(directory, &n);
    assert_false(yk_numa_restrict(&n, &allowed));
    assert_int_equal(n.nodes, 3);
    CPU_CLR(2, &allowed);
    CPU_CLR(11, &allowed);
    assert_true(yk_numa_restrict(&n, &allowed));
    assert_int_equal(n.nodes, 2);
    assert_true(yk_numa_part(&n, 0, 4, &own));
    assert_cores(&own, "0 1 3 8 ");
    CPU_ZERO(&allowed);
    CPU_SET(5, &allowed);
    assert_true(yk_numa_restrict(&n, &allowed)); /* bound to one node already */
    assert_int_equal(n.nodes, 1);
    assert_false(yk_numa_part(&n, 0, 4, &own));
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(nodes_are_read), cmocka_unit_test(nodes_are_divided),
                                       cmocka_unit_test(restricted_cores)};
    return cmocka_run_group_tests_name("numa", tests, make_nodes, remove_test_directory);
}
