/* The program: runs schedules in child processes, on all cores, and reports those that fail. See simulate.h. */
#include "simulate.h"

#include <dirent.h>
#include <ftw.h>
#include <getopt.h>
#include <malloc.h>
#include <sched.h>
#include <stdio.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

enum { SECONDS = 300, CPU_SECONDS = 20 }; /* real time and CPU time for a schedule */
enum { TWICE = 16 };                      /* one schedule of this many is run twice */

static char directory[128]; /* temporary, on the real disk */
static const char *program;
static bool print_digests;

/* ---- one schedule ---- */

typedef struct {
    schedule s;
    attempt undisturbed, last;
    attempt_plan plan[MAX_ATTEMPTS]; /* with times of this schedule */
    int attempts;
    uint64_t digest;
    complaint why;
    bool trace;
} run;

static yk_fs_memory *make_disk(uint64_t seed)
{
    yk_fs_memory *m = yk_fs_memory_create(seed);
    if (!m)
        exit(EXIT_FAILURE);
    yk_fs_set(yk_fs_memory_fs(m));
    bool ok = !yk_sys->make_dir(AT_FDCWD, "other", 0777);
    const int fd = yk_sys->open(AT_FDCWD, other_file, O_WRONLY | O_CREAT, 0666);
    ok &= yk_sys->write(fd, "other", 5) == 5 && !yk_sys->sync(fd) && !yk_fs_close(fd);
    for (int i = 0; i < 2; i++) {
        const int dir = yk_sys->open(AT_FDCWD, i ? "." : "other", O_RDONLY, 0);
        ok &= !yk_sys->sync(dir) && !yk_fs_close(dir);
    }
    yk_fs_set(NULL);
    if (!ok)
        exit(EXIT_FAILURE);
    return m;
}

/* Fractions become times and numbers of changes of the disk. */
static void scale(const attempt *undisturbed, attempt_plan *p)
{
    const double all = undisturbed->sim.seconds, training = all - undisturbed->training;
    for (int i = 0; i < p->events; i++) {
        double *at = &p->event[i].at;
        *at = *at < 1.0 ? *at * all : undisturbed->training + (*at - 1.0) * training;
    }
    for (int i = 0; i < p->joiners; i++)
        p->join_at[i] *= all;
    p->disk_at *= (double)undisturbed->changes;
}

static void show(const run *r, const char *what)
{
    if (r->trace)
        printf("---- %s\n", what);
}

/* The disturbed attempts, then one without faults. */
static const char *run_attempts(run *r, yk_fs_memory *disk)
{
    attempt *a = &r->last;
    const char *wrong = NULL;
    bool done = false;
    a->saved = UINT64_MAX;
    for (int i = 0; !wrong && !done && i <= r->s.attempts; i++) {
        const bool faults = i < r->s.attempts;
        attempt_plan *p = faults ? &r->plan[i] : NULL;
        if (faults) {
            *p = r->s.attempt[i];
            scale(&r->undisturbed, p);
        }
        show(r, faults ? "an attempt" : "the last attempt");
        attempt_free(a);
        attempt_run(&r->s, p, disk, i > 0, r->trace, a);
        r->attempts = i + 1;
        r->digest = yk_mix64(r->digest ^ a->sim.digest);
        wrong = check_ends(&r->s, p, a, &r->why);
        done = attempt_done(a) && !a->result[0].interrupted;
        if (!wrong && !done)
            wrong = check_disk(disk, a, &r->why);
    }
    return wrong;
}

static const char *resume_again(run *r, yk_fs_memory *disk)
{
    kept_files before, after;
    attempt again = {.saved = UINT64_MAX};
    keep_files(disk, &r->last, &before);
    show(r, "the finished run is resumed");
    attempt_run(&r->s, NULL, disk, true, r->trace, &again);
    r->digest = yk_mix64(r->digest ^ again.sim.digest);
    const char *wrong = check_ends(&r->s, NULL, &again, &r->why);
    if (!wrong) {
        keep_files(disk, &again, &after);
        wrong = check_unchanged(&before, &after, &r->why);
        kept_files_free(&after);
    }
    kept_files_free(&before);
    attempt_free(&again);
    return wrong;
}

