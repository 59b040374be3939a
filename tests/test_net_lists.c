/* Layer lists: the named networks, the shapes and names of tensors, and errors, which point into the list and name the shape of
 * the input. */
#include "scratch.h"

#include "base/rng.h"
#include "model/model.h"
#include <math.h>

static yk_rng random_state;

typedef struct {
    size_t channels, height, width;
} input;

static yk_status create(const char *list, input in, uint32_t classes, yk_model **out)
{
    const yk_model_shape shape = {.kind = YK_ROWS_U8,
                                  .dim = in.channels * in.height * in.width,
                                  .classes = classes,
                                  .bias = true,
                                  .channels = in.channels,
                                  .height = in.height,
                                  .width = in.width,
                                  .threads = 1};
    return yk_model_create(list, &shape, out);
}

/* ---- shapes and names */

static void assert_tensor(const yk_model *m, int t, const char *name, int rank, const size_t *shape)
{
    assert_true(t < m->ntensors);
    assert_string_equal(m->tensor[t].name, name);
    assert_int_equal(m->tensor[t].rank, rank);
    size_t size = 1;
    for (int i = 0; i < rank; i++) {
        assert_int_equal(m->tensor[t].shape[i], shape[i]);
        size *= shape[i];
    }
    assert_int_equal(m->tensor[t].size, size);
}

static void named_networks(void **state)
{
    (void)state;
    yk_model *m;
    assert_int_equal(create("lenet5", (input){1, 28, 28}, 10, &m), YK_OK);
    assert_int_equal(m->nparams, 61706);
    assert_int_equal(m->ntensors, 10);
    assert_int_equal(m->outputs, 10);
    assert_tensor(m, 0, "0.weight", 4, (size_t[]){6, 1, 5, 5});
    assert_tensor(m, 1, "0.bias", 1, (size_t[]){6});
    assert_tensor(m, 2, "3.weight", 4, (size_t[]){16, 6, 5, 5});
    assert_tensor(m, 3, "3.bias", 1, (size_t[]){16});
    assert_tensor(m, 4, "7.weight", 2, (size_t[]){120, 400});
    assert_tensor(m, 6, "9.weight", 2, (size_t[]){84, 120});
    assert_tensor(m, 8, "11.weight", 2, (size_t[]){10, 84});
    assert_tensor(m, 9, "11.bias", 1, (size_t[]){10});
    yk_model_free(m);
    assert_int_equal(create("lenet-caffe", (input){1, 28, 28}, 10, &m), YK_OK);
    assert_int_equal(m->nparams, 1256080);
    yk_model_free(m);
    assert_int_equal(create("alexnet", (input){3, 256, 256}, 1000, &m), YK_OK);
    assert_int_equal(m->nparams, 61100840);
    assert_tensor(m, 0, "0.weight", 4, (size_t[]){64, 3, 11, 11});
    assert_int_equal(m->ntensors, 16);
    assert_int_equal(m->tensor[10].shape[1], 9216);
    assert_int_equal(m->tensor[14].shape[0], 1000);
    yk_model_free(m);
    /* other sizes and numbers of classes */
    assert_int_equal(create("alexnet", (input){1, 224, 224}, 7, &m), YK_OK);
    assert_tensor(m, 0, "0.weight", 4, (size_t[]){64, 1, 11, 11});
    assert_int_equal(m->outputs, 7);
    yk_model_free(m);
    /* rows that are not images are one line; layers are numbered as in nn.Sequential */
    const yk_model_shape flat = {.kind = YK_ROWS_F32, .dim = 12, .classes = 2, .bias = true};
    assert_int_equal(yk_model_create(" tanh ,dense 4,\tflatten,\n dense 2 ", &flat, &m), YK_OK);
    assert_tensor(m, 0, "1.weight", 2, (size_t[]){4, 12});
    assert_tensor(m, 2, "3.weight", 2, (size_t[]){2, 4});
    yk_model_free(m);
}

/* ---- as PyTorch modules */

static void assert_torch(const yk_model_shape *shape, const char *list, const char *expected)
{
    yk_model *m;
    yk_text text = {0};
    assert_int_equal(yk_model_create(list, shape, &m), YK_OK);
    yk_model_torch(m, &text);
    yk_model_free(m);
    assert_string_equal(text.s, expected);
    yk_text_fini(&text);
}

