/* Resource usage: with fake files, and compared with /proc while this process uses the CPU. */
#include "scratch.h"

#include "base/cgroup.h"
#include "base/clock.h"
#include "base/file.h"
#include "watch/proc.h"
#include "watch/resources.h"
#include <jansson.h>
#include <math.h>
#include <sys/stat.h>
#include <time.h>

/* ---- fake root directories */

static void plant(const char *name, const char *text)
{
    char path[400];
    snprintf(path, sizeof path, "%s/%s", directory, name);
    char *slash = strrchr(path, '/');
    *slash = '\0';
    assert_int_equal(yk_dir_make(path), YK_OK);
    *slash = '/';
    put(path, text, strlen(text));
}

static void unplant(const char *name)
{
    nftw(in_directory(name), remove_one, 8, FTW_DEPTH | FTW_PHYS);
}

static int clear(void **state)
{
    return remove_test_directory(state) || mkdir(directory, 0700);
}

static yk_limits limits(void)
{
    yk_limits l;
    yk_cgroup_limits(in_directory("proc"), in_directory("sys"), &l);
    return l;
}

static void version_2_of_cgroups(void **state)
{
    (void)state;
    assert_true(limits().cores == 0.0 && limits().memory == 0.0); /* no files */
    plant("proc/self/cgroup", "0::/a/b\n");
    plant("sys/fs/cgroup/a/b/cpu.max", "150000 100000\n");
    plant("sys/fs/cgroup/a/b/memory.max", "max\n");
    plant("sys/fs/cgroup/a/memory.max", "1073741824\n");
    assert_true(limits().cores == 1.5);
    assert_true(limits().memory == 1073741824.0);
    plant("sys/fs/cgroup/a/cpu.stat", "usage_usec 5\nnr_periods 8\nnr_throttled 2\nthrottled_usec 2500000\n");
    assert_true(fabs(limits().throttled - 2.5) < 1e-9);
    plant("sys/fs/cgroup/a/cpu.max", "50000 100000\n"); /* a parent with a lower limit */
    assert_true(limits().cores == 0.5);
    plant("sys/fs/cgroup/a/cpu.max", "max 100000\n");
    plant("sys/fs/cgroup/a/b/cpu.max", "max 100000\n");
    assert_true(limits().cores == 0.0);
    /* a path of the host that does not exist in a container: the files of the root apply */
    plant("proc/self/cgroup", "0::/../elsewhere\n");
    plant("sys/fs/cgroup/cpu.max", "400000 100000\n");
    assert_true(limits().cores == 4.0);
}

/* The process's own cgroup has memory left, its parent has less, the host has the most. */
static void available_memory(void **state)
{
    (void)state;
    plant("proc/meminfo", "MemTotal: 9000 kB\nMemAvailable:    8000 kB\n");
    assert_true(yk_memory_available(in_directory("proc"), in_directory("sys")) == 8000 * 1024.0);
    plant("proc/self/cgroup", "0::/a/b\n");
    plant("sys/fs/cgroup/a/b/memory.max", "5000000\n");
    plant("sys/fs/cgroup/a/b/memory.current", "1000000\n");
    assert_true(yk_memory_available(in_directory("proc"), in_directory("sys")) == 4e6);
    plant("sys/fs/cgroup/a/memory.max", "6000000\n");
    plant("sys/fs/cgroup/a/memory.current", "3000000\n");
    assert_true(yk_memory_available(in_directory("proc"), in_directory("sys")) == 3e6);
    assert_true(limits().memory == 5e6 && limits().memory_left == 3e6);
    plant("sys/fs/cgroup/a/memory.stat", /* cached files are no reason to refuse memory */
          "anon 500000\nfile 2500000\ninactive_file 1500000\nactive_file 900000\nunevictable 0\n");
    assert_true(limits().memory_left == 4e6);
    unplant("sys/fs/cgroup/a/memory.stat");
    plant("sys/fs/cgroup/a/memory.current", "7000000\n"); /* above its limit for a moment */
    assert_true(yk_memory_available(in_directory("proc"), in_directory("sys")) == 0.0);
    plant("proc/self/cgroup", "3:memory:/x\n");
    plant("sys/fs/cgroup/memory/x/memory.limit_in_bytes", "9223372036854771712\n");
    plant("sys/fs/cgroup/memory/x/memory.usage_in_bytes", "5\n");
    plant("sys/fs/cgroup/memory/memory.limit_in_bytes", "2000\n");
    plant("sys/fs/cgroup/memory/memory.usage_in_bytes", "500\n");
    assert_true(yk_memory_available(in_directory("proc"), in_directory("sys")) == 1500.0);
    plant("sys/fs/cgroup/memory/memory.stat",
          "cache 9\ninactive_file 1\nactive_file 1\ntotal_inactive_file 200\ntotal_active_file 100\n");
    assert_true(yk_memory_available(in_directory("proc"), in_directory("sys")) == 1800.0);
}

