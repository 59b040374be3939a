/* Trains a classifier on an array in memory, evaluates it, saves it, and loads it again.
 *
 *     cc digits.c $(pkg-config --cflags --libs yoke) -o digits && ./digits
 */
#include <stdio.h>
#include <stdlib.h>
#include <yoke.h>

enum { ROWS = 2000, COLUMNS = 64, CLASSES = 4 };
enum { STOP = -1 }; /* not a yoke_status */

/* Noisy copies of one random pattern per class. */
static void make_examples(unsigned seed, float *x, int32_t *label)
{
    static float pattern[CLASSES][COLUMNS];
    srand(1);
    for (int c = 0; c < CLASSES; c++)
        for (int j = 0; j < COLUMNS; j++)
            pattern[c][j] = (float)rand() / (float)RAND_MAX;
    srand(seed);
    for (int i = 0; i < ROWS; i++) {
        label[i] = rand() % CLASSES;
        for (int j = 0; j < COLUMNS; j++)
            x[i * COLUMNS + j] = pattern[label[i]][j] + 0.5f * (float)rand() / (float)RAND_MAX;
    }
}

static yoke_data *make_data(unsigned seed, float *x, int32_t *label, yoke_error *error)
{
    yoke_dense dense = YOKE_DENSE_INIT;
    yoke_data *data;
    make_examples(seed, x, label);
    dense.rows = ROWS;
    dense.columns = COLUMNS;
    dense.f32 = x;
    dense.labels = label;
    return yoke_data_from_dense(&dense, &data, error) ? NULL : data;
}

static int print_metrics(void *context, const yoke_metrics *m)
{
    (void)context;
    if (m->step == 0) /* the evaluation before the first step has no training loss */
        return 0;
    printf("epoch %.0f: train loss %.4f, test accuracy %.4f\n", m->epoch, m->train_loss, m->test_accuracy);
    return 0; /* non-zero cancels the training */
}

static int print_first(void *context, const yoke_predictions *block)
{
    (void)context;
    printf("first example:");
    for (size_t c = 0; c < block->outputs; c++)
        printf(" %.3f", (double)block->probability[c]);
    printf("\n");
    return STOP; /* after the first block; yoke_predict() returns this value */
}

/* Options, training, model. *error describes the first call that fails. */
static yoke_status train(const yoke_data *data, const yoke_data *test, yoke_model **model, yoke_error *error)
{
    yoke_options *options = yoke_options_create();
    yoke_training training = YOKE_TRAINING_INIT;
    yoke_run *run = NULL;
    yoke_status st = yoke_options_set(options, "model", "softmax", error);
    if (!st)
        st = yoke_options_set(options, "epochs", "3", error);
    if (!st)
        st = yoke_options_set(options, "out", "none", error); /* no run directory */
    training.options = options;
    training.data = data;
    training.test = test;
    training.metrics = print_metrics;
    if (!st)
        st = yoke_train(&training, &run, error);
    if (!st)
        printf("%.0f steps, %.0f examples\n", yoke_run_number(run, "steps"),
               yoke_run_number(run, "examples"));
    if (!st)
        st = yoke_run_model(run, model, error);
    yoke_run_free(run);
    yoke_options_free(options);
    return st;
}

int main(int argc, char **argv)
{
    static float x[2][ROWS * COLUMNS];
    static int32_t label[2][ROWS];
    const char *file = argc > 1 ? argv[1] : "digits.safetensors";
    yoke_error error;
    yoke_model *model = NULL, *loaded = NULL;
    yoke_score score;
    yoke_data *data = make_data(2, x[0], label[0], &error),
              *test = data ? make_data(3, x[1], label[1], &error) : NULL;
    int failed = !data || !test || train(data, test, &model, &error) ||
                 yoke_model_save(model, file, &error) || yoke_model_load(file, &loaded, &error) ||
                 yoke_evaluate(loaded, test, &score, &error);
    if (!failed) {
        printf("%s with %zu columns: accuracy %.4f\n", yoke_model_name(loaded), yoke_model_columns(loaded),
               score.accuracy);
        failed = (int)yoke_predict(loaded, test, print_first, NULL, &error) != STOP;
    }
    if (failed)
        fprintf(stderr, "%s\n", error.message);
    yoke_model_free(loaded);
    yoke_model_free(model);
    yoke_data_free(test);
    yoke_data_free(data);
    return failed ? (int)error.status : 0;
}