static void models_as_torch_modules(void **state)
{
    (void)state;
    const yk_model_shape image = {.kind = YK_ROWS_U8,
                                  .dim = 784,
                                  .classes = 10,
                                  .bias = true,
                                  .channels = 1,
                                  .height = 28,
                                  .width = 28,
                                  .threads = 1};
    yk_model_shape rows = {.kind = YK_ROWS_F32, .dim = 12, .classes = 2, .bias = true, .threads = 1};
    assert_torch(
        &image, "lenet-caffe",
        "from torch import nn\n\n# input: [N, 1, 28, 28], bytes divided by 255\nmodel = nn.Sequential(\n"
        "    nn.Conv2d(1, 20, (5, 5), padding=2),\n    nn.MaxPool2d(2, stride=2),\n"
        "    nn.Conv2d(20, 50, (5, 5), padding=2),\n    nn.MaxPool2d(2, stride=2),\n    nn.Flatten(),\n"
        "    nn.Linear(2450, 500),\n    nn.ReLU(),\n    nn.Linear(500, 10),\n)\n");
    /* a list without flatten keeps the names of its tensors */
    assert_torch(&image, "conv 2 3x5 /2 pad 1, tanh, avgpool 3 /2, lrn, dropout 0.25, dense 10, sigmoid",
                 "from collections import OrderedDict\n\nfrom torch import nn\n\n"
                 "# input: [N, 1, 28, 28], bytes divided by 255\nmodel = nn.Sequential(OrderedDict([\n"
                 "    (\"0\", nn.Conv2d(1, 2, (3, 5), stride=2, padding=1)),\n    (\"1\", nn.Tanh()),\n"
                 "    (\"2\", nn.AvgPool2d(3, stride=2)),\n"
                 "    (\"3\", nn.LocalResponseNorm(5, alpha=0.0001, beta=0.75, k=1)),\n"
                 "    (\"4\", nn.Dropout(0.25)),\n    (\"flatten5\", nn.Flatten()),\n"
                 "    (\"5\", nn.Linear(72, 10)),\n    (\"6\", nn.Sigmoid()),\n]))\n");
    assert_torch(&rows, "dense 4, relu, dense 2",
                 "from torch import nn\n\n# input: [N, 12]\nmodel = nn.Sequential(\n    nn.Linear(12, 4),\n"
                 "    nn.ReLU(),\n    nn.Linear(4, 2),\n)\n");
    assert_torch(
        &rows, "softmax",
        "from torch import nn\n\n# input: [N, 12]\nmodel = nn.Sequential(\n    nn.Linear(12, 2),\n)\n");
    rows.channels = 3; /* images that are one pixel high */
    rows.height = 1;
    rows.width = 4;
    assert_torch(&rows, "conv 2 1x3, dense 2",
                 "from collections import OrderedDict\n\nfrom torch import nn\n\n"
                 "# input: [N, 3, 1, 4]\nmodel = nn.Sequential(OrderedDict([\n"
                 "    (\"0\", nn.Conv2d(3, 2, (1, 3))),\n    (\"flatten1\", nn.Flatten()),\n"
                 "    (\"1\", nn.Linear(4, 2)),\n]))\n");
    assert_torch(
        &rows, "conv 2 1x3, flatten, relu, lrn, dense 2",
        "from collections import OrderedDict\n\nfrom torch import nn\n\n"
        "# input: [N, 3, 1, 4]\nmodel = nn.Sequential(OrderedDict([\n"
        "    (\"0\", nn.Conv2d(3, 2, (1, 3))),\n    (\"1\", nn.Flatten()),\n    (\"2\", nn.ReLU()),\n"
        "    (\"unflatten3\", nn.Unflatten(1, (2, 1, 2))),\n"
        "    (\"3\", nn.LocalResponseNorm(5, alpha=0.0001, beta=0.75, k=1)),\n"
        "    (\"flatten4\", nn.Flatten()),\n    (\"4\", nn.Linear(4, 2)),\n]))\n");
    rows.bias = false;
    assert_torch(&rows, "logreg",
                 "from torch import nn\n\n# input: [N, 12]\nmodel = nn.Sequential(\n    nn.Linear(12, 1, "
                 "bias=False),\n)\n");
}

