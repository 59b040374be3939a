/* The file of `yoke sweep`: the options to try, and those that stay fixed.
 *
 *     ; a comment is a line of its own, or follows a space and a semicolon
 *     [sweep]
 *     name = softmax-batch                  ; of the directory; default: the name of the file
 *     repeats = 3                           ; seeds: seed, seed + 1, seed + 2
 *     examples = 600k                       ; the same for all runs; or epochs = or steps = (default: as in [train])
 *     eval-examples = 60k                   ; examples between evaluations
 *     models = drop                         ; removes the checkpoints of complete runs (default: keep)
 *     search = halving                      ; trains all combinations for a part of the examples, epochs or steps, the better half
 *                                           ; for twice as many, and so on, until one is left (default: grid)
 *     runs = 20                             ; halving: of so many random combinations (default: all)
 *     seconds = 600                         ; halving: of as many as can be trained in this time
 *     [train]
 *     model = softmax                       ; options of yoke train, one value each, to the end of the line
 *     data = synth:digits
 *     [grid]
 *     batch = 5 10 50                       ; every combination of these lines is a run
 *     mode, workers = sync 1 | sync 3 | async 3            ; varied together: these three, not all six
 *     model = lenet5 | "conv 8 3x3, relu, dense 10"        ; model, data and test may have spaces: only | separates them
 *     [quick]
 *     examples = 20k                        ; with --quick, these lines replace those above with the same names
 *     batch = 10 100
 *
 * In [grid], - leaves the option out. A value in double quotes may contain anything. Each line of [train] and [grid]
 * becomes an axis; those of [train] have a single choice.
 *
 * Example:
 *     yk_sweep_file f;
 *     yk_status st = yk_sweep_file_load("softmax.ini", false, NULL, 0, &f);   // errors name the line
 *     for (size_t i = 0; !st && i < f.axis[0].nnames; i++)                    // value NULL: left out
 *         printf("%s: %s\n", f.axis[0].name[i], f.axis[0].value[0 * f.axis[0].nnames + i]);
 *     yk_sweep_file_fini(&f);                                                 // even after a failure
 *
 * The file owns everything. Not thread-safe.
 */
#ifndef YK_SWEEP_FILE_H
#define YK_SWEEP_FILE_H

#include "base/arena.h"
#include "config/config.h"

typedef enum { YK_SWEEP_DEFAULT, YK_SWEEP_EXAMPLES, YK_SWEEP_EPOCHS, YK_SWEEP_STEPS } yk_sweep_fixed;

typedef struct {
    int line;  /* in the file; 0: on the command line */
    bool grid; /* its values are part of labels, directory names and tables */
    size_t nnames, nchoices;
    char **name;  /* [nnames] */
    char **value; /* [nchoices][nnames] */
} yk_sweep_axis;

typedef struct {
    char *path, *name;
    int64_t repeats;
    bool drop_models;
    bool halving;
    int64_t max_points; /* halving: 0: all */
    int64_t seconds;    /* halving: 0: no limit */
    yk_sweep_fixed fixed;
    int64_t amount;        /* the number of examples, epochs or steps that is fixed */
    int64_t eval_examples; /* 0: use --eval-every */
    yk_sweep_axis *axis;
    size_t naxes, cap;
    yk_arena arena; /* owns all texts, and those of the plan */
} yk_sweep_file;

/* `sets`: "name=value" of --set. They replace lines, after [quick]. On failure, call yk_sweep_file_fini() too. */
yk_status yk_sweep_file_load(const char *path, bool quick, const char *const *sets, size_t nsets,
                             yk_sweep_file *out);
void yk_sweep_file_fini(yk_sweep_file *f);

#endif
