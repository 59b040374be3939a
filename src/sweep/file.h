/* The file of `yoke sweep`: what is tried, and what is held fixed.
 *
 *     ; comments begin a line, or stand at its end after a blank and a semicolon
 *     [sweep]
 *     name = softmax-batch                  ; of the folder; else that of the file
 *     repeats = 3                           ; seeds: seed, seed + 1, seed + 2
 *     examples = 600k                       ; fixed in every run; or epochs = or steps = (or neither: [train] says)
 *     eval-examples = 60k                   ; test every so many examples
 *     models = drop                         ; remove the checkpoints of a run that is done (else: keep)
 *     [train]
 *     model = softmax                       ; options of yoke train, one value each, to the end of the line
 *     data = synth:digits
 *     [grid]
 *     batch = 5 10 50                       ; every combination of these lines is a run
 *     mode, workers = sync 1 | sync 3 | async 3            ; tied: these three, not all six
 *     model = lenet5 | "conv 8 3x3, relu, dense 10"        ; model, data and test may hold blanks: only | separates
 *     [quick]
 *     examples = 20k                        ; with --quick these lines replace those above that have the same names
 *     batch = 10 100
 *
 * A lone - in [grid] leaves the option out. A value in double quotes may hold everything. Lines of [train] and [grid]
 * become the same thing, an axis; one of [train] has a single choice.
 *
 *     yk_sweep_file f;
 *     st = yk_sweep_file_load("softmax.ini", false, NULL, 0, &f);   // names and values are checked, errors name the line
 *     f.axis[0].value[choice * f.axis[0].nnames + i]                // of option f.axis[0].name[i]; NULL: left out
 *     yk_sweep_file_fini(&f);                                       // in any case
 *
 * Everything in it is owned by it. Any thread.
 */
#ifndef YK_SWEEP_FILE_H
#define YK_SWEEP_FILE_H

#include "config/config.h"

typedef enum { YK_SWEEP_AS_TRAIN, YK_SWEEP_EXAMPLES, YK_SWEEP_EPOCHS, YK_SWEEP_STEPS } yk_sweep_fixed;

typedef struct {
    int line;  /* where it stands; 0: on the command line */
    bool grid; /* it is shown: in labels, folders and tables */
    size_t nnames, nchoices;
    char **name;  /* [nnames] */
    char **value; /* [nchoices][nnames] */
} yk_sweep_axis;

typedef struct {
    char *path, *name;
    int64_t repeats;
    bool drop_models;
    yk_sweep_fixed fixed;
    int64_t amount;        /* of what is fixed */
    int64_t eval_examples; /* 0: as --eval-every says */
    yk_sweep_axis *axis;
    size_t naxes, cap;
} yk_sweep_file;

/* `sets` are "name=value" of --set; they replace lines as [quick] does, after it. */
yk_status yk_sweep_file_load(const char *path, bool quick, const char *const *sets, size_t nsets,
                             yk_sweep_file *out);
void yk_sweep_file_fini(yk_sweep_file *f);

/* The axis that gives this option; NULL: none does. */
const yk_sweep_axis *yk_sweep_axis_of(const yk_sweep_file *f, const char *option);

#endif