/* A named network says which images it needs: the user who gave the name does not know the list. */
static void images_too_small_for_a_named_network(void **state)
{
    (void)state;
    static const struct {
        const char *name;
        size_t min;
        const char *says;
    } known[] = {
        {"alexnet", 67, "alexnet needs images of at least 67x67 pixels, but the data has 66x300"},
        {"lenet5", 12, "lenet5 needs images of at least 12x12 pixels, but the data has 11x300"},
        {"lenet-caffe", 4, "lenet-caffe needs images of at least 4x4 pixels, but the data has 3x300"}};
    for (size_t i = 0; i < sizeof known / sizeof *known; i++) {
        const size_t n = known[i].min;
        yk_model *m;
        assert_int_equal(create(known[i].name, (input){3, n, n}, 10, &m), YK_OK);
        yk_model_free(m);
        assert_error(create(known[i].name, (input){3, n - 1, 300}, 10, &m), YK_EUSAGE, known[i].says);
        assert_error(create(known[i].name, (input){1, 300, n - 1}, 10, &m), YK_EUSAGE, "needs images");
        assert_null(strstr(yk_error(), "layer list"));
    }
    /* large images have another error */
    yk_model *m;
    assert_error(create("alexnet", (input){3, 4000, 4000}, 10, &m), YK_EUSAGE, "at most");
}

static void tensors_are_exported_and_imported(void **state)
{
    (void)state;
    yk_model *m;
    assert_int_equal(create("lenet5", (input){1, 28, 28}, 10, &m), YK_OK);
    float *a = calloc(m->nparams, sizeof *a), *b = calloc(m->nparams, sizeof *b),
          *t = calloc(m->nparams, sizeof *t);
    assert_true(a && b && t);
    m->ops->init(m, 0, a, 1);
    for (int k = 0; k < m->ntensors; k++) {
        yk_model_export(m, k, a, t);
        yk_model_import(m, k, t, b);
    }
    assert_memory_equal(a, b, m->nparams * sizeof *a);
    /* He: variance 2 / fan-in; the weights are a function of the seed */
    double square = 0, mean = 0;
    yk_model_export(m, 4, a, t);
    for (size_t i = 0; i < 120 * 400; i++)
        mean += (double)t[i] / 48000, square += (double)t[i] * (double)t[i] / 48000;
    assert_true(fabs(square - 2.0 / 400) < 0.05 * 2.0 / 400 && fabs(mean) < 0.002);
    m->ops->init(m, 0, b, 2);
    assert_memory_not_equal(a, b, m->nparams * sizeof *a);
    m->ops->init(m, 0, b, 1);
    assert_memory_equal(a, b, m->nparams * sizeof *a);
    free(a), free(b), free(t);
    yk_model_free(m);
}

/* ---- wrong lists */

/* The error contains this text, and its caret points to this part of the list. */
static void assert_points(const char *list, input in, const char *at, const char *says)
{
    yk_model *m = NULL;
    const yk_status st = create(list, in, 10, &m);
    if (st != YK_EUSAGE)
        fail_msg("'%.60s': %s", list, st ? yk_error() : "no error");
    assert_message(says);
    const char *error = yk_error(), *caret = strstr(error, "^\n");
    if (!at)
        return;
    if (!caret)
        fail_msg("'%.60s' has no caret: %s", list, error);
    const char *line = caret;
    while (line > error && line[-1] != '\n')
        line--;
    assert_true(line > error);
    const char *shown = line - 1;
    while (shown > error && shown[-1] != '\n')
        shown--;
    const size_t column = (size_t)(caret - line);
    assert_true(column <= (size_t)(line - 1 - shown));
    if (strncmp(shown + column, at, strlen(at)))
        fail_msg("the caret does not point to '%s':\n%s", at, error);
}

