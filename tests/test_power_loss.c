/* Power loss while checkpoints are saved: after each prefix of the recorded changes of the disk, and with each single change
 * that was not synced dropped, a run finds a complete checkpoint: the last one that was reported as saved, or a later one; and the best
 * one, or a later best one. */
#include "fs_record.h"

#include "base/dir.h"
#include "format/safetensors.h"
#include "train/checkpoint.h"
#include "train/checkpoint_dir.h"

enum { SAVES = 7, FLOATS = 300 };

/* The step of the best model when a step is saved: it is kept while others are removed, and then replaced. */
static const int best_at[SAVES + 1] = {0, 1, 2, 2, 2, 2, 6, 6};

static void values_of(int step, float *out)
{
    for (int i = 0; i < FLOATS; i++)
        out[i] = (float)(1000 * step + i);
}

static yk_status save(int step)
{
    float w[FLOATS];
    char *path = NULL;
    values_of(step, w);
    const yk_tensor t = {.name = "w", .dtype = YK_DTYPE_F32, .rank = 1, .shape = {FLOATS}, .data = w};
    yk_status st = yk__checkpoint_begin("runs/a");
    if (!st)
        st = yk_safetensors_write("runs/a", YK__SAVING "/" YK__MODEL_FILE, &t, 1, NULL, 0);
    if (!st)
        st = yk_safetensors_write("runs/a", YK__SAVING "/" YK__STATE_FILE, &t, 1, NULL, 0);
    st = yk__checkpoint_end("runs/a", (uint64_t)step, (uint64_t)best_at[step], st, &path);
    free(path);
    return st;
}

/* Whether a file ends with the values of a step. */
static bool is_complete(int step, const char *file)
{
    char name[64];
    float want[FLOATS];
    unsigned char data[sizeof want + 4096];
    values_of(step, want);
    snprintf(name, sizeof name, "checkpoints/step-%d/%s", step, file);
    const int fd = yk_open_in("runs/a", name, O_RDONLY);
    const ssize_t n = fd < 0 ? -1 : yk_sys->read(fd, data, sizeof data);
    if (fd >= 0)
        yk_fs_close(fd);
    return n > (ssize_t)sizeof want && memcmp(data + n - sizeof want, want, sizeof want) == 0;
}

/* The step of the checkpoint that a resumed run finds, or of the best one; 0: none; -1: it is damaged. */
static int step_found(yk_status (*finds)(const char *, char **))
{
    char *path = NULL;
    int step = 0;
    if (finds("runs/a", &path) || !path)
        return 0;
    assert_int_equal(sscanf(path, "runs/a/checkpoints/step-%d", &step), 1);
    free(path);
    return is_complete(step, YK__MODEL_FILE) && is_complete(step, YK__STATE_FILE) ? step : -1;
}

static fs_record record;

static void checkpoints_survive(void **state)
{
    size_t saved[SAVES + 1] = {0}, replays = 0;
    (void)state;
    fs_record_begin(&record);
    assert_int_equal(yk_dir_make("runs/a"), YK_OK);
    for (int i = 1; i <= SAVES; i++) {
        assert_int_equal(save(i), YK_OK);
        saved[i] = record.n; /* changes until it was reported as saved */
    }
    fs_record_end(&record);
    for (size_t prefix = 0; prefix <= record.n; prefix++) {
        int done = 0;
        while (done < SAVES && saved[done + 1] <= prefix)
            done++;
        for (long without = -1; without < (long)prefix; without++) {
            if (without >= 0 && !fs_is_unsynced(&record, prefix, (size_t)without))
                continue;
            fs_replay(&record, prefix, without);
            const int step = step_found(yk_checkpoint_find), best = step_found(yk_checkpoint_best);
            if (step < done)
                fail_msg("after %zu changes without number %ld: resumes from %d, but %d was saved", prefix,
                         without, step, done);
            if (best < best_at[done])
                fail_msg("after %zu changes without number %ld: the best model is %d, but %d was saved",
                         prefix, without, best, best_at[done]);
            fs_replay_end(&record);
            replays++;
        }
    }
    print_message("%zu changes, %zu replays\n", record.n, replays);
    assert_true(replays > 2 * record.n);
    fs_record_fini(&record);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(checkpoints_survive),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