static void version_1_of_cgroups(void **state)
{
    (void)state;
    plant("proc/self/cgroup", "12:pids:/x\n4:memory:/x/y\n1:cpu,cpuacct:/x\n0::/\n");
    plant("sys/fs/cgroup/cpu/x/cpu.cfs_quota_us", "-1\n");
    plant("sys/fs/cgroup/cpu/x/cpu.cfs_period_us", "100000\n");
    plant("sys/fs/cgroup/memory/x/y/memory.limit_in_bytes", "9223372036854771712\n");
    assert_true(limits().cores == 0.0 && limits().memory == 0.0); /* both mean: no limit */
    plant("sys/fs/cgroup/cpu/x/cpu.cfs_quota_us", "250000\n");
    plant("sys/fs/cgroup/memory/x/memory.limit_in_bytes", "2000000000\n");
    assert_true(limits().cores == 2.5);
    assert_true(limits().memory == 2e9);
    plant("sys/fs/cgroup/cpu/x/cpu.stat", "nr_periods 8\nnr_throttled 2\nthrottled_time 500000000\n");
    assert_true(fabs(limits().throttled - 0.5) < 1e-9);
    plant("proc/self/cgroup", "nonsense\n:::\n\n");
    assert_true(limits().cores == 0.0 && limits().memory == 0.0);
}

static void out_of_memory_kills(void **state)
{
    (void)state;
    char text[400];
    plant("proc/self/cgroup", "4:memory:/a\n0::/a/b\n");
    const yk_limits none = limits();
    plant("sys/fs/cgroup/memory/a/memory.oom_control", "oom_kill_disable 0\nunder_oom 0\noom_kill 1\n");
    assert_int_equal(limits().oom_kills, 1);
    plant("sys/fs/cgroup/a/b/memory.events", "oom 4\noom_kill 3\noom_group_kill 9\n");
    plant("sys/fs/cgroup/a/memory.events", "oom_kill 70\n"); /* others are below it, too */
    plant("sys/fs/cgroup/a/b/memory.max", "512000000\n");
    const yk_limits three = limits();
    assert_int_equal(three.oom_kills, 3);
    assert_true(yk_cgroup_killed(&none, &three, text, sizeof text) &&
                !yk_cgroup_killed(&three, &three, text, 0));
    assert_non_null(
        strstr(text, "the kernel killed 3 processes because the cgroup reached its memory limit"));
    assert_non_null(strstr(text, "(limit: 512 MB); raise the limit"));
}

static void plant_host(int busy, int net)
{
    char text[1024];
    snprintf(text, sizeof text, "cpu  %d 0 100 1000 50 0 0 0 0 0\ncpu0 1 2 3 4\ncpu1 1 2 3 4\nintr 5\n",
             busy);
    plant("proc/stat", text);
    plant("proc/meminfo", "MemTotal:        1000 kB\nMemFree:          100 kB\nMemAvailable:     50 kB\n");
    snprintf(text, sizeof text,
             "Inter-|   Receive  |  Transmit\n face |bytes packets |bytes packets\n"
             "    lo:     500      1    0    0    0     0          0         0      500       1    0    0    "
             "0     0       0          0\n"
             "  eth0:%8d      1    0    0    0     0          0         0 %8d       1    0    0    0     0   "
             "    0          0\n"
             "  idle:       0      0    0    0    0     0          0         0        0       0    0    0    "
             "0     0       0          0\n",
             1000 + net, 2000 + net);
    plant("proc/net/dev", text);
    plant("proc/diskstats", "   7       0 loop0 9 9 9 9 9 9 9 9 0 9999 9\n"
                            " 254       0 vda 1 2 3 4 5 6 7 8 0 1500 9 0 0 0 0\n");
    plant("proc/self/statm", "100 25 5 1 0 1 0\n");
    plant("proc/self/io", "rchar: 1\nread_bytes: 4096\nwrite_bytes: 8192\ncancelled_write_bytes: 1024\n");
    plant("proc/self/task/7/schedstat", "1000 2000000000 3\n");
    plant("proc/self/task/8/schedstat", "1000 500000000 3\n");
    plant("proc/pressure/memory", "some avg10=0.00 avg60=0.00 avg300=0.00 total=1500000\nfull total=9\n");
    plant("sys/class/net/eth0/speed", "1000\n");
}

