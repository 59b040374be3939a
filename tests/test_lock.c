/* base/lock.h: one owner at a time, in one process and in several, also if the file system has no locks. */
#include "scratch.h"

#include "base/clock.h"
#include "base/lock.h"
#include <errno.h>
#include <linux/filter.h>
#include <linux/seccomp.h>
#include <signal.h>
#include <stdbool.h>
#include <sys/prctl.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <time.h>

enum { YES = 0, NO = 1, ODD = 2, SKIPPED = 3 };

static void nap(double seconds)
{
    nanosleep(&(struct timespec){(time_t)seconds, (long)((seconds - (double)(time_t)seconds) * 1e9)}, NULL);
}

static int reap(pid_t child)
{
    int status;
    assert_int_equal(waitpid(child, &status, 0), child);
    return WIFEXITED(status) ? WEXITSTATUS(status) : 128 + WTERMSIG(status);
}

/* Starts a process that holds the lock until it is killed, or for this time. It has the lock when this function returns. */
static pid_t hold(double seconds)
{
    int ready[2];
    char c;
    assert_int_equal(pipe(ready), 0);
    const pid_t child = fork();
    assert_true(child >= 0);
    if (child == 0) {
        yk_lock *lock;
        if (yk_lock_acquire(directory, 0.0, &lock) || write(ready[1], "x", 1) != 1)
            _exit(ODD);
        nap(seconds);
        _exit(0); /* the lock ends with the process */
    }
    close(ready[1]);
    assert_int_equal(read(ready[0], &c, 1), 1);
    close(ready[0]);
    return child;
}

static void two_owners_in_one_process(void **state)
{
    (void)state;
    yk_lock *first, *second;
    char words[64], host[64] = "";
    gethostname(host, sizeof host - 1);
    assert_int_equal(yk_lock_check(directory), YK_OK);
    assert_int_equal(entries(), 0); /* checking writes nothing */
    assert_int_equal(yk_lock_acquire(directory, 0.0, &first), YK_OK);
    assert_int_equal(yk_lock_acquire(directory, 0.0, &second), YK_EUSAGE);
    assert_null(second);
    snprintf(words, sizeof words, "in use by process %ld on host %.20s", (long)getpid(), host);
    assert_message(words);
    assert_message("choose another --out");
    assert_error(yk_lock_check(directory), YK_EUSAGE, words);
    yk_lock_release(first);
    assert_int_equal(yk_lock_check(directory), YK_OK);
    assert_int_equal(yk_lock_acquire(directory, 0.0, &second), YK_OK);
    yk_lock_release(second);
    yk_lock_release(NULL);
    char text[16];
    assert_int_equal(get_file(in_directory("lock"), text, sizeof text), 0);
    assert_int_equal(entries(), 1);
}

static void another_process(void **state)
{
    (void)state;
    yk_lock *lock;
    char words[64];
    const pid_t child = hold(60.0);
    snprintf(words, sizeof words, "in use by process %ld on", (long)child);
    const double began = yk_now();
    assert_error(yk_lock_acquire(directory, 0.0, &lock), YK_EUSAGE, words);
    assert_error(yk_lock_check(directory), YK_EUSAGE, words);
    assert_true(yk_now() - began < 5.0); /* the owner is alive: it does not wait */
    /* just killed: not yet reaped, and it may still be exiting */
    kill(child, SIGKILL);
    assert_int_equal(yk_lock_acquire(directory, 0.0, &lock), YK_OK);
    yk_lock_release(lock);
    assert_int_equal(reap(child), 128 + SIGKILL);
}

static void waiting_has_a_timeout(void **state)
{
    (void)state;
    yk_lock *lock;
    const pid_t child = hold(0.4);
    assert_int_equal(yk_lock_acquire(directory, 0.1, &lock), YK_EUSAGE);
    assert_int_equal(yk_lock_acquire(directory, 20.0, &lock), YK_OK);
    yk_lock_release(lock);
    assert_int_equal(reap(child), 0);
}