static void errors_point_into_the_list(void **state)
{
    (void)state;
    static const input mnist = {1, 28, 28};
    static const struct {
        const char *list, *at, *says;
    } cases[] = {
        {"conv 6 5x5, maxpol 2, dense 10", "maxpol", "unknown layer \"maxpol\""},
        {"conv 6 5x5, maxpol 2, dense 10", "maxpol", "avgpool"},
        {"conv 6, dense 10", "conv 6,", "conv 6 5x5"},
        {"dense 5, conv, dense 10", "conv,", "conv 6 5x5"},
        {"conv 6 5, dense 10", "conv 6 5,", "5x5"},
        {"conv 6 5x, dense 10", "conv", "5x5"},
        {"conv 6 5x5x5, dense 10", "conv", "5x5"},
        {"conv 0 5x5, dense 10", "conv", "number of filters"},
        {"conv 6 0x5, dense 10", "conv", "HEIGHTxWIDTH"},
        {"conv -6 5x5, dense 10", "conv", "number of filters"},
        {"conv 6.5 5x5, dense 10", "conv", "number of filters"},
        {"conv 6 -5x5, dense 10", "conv", "HEIGHTxWIDTH"},
        {"conv 6 5x5 /0, dense 10", "conv", "/STRIDE"},
        {"conv 6 5x5 /-1, dense 10", "conv", "/STRIDE"},
        {"conv 6 5x5 /2x, dense 10", "conv", "/STRIDE"},
        {"conv 6 5x5 /, dense 10", "conv", "/STRIDE"},
        {"conv 6 5x5 /99999999999999999999, dense 10", "conv", "/STRIDE"},
        {"conv 6 5x5 pad, dense 10", "conv", "pad N"},
        {"conv 6 5x5 pad two, dense 10", "conv", "pad N"},
        {"conv 6 5x5 pad -1, dense 10", "conv", "pad N"},
        {"conv 6 5x5 pad 18446744073709551615, dense 10", "conv", "pad N"},
        {"conv 6 5x5 smae, dense 10", "conv", "same"},
        {"conv 6 5x5 /1 /1 /1 /1 /1 /1 nonsense, dense 10", "conv", "too many arguments"},
        {"conv 6 4x4 same, dense 10", "conv", "4x4"},
        {"conv 18446744073709551615 5x5, dense 10", "conv", "number of filters"},
        {"conv 99999999999 5x5, dense 10", "conv", "number of filters"},
        {"conv 6 5x5 pad 3 valid, dense 10", "conv", "at most one stride, and at most one of"},
        {"conv 6 5x5 /2 /3, dense 10", "conv", "at most one stride, and at most one of"},
        {"conv 6 29x29, dense 10", "conv", "1 x 28 x 28"},
        {"conv 6 5x5, conv 3 25x25, dense 10", "conv 3", "6 x 24 x 24"},
        {"dense 12, conv 3 2x2, dense 10", "conv 3", "12 x 1 x 1"},
        {"maxpool 2, maxpool 15, dense 10", "maxpool 15", "1 x 14 x 14"},
        {"maxpool, dense 10", "maxpool,", "needs a window size"},
        {"maxpool 0, dense 10", "maxpool", "needs a window size"},
        {"maxpool -2, dense 10", "maxpool", "needs a window size"},
        {"maxpool 2 2, dense 10", "maxpool", "/N"},
        {"maxpool 2 /0, dense 10", "maxpool", "/N"},
        {"maxpool 2 /1a, dense 10", "maxpool", "/N"},
        {"avgpool 2 /2 /2, dense 10", "avgpool", "avgpool"},
        {"conv 6 5x5, dense", "dense", "dense 120"},
        {"dense 10 10", "dense", "dense 120"},
        {"dense -10", "dense", "dense 120"},
        {"dense 10000000000", "dense", "dense 120"},
        {"dense 4000000, dense 10", "dense", "784"}, /* more than 2^31 weights */
        {"dense 60000, dense 60000, dense 10", "dense 60000, dense 10", "60000"},
        {"relu 3, dense 10", "relu", "no arguments"},
        {"dropout 1, dense 10", "dropout", "0.5"},
        {"dropout nan, dense 10", "dropout", "0.5"},
        {"dropout -0.1, dense 10", "dropout", "0.5"},
        {"dropout 0.5 0.5, dense 10", "dropout", "0.5"},
        {"lrn 0, dense 10", "lrn", "SIZE"},
        {"lrn -1, dense 10", "lrn", "SIZE"},
        {"lrn 5 nan, dense 10", "lrn", "SIZE"},
        {"lrn 5 -1, dense 10", "lrn", "SIZE"},
        {"lrn 5 1e-4 inf, dense 10", "lrn", "SIZE"},
        {"lrn 5 1e-4 0.75 0, dense 10", "lrn", "SIZE"},
        {"lrn 5 1e-4 0.75 1 1, dense 10", "lrn", "SIZE"},
        {"dense 10,", "", "empty layer"},
        {"dense 10, ", "", "empty layer"},
        {", dense 10", ", dense", "empty layer"},
        {"relu,, dense 10", ", dense", "empty layer"},
        {",", ",", "empty layer"},
        {"dense 9", "", "9 outputs"},
        {"conv 6 5x5, relu", "", "3456 outputs"},
        {"conv 6 5x5, relu", "", "6 x 24 x 24"},
        {"conv 6 5x5,\n relu,\tmaxpol 3, dense 10", "maxpol",
         "unknown layer"}, /* a line break is shown as a space */
        {"größe 3, dense 10", NULL, "unknown layer \"größe\""},
        {"", "", "empty layer"},
        {" ", "", "empty layer"},
        {"lenet6", NULL, "lenet5"},
        {"relu, maxpool 28, maxpool 1, dense 10, lenet5", "lenet5", "unknown layer"},
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++)
        assert_points(cases[i].list, mnist, cases[i].at, cases[i].says);
    yk_model *m;
    assert_error(create("maxpool 28, flatten", mnist, 1, &m), YK_EUSAGE, "no parameters");
    const yk_model_shape clicks = {.kind = YK_ROWS_SPARSE, .dim = 100, .classes = 10, .bias = true};
    assert_error(yk_model_create("conv 6 5x5, dense 10", &clicks, &m), YK_EUSAGE, "logreg");
}

