/* The hosts and the number of processes of a job, from --launch, --hosts and --hostfile. */
#include "config/hosts.h"

#include "scratch.h"

static yk_status count(const char *name, const char *value, const char *launch, int64_t *out)
{
    yk_config c;
    yk_config_init(&c);
    assert_int_equal(yk_config_set(&c, "launch", launch), YK_OK);
    assert_int_equal(yk_config_set(&c, name, value), YK_OK);
    yk_status st = yk_job_processes(&c, out);
    yk_config_fini(&c);
    return st;
}

static yk_status count_file(const char *text, int64_t *out)
{
    put(in_directory("hosts"), text, strlen(text));
    return count("hostfile", in_directory("hosts"), "0", out);
}

static void hosts_are_counted(void **state)
{
    (void)state;
    int64_t n;
    assert_int_equal(count("hosts", "a,b:2", "0", &n), YK_OK);
    assert_int_equal(n, 3);
    assert_int_equal(count("hosts", "a,b:2", "2", &n), YK_OK);
    assert_int_equal(n, 2);
    assert_int_equal(count("hosts", "u@a,[fe80::1]:2", "0", &n), YK_OK);
    assert_int_equal(n, 3);
    assert_error(
        count("hosts", "a,b:2", "4", &n), YK_EUSAGE,
        "--launch 4: the hosts have only 3 slots; give them more (--hosts a:4,b:4), or use --launch 3");
    assert_error(count("hosts", "a", "2", &n), YK_EUSAGE, "the hosts have only 1 slot; give them more");
    assert_int_equal(count("join", "runs/x", "2", &n), YK_OK);
    assert_int_equal(n, 1);
    assert_int_equal(count("batch", "10", "0", &n), YK_OK); /* no job */
    assert_int_equal(n, 1);
    static const char *const wrong[] = {"a:x", "a:0", "a,,b", ":2", "a:2000", "a:", "[]:2", "[a", "a:2:3"};
    for (size_t i = 0; i < sizeof wrong / sizeof *wrong; i++)
        assert_error(count("hosts", wrong[i], "2", &n), YK_EUSAGE, "must be a list such as a,b:2");
    assert_error(count("hosts", "a,-oProxyCommand=x", "0", &n), YK_EUSAGE,
                 "--hosts: '-oProxyCommand=x': a host name cannot begin with '-'");
}

static void hostfiles_are_counted(void **state)
{
    (void)state;
    static const struct {
        const char *text;
        int64_t processes;
    } want[] = {
        {"a slots=1\nb slots=2\n", 3},
        {"# hosts\n\n  a-b.c  max_slots=8 slots = 4 // four\nb\tuser=x slots=2", 6},
        {"10.0.0.1 slots=2\r\n", 2},
        {"a slots=1\nb\na\n", 3},
        {"a max_slots=2\nfe80::1 slots=2\n", 3},
    };
    static const char *const wrong[] = {"a slots=x\n", "a slots=\n", "a slots=99999\n", "^a slots=2\n",
                                        "a:2\n"};
    int64_t n;
    for (size_t i = 0; i < sizeof want / sizeof *want; i++) {
        assert_int_equal(count_file(want[i].text, &n), YK_OK);
        assert_int_equal(n, want[i].processes);
    }
    for (size_t i = 0; i < sizeof wrong / sizeof *wrong; i++)
        assert_error(count_file(wrong[i], &n), YK_EUSAGE, "hosts:1: a line must be of the form HOST slots=N");
    assert_error(count_file("# none\n", &n), YK_EUSAGE, "names no host");
    assert_error(count_file("a slots=1\n-b slots=1\n", &n), YK_EUSAGE, "hosts:2: '-b': a host name");
    assert_error(count("hostfile", in_directory("none"), "2", &n), YK_EUSAGE, "cannot read the hostfile");
    assert_error(count("hostfile", directory, "2", &n), YK_EUSAGE, "not a regular file");
}

static void each_host_is_listed_once(void **state)
{
    (void)state;
    static char hosts[] = "a,[fe80::1]:2,a:3";
    const yk_config c = {.hosts = hosts, .launch = 5};
    yk_host *host;
    size_t n;
    assert_int_equal(yk_job_hosts(&c, &host, &n), YK_OK);
    assert_int_equal(n, 2);
    assert_string_equal(host[0].name, "a");
    assert_int_equal(host[0].processes, 4);
    assert_string_equal(host[1].name, "fe80::1");
    assert_int_equal(host[1].processes, 1);
    free(host);
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(hosts_are_counted),
                                       cmocka_unit_test(hostfiles_are_counted),
                                       cmocka_unit_test(each_host_is_listed_once)};
    return cmocka_run_group_tests_name("hosts", tests, make_test_directory, remove_test_directory);
}
