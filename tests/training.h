/* Whole runs inside a test program: options as one string, models as bytes.
 *
 *     yk_result r;
 *     st = train("model=softmax data=synth:digits?examples=300 out=a", 0, &r);   // out: below the test's directory
 *     st = train("out=a resume=true", 1, &r);                                    // 1: as if SIGTERM arrived at once
 *     yk_result_fini(&r);
 */
#ifndef YK_TESTS_TRAINING_H
#define YK_TESTS_TRAINING_H

#include "scratch.h"

#include "base/clock.h"
#include "cli/terminal.h"
#include "train/train.h"
#include <math.h>
#include <sys/stat.h>

/* The option `out` of the string as a path in the test's directory; NULL: none. */
static inline const char *run_directory(const char *options)
{
    const char *at = strstr(options, "out=");
    char name[64];
    if (!at || sscanf(at, "out=%63s", name) != 1)
        return NULL;
    return in_directory(name);
}

static inline void set_all(yk_config *c, const char *options)
{
    char *copy = strdup(options), *rest = copy;
    assert_non_null(copy);
    for (char *word; (word = strtok_r(rest, " ", &rest));) {
        char *equals = strchr(word, '=');
        assert_non_null(equals);
        *equals = '\0';
        if (strcmp(word, "steps") == 0)
            c->epochs = 0;
        if (strcmp(word, "epochs") == 0)
            c->steps = 0;
        const char *value = strcmp(word, "out") ? equals + 1 : run_directory(options);
        assert_int_equal(yk_config_set(c, word, value), YK_OK);
    }
    free(copy);
}

/* Messages go to a file: most warnings are meant for larger data, and warned() searches it. */
static inline int divert_stderr(void)
{
    int aside = dup(STDERR_FILENO), fd = open(in_directory("stderr"), O_WRONLY | O_CREAT | O_TRUNC, 0666);
    assert_true(aside >= 0 && fd >= 0);
    assert_int_equal(dup2(fd, STDERR_FILENO), STDERR_FILENO);
    close(fd);
    return aside;
}

static inline void restore_stderr(int aside)
{
    fflush(stderr);
    assert_int_equal(dup2(aside, STDERR_FILENO), STDERR_FILENO);
    close(aside);
}

/* Like the command line: a resumed run first loads its configuration. Without `out` nothing is written. */
static inline yk_status train(const char *options, int stop_signal, yk_result *out)
{
    const volatile sig_atomic_t stop = stop_signal;
    const char *dir = run_directory(options);
    yk_config c;
    yk_config_init(&c);
    yk_terminal_use();
    yk_terminal_quiet(true);
    *out = (yk_result){0};
    if (dir && strstr(options, "resume=true")) {
        char path[300];
        snprintf(path, sizeof path, "%s/config.ini", dir);
        if (access(path, R_OK) == 0)
            assert_int_equal(yk_config_load(&c, path), YK_OK);
    }
    if (!dir)
        assert_int_equal(yk_config_set(&c, "out", "none"), YK_OK);
    set_all(&c, options);
    int aside = divert_stderr();
    yk_status st = yk_train(&c, &(yk_train_caller){.stop = &stop, .started = yk_now()}, out);
    restore_stderr(aside);
    yk_config_fini(&c);
    if (st) /* yk_error() has the reason */
        yk_result_fini(out);
    return st;
}

__attribute__((format(printf, 2, 3))) static inline yk_status train_f(yk_result *out, const char *format, ...)
{
    char options[1024];
    va_list args;
    va_start(args, format);
    vsnprintf(options, sizeof options, format, args);
    va_end(args);
    return train(options, 0, out);
}

/* The bytes of a file; the caller frees them. */
static inline uint8_t *bytes_of(const char *path, size_t *n_out)
{
    FILE *f = fopen(path, "rb");
    if (!f)
        fail_msg("%s: no such file", path);
    size_t cap = 1 << 22;
    uint8_t *p = malloc(cap);
    assert_non_null(p);
    *n_out = fread(p, 1, cap, f);
    assert_true(*n_out < cap);
    fclose(f);
    return p;
}

static inline bool same_files(const char *a, const char *b)
{
    size_t na, nb;
    uint8_t *pa = bytes_of(a, &na), *pb = bytes_of(b, &nb);
    bool same = na == nb && memcmp(pa, pb, na) == 0;
    free(pa);
    free(pb);
    return same;
}

/* The last checkpoints of two runs have the same step and bit-identical weights. */
static inline void assert_same_model(const yk_result *a, const yk_result *b)
{
    char pa[400], pb[400];
    assert_non_null(a->checkpoint);
    assert_non_null(b->checkpoint);
    assert_string_equal(strrchr(a->checkpoint, '/'), strrchr(b->checkpoint, '/'));
    snprintf(pa, sizeof pa, "%s/model.safetensors", a->checkpoint);
    snprintf(pb, sizeof pb, "%s/model.safetensors", b->checkpoint);
    if (!same_files(pa, pb))
        fail_msg("%s and %s differ", pa, pb);
}

static inline void remove_run(const char *options)
{
    nftw(run_directory(options), remove_one, 8, FTW_DEPTH | FTW_PHYS);
}

/* Compares two runs, in the directories whole and part: bit-identical test loss and weights. Frees the results. */
static inline void assert_same_runs(yk_result *whole, yk_result *part)
{
    assert_int_equal(part->examples, whole->examples);
    assert_true(part->test.loss == whole->test.loss && isfinite(part->test.loss));
    assert_same_model(whole, part);
    yk_result_fini(whole);
    yk_result_fini(part);
    remove_run("out=whole");
    remove_run("out=part");
}

/* Whether the last run printed this. */
static inline bool warned(const char *part)
{
    size_t n;
    char *text = (char *)bytes_of(in_directory("stderr"), &n);
    text[n] = '\0';
    bool found = strstr(text, part) != NULL;
    free(text);
    return found;
}

/* Before a test: removes the files of the previous one, which may have failed. */
static inline int clear_runs(void **state)
{
    return remove_test_directory(state) || mkdir(directory, 0700);
}

#endif
