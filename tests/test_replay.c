/* Recorded evidence of real runs, replayed through the verdict: tests/evidence/NAME.json, written by ./dev inject --record. Five older
 * recordings of jobs on several hosts (all-links-at-50-mbit-s, one-link-*, the-chief-s-link-*, three-hosts-at-1-gbit-s) have no
 * samples of links: their `carried` was computed from the bytes and the rate of their steps.
 * With arguments, prints the verdicts on these files instead: build/test_replay FILE... */
#include "scratch.h"

#include "base/json.h"
#include "observe/verdict.h"
#include <dirent.h>
#include <jansson.h>
#include <math.h>

enum { MAX = 64 };

typedef struct {
    yk_process_evidence worker[MAX], server[MAX];
    yk_usage usage;
    yk_evidence e;
} evidence;

static double real(const json_t *o, const char *name)
{
    const json_t *x = json_object_get(o, name);
    return json_is_number(x) ? json_number_value(x) : (double)NAN;
}

static int whole(const json_t *o, const char *name)
{
    return (int)json_integer_value(json_object_get(o, name));
}

static const char *text(const json_t *o, const char *name)
{
    return json_string_value(json_object_get(o, name));
}

static bool flag(const json_t *o, const char *name)
{
    return json_is_true(json_object_get(o, name));
}

/* Of older evidence, no samples are known. */
static yk_link_evidence read_link(const json_t *o)
{
    return (yk_link_evidence){real(o, "carried"), json_number_value(json_object_get(o, "sampled")),
                              real(o, "highest")};
}

static yk_process_evidence read_worker(const json_t *o)
{
    yk_process_evidence w = {.rank = whole(o, "rank"),
                             .worker = whole(o, "worker"),
                             .host = text(o, "host"),
                             .busy = real(o, "busy"),
                             .cpu = real(o, "cpu"),
                             .stopped = real(o, "stopped"),
                             .delayed = real(o, "delayed"),
                             .bytes_per_step = real(o, "bytes_per_step"),
                             .link = read_link(o),
                             .phases = {.seconds = real(o, "seconds"),
                                        .steps = (uint64_t)real(o, "steps"),
                                        .examples = (uint64_t)real(o, "examples"),
                                        .timed = (uint64_t)real(o, "timed"),
                                        .barriers = (uint64_t)real(o, "barriers"),
                                        .last = (uint64_t)real(o, "last"),
                                        .step_mean = real(o, "step_mean"),
                                        .step_deviation = real(o, "step_deviation")}};
    const json_t *phases = json_object_get(o, "phases");
    for (int k = 0; k < YK_PHASES; k++) /* older evidence lacks phases that were added later */
        w.phases.phase[k] = json_number_value(json_object_get(phases, yk_phase_name((yk_phase)k)));
    return w;
}

static void read_usage(const json_t *o, yk_usage *u)
{
    *u = (yk_usage){.cores = real(o, "cores"),
                    .host_cores = real(o, "host_cores"),
                    .cpu.mean = real(o, "cpu"),
                    .cpu_host.mean = real(o, "cpu_host"),
                    .delayed.mean = real(o, "delayed"),
                    .disk_busy.mean = real(o, "disk_busy"),
                    .memory_stall.mean = real(o, "memory_stall"),
                    .major_faults.mean = real(o, "major_faults")};
}

/* Borrows texts from `o`. */
static void read_evidence(const json_t *o, evidence *out)
{
    const json_t *list = json_object_get(o, "measured"), *servers = json_object_get(o, "servers"), *one;
    size_t i;
    out->e = (yk_evidence){.waits = flag(o, "waits"),
                           .do_not_wait = text(o, "do_not_wait"),
                           .send_less = text(o, "send_less"),
                           .network = flag(o, "network"),
                           .streamed = flag(o, "streamed"),
                           .workers = whole(o, "workers"),
                           .ranks = whole(o, "ranks"),
                           .hosts = whole(o, "hosts"),
                           .threads = whole(o, "threads"),
                           .batch = (uint64_t)whole(o, "batch"),
                           .host_threads = whole(o, "host_threads"),
                           .saves = whole(o, "saves"),
                           .seconds = real(o, "seconds"),
                           .round_trips = real(o, "round_trips"),
                           .round_trip = real(o, "round_trip"),
                           .measured = out->worker,
                           .server = out->server,
                           .usage = &out->usage};
    json_array_foreach(list, i, one)
    {
        if (i < MAX)
            out->worker[out->e.nmeasured++] = read_worker(one);
    }
    json_array_foreach(servers, i, one)
    {
        if (i < MAX)
            out->server[out->e.nservers++] = read_worker(one);
    }
    read_usage(json_object_get(o, "usage"), &out->usage);
}

static json_t *load(const char *path)
{
    json_error_t error;
    json_t *o = json_load_file(path, 0, &error);
    if (!o)
        fail_msg("%s: %s", path, error.text);
    return o;
}

static void find(const json_t *o, yk_verdict *out)
{
    static evidence e;
    read_evidence(o, &e);
    yk_verdict_find(&e.e, out);
}

static void check(const char *path)
{
    json_t *fixture = load(path);
    const json_t *kinds = json_object_get(fixture, "kinds"), *kind;
    const char *words = text(fixture, "words");
    bool right = false;
    size_t i;
    yk_verdict v;
    find(json_object_get(fixture, "evidence"), &v);
    json_array_foreach(kinds, i, kind)
    {
        right |= strcmp(json_string_value(kind), yk_verdict_name(v.kind)) == 0;
    }
    if (!right || (words && !strstr(v.text, words) && !strstr(v.advice, words)))
        fail_msg("%s: the verdict is '%s' / '%s'", path, v.text, v.advice);
    json_decref(fixture);
}

static void recorded_runs(void **state)
{
    (void)state;
    DIR *d = opendir(YK_SOURCE "/tests/evidence");
    int n = 0;
    assert_non_null(d);
    for (const struct dirent *f; (f = readdir(d));) {
        char path[1024];
        snprintf(path, sizeof path, YK_SOURCE "/tests/evidence/%s", f->d_name);
        if (f->d_name[0] == '.' || !strstr(f->d_name, ".json"))
            continue;
        check(path);
        n++;
    }
    closedir(d);
    assert_true(n >= 20);
}

static void print(const char *path)
{
    json_t *o = load(path), *inner = json_object_get(o, "evidence");
    yk_verdict v;
    find(inner ? inner : o, &v);
    printf("%s\t%s; %s\n", path, v.text, v.advice);
    json_decref(o);
}

int main(int argc, char **argv)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(recorded_runs)};
    for (int i = 1; i < argc; i++)
        print(argv[i]);
    return argc > 1 ? 0 : cmocka_run_group_tests(tests, NULL, NULL);
}