static void machines_are_described(void **state)
{
    (void)state;
    yk_machine m;
    plant("proc/cpuinfo", "processor\t: 0\nmodel\t\t: 85\nmodel name\t: Some CPU @ 2 GHz\nflags\t: x\n");
    yk__machine_read(in_directory("proc"), &m);
    assert_string_equal(m.cpu, "Some CPU @ 2 GHz");
    assert_string_equal(m.yoke, YK_VERSION);
    assert_true(*m.kernel && *m.compiler && !*m.transport);
    yk__machine_read(in_directory("nothing"), &m); /* as on arm64, which has no name: the architecture */
    assert_true(*m.cpu && !strstr(m.cpu, "Some"));
}

static void every_file_is_parsed(void **state)
{
    (void)state;
    plant_host(500, 0);
    yk_proc_sample now;
    yk_proc_read(in_directory("proc"), in_directory("sys"), NULL, &now);
    assert_true(now.host_busy == 600.0 / (double)sysconf(_SC_CLK_TCK));
    assert_true(now.host_cores == 2.0);
    assert_true(now.host_memory == 1000 * 1024 && now.host_used == 950 * 1024);
    assert_true(now.rss == 25.0 * (double)sysconf(_SC_PAGESIZE));
    assert_true(now.read == 4096.0 && now.written == 7168.0);
    assert_true(fabs(now.delayed - 2.5) < 1e-9);
    assert_true(now.memory_stall == 1.5);
    assert_true(now.lo_in == 500.0 && now.lo_out == 500.0);
    assert_int_equal(now.nnics, 1);
    assert_string_equal(now.nic[0].name, "eth0");
    assert_true(now.nic[0].in == 1000.0 && now.nic[0].out == 2000.0 && now.nic[0].rate == 125e6);
    assert_int_equal(now.ndisks, 1);
    assert_true(now.disk[0].busy == 1.5);
}

static void missing_values_are_nan(void **state)
{
    (void)state;
    yk_proc_sample now;
    yk_proc_read(in_directory("proc"), in_directory("sys"), NULL, &now);
    assert_true(isnan(now.host_busy) && isnan(now.rss) && isnan(now.read) && isnan(now.delayed));
    assert_true(isnan(now.host_memory) && isnan(now.memory_stall) && now.nnics == 0 && now.ndisks == 0);
    assert_true(now.user >= 0.0 && now.rss_peak > 0.0); /* from the system call */
    plant("proc/stat", "garbage\n");
    plant("proc/net/dev", "eth0 no colon\n:::\nlo: x\n");
    plant("proc/diskstats", "1 2\n\n");
    plant("proc/self/statm", "");
    yk_proc_read(in_directory("proc"), in_directory("sys"), NULL, &now);
    assert_true(isnan(now.host_busy) && isnan(now.rss) && now.nnics == 0 && now.ndisks == 0);
}

/* ---- the sampler */

static void nap(double seconds)
{
    nanosleep(
        &(struct timespec){.tv_sec = (time_t)seconds, .tv_nsec = (long)((seconds - floor(seconds)) * 1e9)},
        NULL);
}

static volatile double sink;

/* Uses this many seconds of CPU time, however long that takes. */
static void burn(double seconds)
{
    for (clock_t until = clock() + (clock_t)(seconds * CLOCKS_PER_SEC); clock() < until;)
        for (int i = 1; i < 5000; i++)
            sink += 1.0 / i;
}

/* On a busy machine, the sampling thread may wait for a core for seconds. */
static void wait_for_samples(yk_resources *r, unsigned n)
{
    yk_usage u = {0};
    for (const double until = yk_now() + 20.0; u.samples < n && yk_now() < until; nap(0.05))
        yk_resources_usage(r, &u);
    assert_true(u.samples >= n);
}