static const char *run_schedule(run *r)
{
    yk_fs_memory *reference = make_disk(r->s.seed), *disk = make_disk(r->s.seed);
    show(r, "the undisturbed run");
    r->undisturbed.saved = UINT64_MAX;
    attempt_run(&r->s, NULL, reference, false, r->trace, &r->undisturbed);
    r->digest = r->undisturbed.sim.digest;
    const char *wrong = check_ends(&r->s, NULL, &r->undisturbed, &r->why);
    if (!wrong)
        wrong = check_done(&r->s, NULL, &r->undisturbed, &r->undisturbed, reference, reference, &r->why);
    if (!wrong)
        wrong = run_attempts(r, disk);
    if (!wrong)
        wrong = check_done(&r->s, r->attempts <= r->s.attempts ? &r->plan[r->attempts - 1] : NULL, &r->last,
                           &r->undisturbed, disk, reference, &r->why);
    if (!wrong)
        wrong = resume_again(r, disk);
    r->digest = yk_mix64(r->digest ^ digest_of_files(reference)) ^ digest_of_files(disk);
    attempt_free(&r->last);
    attempt_free(&r->undisturbed);
    yk_fs_memory_free(reference);
    yk_fs_memory_free(disk);
    return wrong;
}

static void report(const run *r, const char *wrong)
{
    printf("seed %llu failed: %s\n  job: ", (unsigned long long)r->s.seed, wrong);
    schedule_print(&r->s, stdout);
    for (int i = 0; i < r->attempts; i++) {
        printf("  attempt %d: ", i + 1);
        if (i < r->s.attempts)
            attempt_print(&r->plan[i], stdout);
        else
            printf("no faults\n");
    }
    for (int i = 0; i < MAX_PROCESSES; i++)
        if (r->last.error[i][0])
            printf("  last error of rank %d: %s\n", i, r->last.error[i]);
    printf("  replay: %s --seed %llu --trace\n", program, (unsigned long long)r->s.seed);
    fflush(stdout);
}

/* Returns the exit status of a child process. */
static int run_seed(uint64_t seed, bool trace)
{
    run *r = calloc(2, sizeof *r);
    const char *wrong = NULL;
    if (!r)
        return EXIT_FAILURE;
    for (int i = 0; !wrong && i < 1 + (seed % TWICE == 0); i++) {
        r[i].trace = trace && i == 0;
        schedule_make(seed, directory, &r[i].s);
        if (trace && i == 0)
            schedule_print(&r[i].s, stdout);
        if ((wrong = run_schedule(&r[i])))
            report(&r[i], wrong);
    }
    if (!wrong && seed % TWICE == 0 && r[0].digest != r[1].digest)
        report(&r[1], wrong = "the same seed did not give the same schedule and the same files");
    if (print_digests)
        printf("seed %llu: %016llx\n", (unsigned long long)seed, (unsigned long long)r[0].digest);
    free(r);
    return wrong ? EXIT_FAILURE : EXIT_SUCCESS;
}

/* ---- all schedules ---- */

/* Runs one in a child process: what a killed rank leaves in memory ends with it, and a crash is a failure of one seed. */
static bool run_child(uint64_t seed)
{
    int status;
    fflush(stdout);
    const pid_t pid = fork();
    if (pid == 0) {
        setrlimit(RLIMIT_CPU, &(struct rlimit){CPU_SECONDS, CPU_SECONDS});
        alarm(SECONDS);
        const int code = run_seed(seed, false);
        fflush(stdout);
        _exit(code);
    }
    if (pid < 0 || waitpid(pid, &status, 0) != pid)
        return false;
    if (!WIFSIGNALED(status))
        return WEXITSTATUS(status) == 0;
    printf("seed %llu failed: %s\n  replay: %s --seed %llu --trace\n", (unsigned long long)seed,
           WTERMSIG(status) == SIGALRM   ? "it hangs"
           : WTERMSIG(status) == SIGKILL ? "it does not end"
                                         : strsignal(WTERMSIG(status)),
           program, (unsigned long long)seed);
    return false;
}

/* The schedules must not depend on the number of cores; and threads that take turns do so faster on one core. */
static void use_core(int number)
{
    cpu_set_t all, one;
    CPU_ZERO(&one);
    if (sched_getaffinity(0, sizeof all, &all))
        return;
    number %= CPU_COUNT(&all);
    for (int i = 0; i < CPU_SETSIZE; i++)
        if (CPU_ISSET(i, &all) && number-- == 0)
            CPU_SET(i, &one);
    sched_setaffinity(0, sizeof one, &one);
}

/* Every `jobs`-th seed, in one process per core. Returns the number of failures. */
static int run_seeds(uint64_t first, uint64_t count, int job, int jobs)
{
    int failed = 0;
    use_core(job);
    for (uint64_t i = (uint64_t)job; i < count; i += (uint64_t)jobs)
        failed += !run_child(first + i);
    return failed;
}