/* However long the list is, the error quotes the right part of it. */
static void errors_point_into_long_lists(void **state)
{
    (void)state;
    enum { SIZE = 300000 };
    static const input mnist = {1, 28, 28};
    char *list = malloc(SIZE), *end = list;
    assert_non_null(list);
    for (int i = 0; i < 50; i++) /* far longer than an error text */
        end += sprintf(end, "relu,%*s", 100, "");
    strcpy(end, "maxpol 3, dense 10");
    assert_points(list, mnist, "maxpol 3", "unknown layer \"maxpol\"");
    strcpy(end, "conv 6 29x29, dense 10");
    assert_points(list, mnist, "conv 6 29x29", "1 x 28 x 28");
    strcpy(end, "dense 9");
    assert_points(list, mnist, "", "9 outputs");
    end = list;
    for (int i = 0; i < 5000; i++)
        end += sprintf(end, "dense 10, ");
    strcpy(end, "dense 10");
    assert_points(list, mnist, "dense 10", "too many layers: at most 64");
    memset(list, 'x', SIZE);
    strcpy(list + SIZE - 20, ", dense 10");
    assert_points(list, mnist, "xxxx", "unknown layer \"xxx");
    assert_true(strlen(yk_error()) < 1000);
    memset(list, ' ', SIZE);
    strcpy(list + SIZE - 20, "maxpol 10");
    assert_points(list, mnist, "maxpol", "unknown layer");
    memset(list, ',', SIZE);
    list[SIZE - 1] = '\0';
    assert_points(list, mnist, ",,,", "empty layer");
    memset(list, '\xc3', SIZE); /* not valid UTF-8 */
    list[SIZE - 1] = '\0';
    assert_points(list, mnist, NULL, "");
    /* random words: never a crash */
    static const char *const words[] = {
        "conv ", "dense ", "maxpool ", "lrn ",  "relu", "7",   "3x3 ", ",",    " ",       "/2 ",
        "same ", "pad ",   "avgpool ", "tanh,", "10 ",  "-1 ", "0 ",   "1e9 ", "dropout "};
    random_state = yk_rng_seed(11, 1);
    for (int round = 0; round < 3000; round++) {
        yk_model *m = NULL;
        end = list;
        *end = '\0';
        for (uint32_t i = yk_rng_below(&random_state, 24); i; i--)
            end = stpcpy(end, words[yk_rng_below(&random_state, sizeof words / sizeof *words)]);
        const yk_status st = create(list, mnist, 10, &m);
        assert_true(st == YK_EUSAGE || (st == YK_OK && m));
        if (!st)
            yk_model_free(m);
    }
    free(list);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(named_networks),
        cmocka_unit_test(models_as_torch_modules),
        cmocka_unit_test(images_too_small_for_a_named_network),
        cmocka_unit_test(tensors_are_exported_and_imported),
        cmocka_unit_test(errors_point_into_the_list),
        cmocka_unit_test(errors_point_into_long_lists),
    };
    return cmocka_run_group_tests_name("net_lists", tests, NULL, NULL);
}