/* user + system time of this process in seconds, from fields 14 and 15 of PROC/self/stat. */
static double stat_seconds(void)
{
    char text[2048];
    FILE *f = fopen("/proc/self/stat", "r");
    assert_non_null(f);
    assert_non_null(fgets(text, sizeof text, f));
    fclose(f);
    double user, system;
    const char *at = strrchr(text, ')');
    assert_non_null(at);
    assert_int_equal(sscanf(at + 1, " %*c %*d %*d %*d %*d %*d %*u %*u %*u %*u %*u %lf %lf", &user, &system),
                     2);
    return (user + system) / (double)sysconf(_SC_CLK_TCK);
}

/* The next line of a file of JSON lines, or NULL at its end. */
static json_t *next_line(FILE *f)
{
    static char line[1 << 16];
    if (!fgets(line, sizeof line, f))
        return NULL;
    json_error_t e;
    json_t *o = json_loads(line, 0, &e);
    if (!o)
        fail_msg("not JSON: %s: %s", e.text, line);
    return o;
}

static const char *text_of(const json_t *o, const char *name)
{
    const char *s = json_string_value(json_object_get(o, name));
    return s ? s : "";
}

static double real_of(const json_t *o, const char *name)
{
    const json_t *v = json_object_get(o, name);
    return json_is_number(v) ? json_number_value(v) : (double)NAN;
}

static void a_peak_is_at_least_the_mean(void **state)
{
    (void)state;
    yk_usage u = {0};
    yk__usage_update(&u, &(yk_sample){.cpu = 0.5}, &(yk_sample){.cpu = 0.6});
    yk__usage_update(&u, &(yk_sample){.cpu = 0.8}, NULL); /* the last interval was short, and busy */
    assert_true(u.cpu.mean == 0.8 && u.cpu.peak == 0.8);
}

static void samples_agree_with_proc(void **state)
{
    (void)state;
    yk_resources *r;
    yk_usage u;
    yk_resources_config c = {
        .every = 0.1, .dir = directory, .name = "resources.jsonl", .rank = 3, .role = "chief"};
    const double cpu = stat_seconds(), began = yk_now(), clock_began = (double)time(NULL);
    assert_int_equal(yk_resources_start(&c, &r), YK_OK);
    char *block = malloc(40 << 20); /* memory that a sample must show */
    assert_non_null(block);
    memset(block, 1, 40 << 20);
    burn(0.5);
    nap(0.3);
    const double used = stat_seconds() - cpu, seconds = yk_now() - began;
    assert_int_equal(yk_resources_stop(r, YK_OK, &u), YK_OK);
    free(block);
    if (fabs(u.cpu.mean - used / seconds) > 0.06)
        fail_msg("%g cores on average, /proc has %g", u.cpu.mean, used / seconds);
    assert_true(u.cpu.peak >= u.cpu.mean && u.cpu.peak < 1.5 * (double)sysconf(_SC_NPROCESSORS_ONLN));
    assert_true(u.memory.peak >= 40 << 20);
    assert_true(u.samples >= 2 && (double)u.samples <= seconds / c.every + 2.0);
    assert_true(u.cores >= 1.0 && u.cores <= (double)sysconf(_SC_NPROCESSORS_CONF));
    assert_true(u.cpu_host.mean >= 0.5 * u.cpu.mean);

    FILE *f = fopen(in_directory("resources.jsonl"), "r");
    assert_non_null(f);
    json_t *o = next_line(f);
    assert_string_equal(text_of(o, "kind"), "host");
    assert_string_equal(text_of(o, "role"), "chief");
    assert_int_equal(json_integer_value(json_object_get(o, "rank")), 3);
    assert_int_equal(json_integer_value(json_object_get(o, "pid")), getpid());
    assert_true(real_of(o, "began") >= clock_began && real_of(o, "began") <= (double)time(NULL) + 1.0);
    json_decref(o);
    double cpu_seconds = 0.0, before = 0.0;
    unsigned samples = 0;
    while ((o = next_line(f))) {
        if (strcmp(text_of(o, "kind"), "sample") == 0) {
            const double at = real_of(o, "seconds");
            assert_true(at > before);
            cpu_seconds += (real_of(o, "cpu_user") + real_of(o, "cpu_system")) * (at - before);
            before = at;
            samples++;
            assert_true(real_of(o, "rss") > 1e6 && real_of(o, "rss_peak") >= real_of(o, "rss") * 0.9);
            assert_null(json_object_get(o, "sent")); /* unknown, not 0 */
        }
        json_decref(o);
    }
    fclose(f);
    assert_int_equal(samples, u.samples);
    if (fabs(cpu_seconds - used) > 0.06)
        fail_msg("the samples add up to %g CPU seconds, /proc has %g", cpu_seconds, used);
}