static void invalid_lock_files(void **state)
{
    (void)state;
    yk_lock *lock;
    put(in_directory("victim"), "keep", 4);
    assert_int_equal(symlink(in_directory("victim"), in_directory("lock")), 0);
    assert_error(yk_lock_acquire(directory, 0.0, &lock), YK_ESYSTEM,
                 "lock: cannot open: it is a symbolic link");
    assert_error(yk_lock_check(directory), YK_ESYSTEM, "it is a symbolic link");
    char text[16];
    assert_int_equal(get_file(in_directory("victim"), text, sizeof text), 4);
    assert_int_equal(unlink(in_directory("lock")), 0);
    assert_int_equal(mkdir(in_directory("lock"), 0777), 0);
    assert_error(yk_lock_acquire(directory, 0.0, &lock), YK_ESYSTEM, "with this name exists");
    assert_int_equal(rmdir(in_directory("lock")), 0);
    put(in_directory("lock"), "mine", 4); /* of another program */
    assert_error(yk_lock_acquire(directory, 0.0, &lock), YK_EUSAGE,
                 "the file lock there was not written by yoke");
    assert_int_equal(get_file(in_directory("lock"), text, sizeof text), 4);
    /* a damaged owner, longer than a valid one, in a file that no process has locked */
    char *noise = malloc(100000);
    assert_non_null(noise);
    memset(noise, 'x', 100000);
    memcpy(noise, "pid ", 4);
    put(in_directory("lock"), noise, 100000);
    free(noise);
    assert_int_equal(yk_lock_acquire(directory, 0.0, &lock), YK_OK);
    assert_true(yk_lock_covers(lock, directory));
    assert_int_equal(rename(in_directory("lock"), in_directory("moved")), 0);
    assert_false(yk_lock_covers(lock, directory));
    put(in_directory("lock"), "", 0); /* of another run */
    assert_false(yk_lock_covers(lock, directory));
    yk_lock_release(lock);
}

static void a_directory_that_cannot_be_written(void **state)
{
    (void)state;
    assert_int_equal(chmod(directory, 0555), 0);
    const pid_t child = fork();
    assert_true(child >= 0);
    if (child == 0) {
        yk_lock *lock;
        if (geteuid() == 0 && setuid(65534))
            _exit(SKIPPED);
        const yk_status st = yk_lock_acquire(directory, 0.0, &lock);
        _exit(st == YK_ESYSTEM && strstr(yk_error(), "change its permissions") && !yk_lock_check(directory)
                  ? YES
                  : NO);
    }
    const int got = reap(child);
    assert_int_equal(chmod(directory, 0755), 0);
    if (got == SKIPPED)
        skip();
    assert_int_equal(got, YES);
}

/* ---- file systems without locks */

/* From now on, all lock calls of this process fail with ENOLCK, as on a file system without locks. */
static bool forbid_locks(void)
{
    struct sock_filter code[] = {
        BPF_STMT(BPF_LD | BPF_W | BPF_ABS, offsetof(struct seccomp_data, nr)),
        BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, __NR_fcntl, 0, 4),
        BPF_STMT(BPF_LD | BPF_W | BPF_ABS, offsetof(struct seccomp_data, args[1])),
        BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, F_OFD_SETLK, 1, 0),
        BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, F_OFD_GETLK, 0, 1),
        BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ERRNO | ENOLCK),
        BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ALLOW),
    };
    struct sock_fprog all = {sizeof code / sizeof *code, code};
    struct flock l = {.l_type = F_WRLCK, .l_whence = SEEK_SET};
    if (prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) || prctl(PR_SET_SECCOMP, SECCOMP_MODE_FILTER, &all))
        return false;
    return fcntl(STDERR_FILENO, F_OFD_GETLK, &l) < 0 && errno == ENOLCK;
}

static void put_owner(long pid, const char *host, const char *boot, unsigned long long start)
{
    char text[512];
    snprintf(text, sizeof text, "pid %ld\nhost %s\nsince 2026-07-31T12:00:00Z\nboot %s\nstart %llu\n", pid,
             host, boot, start);
    put(in_directory("lock"), text, strlen(text));
}

static bool can_take(void)
{
    yk_lock *lock;
    const yk_status st = yk_lock_acquire(directory, 0.0, &lock);
    yk_lock_release(lock);
    return st == YK_OK;
}