static int run_all(uint64_t first, uint64_t count, int jobs)
{
    int failed = 0, fd[2];
    if (pipe(fd))
        return 1;
    for (int i = 0; i < jobs; i++)
        if (fork() == 0) {
            const int n = run_seeds(first, count, i, jobs);
            _exit(write(fd[1], &n, sizeof n) != sizeof n);
        }
    close(fd[1]);
    for (int n; read(fd[0], &n, sizeof n) == sizeof n;)
        failed += n;
    for (int i = 0, status; i < jobs; i++)
        failed += wait(&status) < 0 || status != 0;
    close(fd[0]);
    return failed;
}

static int remove_one(const char *p, const struct stat *s, int kind, struct FTW *f)
{
    (void)s, (void)kind, (void)f;
    return remove(p);
}

/* Creates it in TMPDIR, with the data of all schedules. */
static bool make_directory(void)
{
    const char *parent = getenv("TMPDIR");
    parent = parent && *parent ? parent : "/tmp";
    const int n = snprintf(directory, sizeof directory, "%s/yoke-simulate-XXXXXX", parent);
    errno = EINVAL;
    if (*parent == '/' && n < (int)sizeof directory && mkdtemp(directory) && !write_data(directory))
        return true;
    fprintf(stderr,
            "%s: cannot write to %s: %s; set TMPDIR to the absolute, short path of a writable directory\n",
            program, parent, strerror(errno));
    return false;
}

/* The working directory of all schedules stays empty: they write only to the simulated disk. */
static bool is_empty(const char *dir)
{
    int n = 0;
    DIR *d = opendir(dir);
    for (struct dirent *e; d && (e = readdir(d));)
        n += e->d_name[0] != '.' || strlen(e->d_name) > 2;
    if (d)
        closedir(d);
    return n == 0;
}

static double now(void)
{
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return (double)t.tv_sec + 1e-9 * (double)t.tv_nsec;
}

static int usage(void)
{
    fprintf(stderr, "usage: %s [--count N] [--first SEED] [--jobs J] [--digests] | --seed SEED [--trace]\n",
            program);
    return 2;
}

int main(int argc, char **argv)
{
    setenv("YK_STALE_RULES", "0",
           1); /* jobs count how often examples were used by what they add to the weights */
    static const struct option options[] = {{"count", 1, 0, 'n'},
                                            {"first", 1, 0, 'f'},
                                            {"jobs", 1, 0, 'j'},
                                            {"seed", 1, 0, 's'},
                                            {"trace", 0, 0, 't'},
                                            {"digests", 0, 0, 'd'},
                                            {0}};
    uint64_t count = 100, first = 1;
    int jobs = (int)sysconf(_SC_NPROCESSORS_ONLN);
    bool one = false, trace = false;
    program = argv[0];
    for (int c; (c = getopt_long(argc, argv, "", options, NULL)) != -1;) {
        const uint64_t value = optarg ? strtoull(optarg, NULL, 10) : 0;
        if (c == 'n')
            count = value;
        else if (c == 'f' || c == 's')
            first = value;
        else if (c == 'j')
            jobs = (int)value;
        else if (c == 't')
            trace = true;
        else if (c == 'd')
            print_digests = true;
        else
            return usage();
        one |= c == 's';
    }
    if (optind < argc || jobs < 1)
        return usage();
    if (!make_directory())
        return 1;
    char cwd[sizeof directory + 8];
    snprintf(cwd, sizeof cwd, "%s/cwd", directory);
    setenv("YK_START_LIMIT", "10", 1);  /* a short simulated time, to be faster */
    mallopt(M_MMAP_THRESHOLD, 1 << 20); /* large buffers that are not used cost nothing */
    const double began = now();
    int failed = mkdir(cwd, 0700) || chdir(cwd);
    if (!failed && one) {
        use_core(0);
        failed = run_seed(first, trace);
    } else if (!failed) {
        failed = run_all(first, count, jobs);
    }
    if (!is_empty(cwd)) {
        printf("files were written to the working directory\n");
        failed++;
    }
    if (!one)
        printf("%llu schedules, %d failed, %.1f s\n", (unsigned long long)count, failed, now() - began);
    if (chdir("/") || nftw(directory, remove_one, 8, FTW_DEPTH | FTW_PHYS))
        return 1;
    return failed > 0;
}