/* After each sample: a host that other programs use, with far more CPU time than the next interval has, however late its
 * sample is. */
static void use_all_cores(void *context, const yk_sample *now)
{
    double *ticks = context;
    char text[100];
    (void)now;
    snprintf(text, sizeof text, "cpu  %.0f 0 0 9 0 0 0 0 0 0\ncpu0 1\ncpu1 1\n", *ticks += 1e5);
    plant("proc/stat", text);
}

static void alerts_have_begin_and_length(void **state)
{
    (void)state;
    plant_host(0, 0);
    double ticks = 0.0;
    yk_resources *r;
    yk_usage u;
    yk_resources_config c = {.proc = in_directory("proc"),
                             .sys = in_directory("sys"),
                             .every = 0.25,
                             .earlier = 100.0,
                             .dir = directory,
                             .name = "resources.jsonl",
                             .each = use_all_cores,
                             .context = &ticks};
    assert_int_equal(yk_resources_start(&c, &r), YK_OK);
    nap(2.6);
    assert_int_equal(yk_resources_stop(r, YK_OK, &u), YK_OK);
    bool cpu = false, memory = false;
    for (int i = 0; i < u.nalerts; i++) {
        const yk_alert *a = &u.alert[i];
        cpu |= a->what == YK_ALERT_CPU && a->seconds >= 1.0 && a->level > 0.9 && a->begin >= 100.0;
        memory |= a->what == YK_ALERT_MEMORY && a->seconds >= 1.5 && fabs(a->level - 0.95) < 0.01;
    }
    if (!cpu)
        fail_msg("no CPU alert (%d alerts, %g of %g cores)", u.nalerts, u.cpu_host.mean, u.host_cores);
    assert_true(memory);
    FILE *f = fopen(in_directory("resources.jsonl"), "r");
    assert_non_null(f);
    int alerts = 0;
    for (json_t *o; (o = next_line(f)); json_decref(o))
        alerts += strcmp(text_of(o, "kind"), "alert") == 0;
    fclose(f);
    assert_int_equal(alerts, u.nalerts);
}

static yk_bytes some_bytes(void *context)
{
    (void)context;
    return (yk_bytes){1234, 567};
}

static void count_looks(void *context, const yk_sample *now)
{
    *(int *)context += now->steps == 7 && now->bytes.sent == 1234;
}

static void phases_and_bytes_are_in_the_samples(void **state)
{
    (void)state;
    static yk_phases p[2];
    yk_phases_begin(&p[0], 2);
    yk_phases_begin(&p[1], 2);
    yk_phases_done(&p[0], 3, 30, 30.0, 0.0);
    yk_phases_done(&p[1], 4, 40, 40.0, 0.0);
    yk_phase_to(&p[0], YK_PHASE_COMPUTE);
    yk_phase_to(&p[1], YK_PHASE_EVAL);
    int samples = 0;
    yk_resources *r;
    yk_usage u;
    yk_resources_config c = {.every = 0.05,
                             .dir = directory,
                             .name = "resources.jsonl",
                             .phases = p,
                             .workers = 2,
                             .bytes = some_bytes,
                             .each = count_looks,
                             .context = &samples};
    assert_int_equal(yk_resources_start(&c, &r), YK_OK);
    wait_for_samples(r, 2);
    assert_int_equal(yk_resources_stop(r, YK_OK, &u), YK_OK);
    assert_int_equal(samples, u.samples);
    FILE *f = fopen(in_directory("resources.jsonl"), "r");
    assert_non_null(f);
    double computed = -1.0, tested = -1.0;
    for (json_t *o; (o = next_line(f)); json_decref(o))
        if (strcmp(text_of(o, "kind"), "sample") == 0) {
            assert_true(real_of(o, "sent") == 1234.0 && real_of(o, "received") == 567.0);
            assert_true(real_of(o, "steps") == 7.0);
            computed = real_of(json_object_get(o, "phases"), "compute");
            tested = real_of(json_object_get(o, "phases"), "eval");
        }
    fclose(f);
    assert_true(computed > 0.05 && computed < 0.6 &&
                tested > 0.05); /* half of the time: the mean of two workers */
    yk_phases_end(&p[0]);
    yk_phases_end(&p[1]);
}