static bool refused(const char *words)
{
    yk_lock *lock;
    return yk_lock_acquire(directory, 0.0, &lock) == YK_EUSAGE && strstr(yk_error(), words);
}

static int without_locks(void)
{
    yk_lock *lock, *second;
    char host[256] = "", boot[64] = "";
    const pid_t gone = fork();
    if (gone == 0)
        _exit(0);
    waitpid(gone, NULL, 0);
    gethostname(host, sizeof host - 1);
    FILE *f = fopen("/proc/sys/kernel/random/boot_id", "r");
    if (!f || fscanf(f, "%63s", boot) != 1)
        return SKIPPED;
    fclose(f);
    if (!forbid_locks())
        return SKIPPED;
    if (yk_lock_acquire(directory, 0.0, &lock) || !yk_lock_acquire(directory, 0.0, &second) ||
        !yk_lock_check(directory) || !strstr(yk_error(), "If that process has ended, remove "))
        return 10;
    yk_lock_release(lock);
    if (!can_take() || yk_lock_check(directory))
        return 11;
    put_owner(gone, host, boot, 5); /* killed */
    if (!can_take())
        return 12;
    put_owner(getpid(), host, boot, 5); /* killed, and this process has its process id */
    if (!can_take())
        return 13;
    put_owner(getpid(), host, "other-boot", 5); /* the host was restarted */
    if (!can_take())
        return 14;
    put_owner(getppid(), host, boot, 0); /* alive */
    if (!refused("in use by process"))
        return 15;
    put_owner(1, "elsewhere", "other-boot", 5); /* unknown */
    if (!refused("on host elsewhere since 2026-07-31T12:00:00Z"))
        return 16;
    return 0;
}

static void file_systems_without_locks(void **state)
{
    (void)state;
    const pid_t child = fork();
    assert_true(child >= 0);
    if (child == 0)
        _exit(without_locks());
    const int got = reap(child);
    if (got == SKIPPED) {
        print_message("skipped: seccomp is not available\n");
        skip();
    }
    assert_int_equal(got, 0);
}

/* ---- concurrent attempts */

/* The number of processes that get the lock; an owner holds it until all have tried. */
static int winners(bool locks)
{
    enum { N = 8 };
    int start[2], tried[2], over[2], won = 0;
    char c;
    pid_t child[N];
    assert_true(!pipe(start) && !pipe(tried) && !pipe(over));
    for (int i = 0; i < N; i++) {
        child[i] = fork();
        assert_true(child[i] >= 0);
        if (child[i])
            continue;
        close(start[1]);
        close(over[1]);
        if (!locks && !forbid_locks())
            _exit(SKIPPED);
        yk_lock *lock;
        const bool woken = read(start[0], &c, 1) == 0; /* end of file: the pipe was closed */
        const int got = yk_lock_acquire(directory, 0.0, &lock) ? NO : YES;
        if (!woken || write(tried[1], "x", 1) != 1 || read(over[0], &c, 1) != 0)
            _exit(ODD);
        _exit(got);
    }
    close(start[1]);
    close(tried[1]);
    for (int i = 0; i < N; i++)
        if (read(tried[0], &c, 1) != 1)
            break;
    close(over[1]);
    for (int i = 0; i < N; i++) {
        const int got = reap(child[i]);
        if (got == SKIPPED)
            won = -N;
        assert_int_not_equal(got, ODD);
        won += got == YES;
    }
    close(start[0]);
    close(tried[0]);
    close(over[0]);
    return won;
}

static void one_of_many_gets_the_lock(void **state)
{
    (void)state;
    for (int i = 0; i < 5; i++)
        assert_int_equal(winners(true), 1);
    const int won = winners(false);
    assert_true(won == 1 || won < 0);
}

int main(void)
{
#define TEST(name) cmocka_unit_test_setup_teardown(name, make_test_directory, remove_test_directory)
    const struct CMUnitTest tests[] = {
        TEST(two_owners_in_one_process),  TEST(another_process),
        TEST(waiting_has_a_timeout),      TEST(invalid_lock_files),
        TEST(file_systems_without_locks), TEST(a_directory_that_cannot_be_written),
        TEST(one_of_many_gets_the_lock),
    };
    return cmocka_run_group_tests_name("lock", tests, NULL, NULL);
}