/* A week of lines, of the length of the longest one that is written here. */
static void a_long_run_has_a_short_log(void **state)
{
    (void)state;
    yk_resources *r;
    yk_usage u;
    char line[4096];
    size_t longest = 0, lines = 0;
    yk_resources_config c = {.every = 0.05, .dir = directory, .name = "resources.jsonl", .earlier = 86400.0};
    assert_int_equal(yk_resources_start(&c, &r), YK_OK);
    burn(0.3);
    wait_for_samples(r, 3);
    assert_int_equal(yk_resources_stop(r, YK_OK, &u), YK_OK);
    FILE *f = fopen(in_directory("resources.jsonl"), "r");
    assert_non_null(f);
    json_decref(next_line(f)); /* the host */
    json_t *o = next_line(f);  /* the last sample, since the first: after a day, lines are 24 s apart */
    assert_string_equal(text_of(o, "kind"), "sample");
    assert_true(real_of(o, "seconds") > 86400.25);
    assert_float_equal(real_of(o, "cpu_user") + real_of(o, "cpu_system"), u.cpu.mean, 0.05);
    json_decref(o);
    assert_null(next_line(f));
    rewind(f);
    while (fgets(line, sizeof line, f))
        longest = strlen(line) > longest ? strlen(line) : longest;
    fclose(f);
    for (double at = 0.25; at < 7 * 86400.0; at += yk_log_gap(at, 0.25))
        lines++;
    if (lines * (longest + 300) > 50000000) /* phases and messages make lines longer */
        fail_msg("%zu lines of %zu bytes", lines, longest);
}

static void means_without_a_sampling_thread(void **state)
{
    (void)state;
    yk_resources *r;
    yk_usage u;
    yk_resources_config c = {.every = 0.0, .dir = directory, .name = "resources.jsonl"};
    assert_int_equal(yk_resources_start(&c, &r), YK_OK);
    burn(0.2);
    assert_int_equal(yk_resources_stop(r, YK_OK, &u), YK_OK);
    assert_int_equal(u.samples, 1);
    const double used = u.cpu.mean * u.seconds;
    assert_true(used > 0.15 && used < 0.3);
    assert_int_not_equal(access(in_directory("resources.jsonl"), F_OK), 0);
    assert_int_equal(yk_resources_stop(NULL, YK_EDATA, &u), YK_EDATA);
}

static void a_missing_directory(void **state)
{
    (void)state;
    yk_resources *r;
    yk_resources_config c = {.every = 0.1, .dir = directory, .name = "none/resources.jsonl"};
    assert_error(yk_resources_start(&c, &r), YK_ESYSTEM, "none/resources.jsonl");
    assert_null(r);
    unplant("none");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup(version_2_of_cgroups, clear),
        cmocka_unit_test_setup(version_1_of_cgroups, clear),
        cmocka_unit_test_setup(available_memory, clear),
        cmocka_unit_test_setup(out_of_memory_kills, clear),
        cmocka_unit_test_setup(machines_are_described, clear),
        cmocka_unit_test_setup(every_file_is_parsed, clear),
        cmocka_unit_test_setup(missing_values_are_nan, clear),
        cmocka_unit_test(a_peak_is_at_least_the_mean),
        cmocka_unit_test_setup(samples_agree_with_proc, clear),
        cmocka_unit_test_setup(alerts_have_begin_and_length, clear),
        cmocka_unit_test_setup(phases_and_bytes_are_in_the_samples, clear),
        cmocka_unit_test_setup(a_long_run_has_a_short_log, clear),
        cmocka_unit_test_setup(means_without_a_sampling_thread, clear),
        cmocka_unit_test_setup(a_missing_directory, clear),
    };
    return cmocka_run_group_tests(tests, make_test_directory, remove_test_directory);
}
