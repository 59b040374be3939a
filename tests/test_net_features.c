/* The options of networks (initial weights, standardization, augmentation), and descriptions and profiles. The input that a
 * network uses is computed from a gradient: with one dense layer and one image, the gradient of a weight is the input times the
 * gradient of the bias. */
#include "scratch.h"

#include "base/mem.h"
#include "base/rng.h"
#include "model/model.h"
#include <math.h>

enum {
    CHANNELS = 2,
    HEIGHT = 5,
    WIDTH = 6,
    PLANE = HEIGHT * WIDTH,
    DIM = CHANNELS * PLANE,
    IMAGES = 40,
    CLASSES = 3
};

static yk_rows rows;
static uint32_t first_images[IMAGES];

static int make_rows(void **state)
{
    (void)state;
    yk_rng rng = yk_rng_seed(5, 0);
    yk_rows_init(&rows, YK_ROWS_U8, DIM);
    rows.scale = 1.0f / 255.0f;
    for (uint32_t i = 0; i < IMAGES; i++) {
        uint8_t *pixel;
        if (yk_rows_dense_u8(&rows, &pixel))
            return -1;
        for (size_t k = 0; k < DIM; k++)
            pixel[k] =
                i == 7 ? 90 : (uint8_t)(1 + yk_rng_below(&rng, 255)); /* 7 is blank; 0 is outside the image */
        if (yk_rows_commit(&rows, 0, (int32_t)(i % CLASSES)))
            return -1;
        first_images[i] = i;
    }
    return 0;
}

static int free_rows(void **state)
{
    (void)state;
    yk_rows_fini(&rows);
    return 0;
}

static yk_net_options options_of(const char *standardize, const char *augment)
{
    yk_net_options o = {0};
    assert_int_equal(yk_net_options_standardize(&o, standardize), YK_OK);
    assert_int_equal(yk_net_options_augment(&o, augment), YK_OK);
    return o;
}

static yk_model *model_of(const char *text, const yk_net_options *o, int threads)
{
    yk_model_shape shape = {.kind = YK_ROWS_U8,
                            .dim = DIM,
                            .classes = CLASSES,
                            .channels = CHANNELS,
                            .height = HEIGHT,
                            .width = WIDTH,
                            .threads = threads,
                            .net = *o};
    yk_model *m;
    if (yk_model_create(text, &shape, &m))
        fail_msg("%s: %s", text, yk_error());
    return m;
}

/* A gradient of these images with the weights of seed 1; the caller frees. */
static float *gradient_of(yk_model *m, const uint32_t *pick, size_t n)
{
    float *params = yk_alloc(m->nparams, sizeof *params, "a test"),
          *copy = yk_alloc(m->nparams, sizeof *copy, "a test");
    yk_workspace *w;
    assert_non_null(params);
    assert_non_null(copy);
    m->ops->init(m, 0, params, 1);
    assert_int_equal(yk_workspace_create(m, n, &w), YK_OK);
    yk_view v = {.w = params};
    yk_batch b = {&rows, pick, n, 0};
    yk_grad g;
    m->ops->grad(m, w, &v, &b, &g);
    memcpy(copy, g.group[0].dense, m->nparams * sizeof *copy);
    yk_workspace_free(m, w);
    yk_free(params);
    return copy;
}

/* The input that the network uses for one image in training. */
static void see(const yk_net_options *o, uint32_t image, float seen[static DIM])
{
    yk_model *m = model_of("dense 3", o, 1);
    float *g = gradient_of(m, &image, 1);
    const size_t best =
        fabsf(g[DIM * CLASSES]) > fabsf(g[DIM * CLASSES + 1]) ? 0 : 1; /* the larger gradient, for accuracy */
    for (size_t i = 0; i < DIM; i++)
        seen[i] = g[best * DIM + i] / g[DIM * CLASSES + best];
    yk_free(g);
    yk_model_free(m);
}

/* Pixel (ch, y, x) of an image that was shifted and then flipped. */
static double pixel_at(uint32_t image, bool flip, int up, int left, int ch, int y, int x)
{
    const int from_y = y + up, from_x = (flip ? WIDTH - 1 - x : x) + left;
    if (from_y < 0 || from_y >= HEIGHT || from_x < 0 || from_x >= WIDTH)
        return 0.0;
    return (double)rows.u8[image * DIM + (uint32_t)(ch * PLANE + from_y * WIDTH + from_x)];
}

static double difference(const float *seen, uint32_t image, bool flip, int up, int left, double mean,
                         double deviation)
{
    double max = 0.0;
    for (int i = 0; i < DIM; i++) {
        const double want =
            (pixel_at(image, flip, up, left, i / PLANE, i % PLANE / WIDTH, i % WIDTH) - mean) / deviation;
        max = fmax(max, fabs(want - (double)seen[i]));
    }
    return max;
}

/* Mean and deviation in bytes, as in TensorFlow's per_image_standardization. */
static void reference_statistics(uint32_t image, bool flip, int up, int left, double *mean, double *deviation)
{
    double sum = 0.0, squares = 0.0;
    for (int i = 0; i < DIM; i++)
        sum += pixel_at(image, flip, up, left, i / PLANE, i % PLANE / WIDTH, i % WIDTH);
    *mean = sum / DIM;
    for (int i = 0; i < DIM; i++) {
        const double x = pixel_at(image, flip, up, left, i / PLANE, i % PLANE / WIDTH, i % WIDTH) - *mean;
        squares += x * x;
    }
    *deviation = fmax(sqrt(squares / DIM), 1.0 / sqrt((double)DIM));
}

/* ---- options ---- */

static void options_are_parsed(void **state)
{
    (void)state;
    yk_net_options o = {0};
    assert_int_equal(yk_net_options_init(&o, NULL), YK_OK);
    assert_false(o.given);
    assert_int_equal(yk_net_options_init(&o, "normal:0.01"), YK_OK);
    assert_int_equal(o.init, YK_INIT_NORMAL);
    assert_true(o.init_size == 0.01 && o.given);
    assert_int_equal(yk_net_options_init(&o, "uniform"), YK_OK);
    assert_int_equal(o.init, YK_INIT_TORCH);
    assert_int_equal(yk_net_options_augment(&o, "crop:12,flip"), YK_OK);
    assert_true(o.flip && o.crop == 12);

    char text[YK_STANDARDIZE_TEXT];
    assert_int_equal(yk_net_options_standardize(&o, "channel:0.1/0.3,-2/1e-3"), YK_OK);
    yk_net_options_standardize_text(&o, text);
    yk_net_options again = {0};
    assert_int_equal(yk_net_options_standardize(&again, text), YK_OK);
    assert_int_equal(again.channels, 2);
    assert_memory_equal(again.mean, o.mean, sizeof o.mean);
    assert_memory_equal(again.deviation, o.deviation, sizeof o.deviation);
}

static void wrong_options_are_errors(void **state)
{
    (void)state;
    yk_net_options o = {0};
    static const char *const inits[] = {
        "",         "He",        "normal",     "normal:",     "normal:-1", "normal:0",
        "normal:x", "normal:1x", "normal:inf", "uniform:nan", "xavier"};
    for (size_t i = 0; i < sizeof inits / sizeof *inits; i++)
        assert_error(yk_net_options_init(&o, inits[i]), YK_EUSAGE, "--init");
    static const char *const kinds[] = {"",
                                        "images",
                                        "channel:",
                                        "channel:1",
                                        "channel:1/0",
                                        "channel:1/2,",
                                        "channel:1/2/3",
                                        "channel:1/-2",
                                        "channel:nan/1",
                                        "channel:1/2;3/4",
                                        "channel:,1/2",
                                        "channel:1/inf",
                                        "channel:1/1e-45"};
    for (size_t i = 0; i < sizeof kinds / sizeof *kinds; i++)
        assert_error(yk_net_options_standardize(&o, kinds[i]), YK_EUSAGE, "--standardize");
    assert_error(yk_net_options_standardize(
                     &o, "channel:1/1,1/1,1/1,1/1,1/1,1/1,1/1,1/1,1/1,1/1,1/1,1/1,1/1,1/1,1/1,1/1,1/1"),
                 YK_EUSAGE, "at most 16 channels");
    static const char *const changes[] = {"",        "flips",   "flip,",   "crop",        "crop:",  "crop:0",
                                          "crop:65", "crop:-1", "crop:2x", "flip crop:2", "crop: 2"};
    for (size_t i = 0; i < sizeof changes / sizeof *changes; i++)
        assert_error(yk_net_options_augment(&o, changes[i]), YK_EUSAGE, "--augment");
}

static void options_must_fit_the_data(void **state)
{
    (void)state;
    yk_model *m;
    yk_model_shape shape = {.kind = YK_ROWS_U8,
                            .dim = DIM,
                            .classes = CLASSES,
                            .channels = CHANNELS,
                            .height = HEIGHT,
                            .width = WIDTH};
    shape.net = options_of("channel:0/1", NULL);
    assert_error(yk_model_create("dense 3", &shape, &m), YK_EUSAGE,
                 "of 1 channel are given, but the data has 2 channels");
    shape.net = options_of(NULL, "crop:5");
    assert_error(yk_model_create("dense 3", &shape, &m), YK_EUSAGE, "too large for images");
    assert_error(yk_model_create("softmax", &shape, &m), YK_EUSAGE, "are for networks");
    shape.channels = 0; /* rows that are not images */
    assert_error(yk_model_create("dense 3", &shape, &m), YK_EUSAGE, "--augment is for images");
}

/* ---- initial weights ---- */

typedef struct {
    double mean, deviation, max;
} spread;

static spread spread_of(const float *x, size_t n)
{
    spread s = {0};
    for (size_t i = 0; i < n; i++) {
        s.mean += (double)x[i] / (double)n;
        s.deviation += (double)x[i] * (double)x[i] / (double)n;
        s.max = fmax(s.max, fabs((double)x[i]));
    }
    s.deviation = sqrt(s.deviation);
    return s;
}

static void initial_weights(void **state)
{
    (void)state;
    const double in = DIM, out = 400; /* inputs and outputs of the first layer */
    const struct {
        const char *text;
        double deviation, limit; /* limit 0: normal */
    } cases[] = {{NULL, sqrt(2.0 / in), 0},
                 {"he", sqrt(2.0 / in), 0},
                 {"glorot", sqrt(2.0 / (in + out)), sqrt(6.0 / (in + out))},
                 {"torch", 1.0 / sqrt(3.0 * in), 1.0 / sqrt(in)},
                 {"normal:0.25", 0.25, 0},
                 {"uniform:0.3", 0.3 / sqrt(3.0), 0.3}};
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        yk_net_options o = {0};
        assert_int_equal(yk_net_options_init(&o, cases[i].text), YK_OK);
        yk_model *m = model_of("dense 400, relu, dense 3", &o, 1);
        float *p = yk_alloc(m->nparams, sizeof *p, "a test");
        assert_non_null(p);
        m->ops->init(m, 0, p, 3);
        const spread s = spread_of(p, DIM * 400);
        assert_true(fabs(s.mean) < 0.03 * cases[i].deviation);
        assert_true(fabs(s.deviation / cases[i].deviation - 1.0) < 0.02);
        if (cases[i].limit > 0.0)
            assert_true(s.max <= cases[i].limit * (1 + 1e-6) && s.max > 0.99 * cases[i].limit);
        else
            assert_true(s.max > 3.0 * cases[i].deviation);
        const spread bias = spread_of(p + DIM * 400, 400);
        if (o.init == YK_INIT_TORCH)
            assert_true(bias.max > 0.9 * cases[i].limit && bias.max <= cases[i].limit * (1 + 1e-6));
        else
            assert_true(bias.max == 0.0);
        yk_free(p);
        yk_model_free(m);
    }
}

static void initial_biases(void **state)
{
    (void)state;
    yk_net_options o = {.init = YK_INIT_TORCH, .bias_given = true, .init_bias = -0.5f};
    yk_model *m = model_of("conv 4 3x3, relu, dense 3", &o, 1);
    float *p = yk_alloc(m->nparams, sizeof *p, "a test");
    assert_non_null(p);
    m->ops->init(m, 0, p, 3);
    const yk_model_tensor *first = &m->tensor[1], *last = &m->tensor[3];
    assert_int_equal(m->ntensors, 4);
    assert_true(first->bias && last->bias && !m->tensor[0].bias && !m->tensor[2].bias);
    assert_int_equal(first->offset, 4 * CHANNELS * 9);
    assert_int_equal(first->size, 4);
    assert_int_equal(last->offset + last->size, m->nparams);
    size_t set = 0;
    for (size_t i = 0; i < m->nparams; i++)
        set += p[i] == -0.5f;
    assert_int_equal(set, 4 + 3);
    for (size_t i = first->offset; i < first->offset + first->size; i++)
        assert_true(p[i] == -0.5f);
    yk_free(p);
    yk_model_free(m);
}

/* ---- images ---- */

static void images_are_standardized_one_by_one(void **state)
{
    (void)state;
    const yk_net_options o = options_of("image", NULL);
    for (uint32_t i = 0; i < 10; i++) {
        float seen[DIM];
        double mean, deviation;
        see(&o, i, seen);
        reference_statistics(i, false, 0, 0, &mean, &deviation);
        assert_true(difference(seen, i, false, 0, 0, mean, deviation) < 1e-4); /* i = 7: all zeros */
    }
}

static void images_are_standardized_by_channel(void **state)
{
    (void)state;
    const yk_net_options o = options_of("channel:0.25/0.5,0.5/0.125", NULL);
    float seen[DIM];
    see(&o, 3, seen);
    for (int i = 0; i < DIM; i++) {
        const double x = (double)rows.u8[3 * DIM + i] / 255.0;
        const double want = i < PLANE ? (x - 0.25) / 0.5 : (x - 0.5) / 0.125;
        assert_true(fabs((double)seen[i] - want) < 1e-4);
    }
}

/* Each input is one of all possible augmentations of the image; all of them occur, about equally often. */
static void images_are_flipped_and_shifted(void **state)
{
    (void)state;
    static const char *const how[] = {"none", "image"};
    for (int k = 0; k < 2; k++) {
        const yk_net_options o = options_of(how[k], "flip,crop:1");
        int times[2][3][3] = {{{0}}}, kinds = 0;
        for (uint32_t i = 0; i < IMAGES; i++) {
            float seen[DIM];
            int found = 0;
            if (i == 7)
                continue; /* blank: all augmentations are equal */
            see(&o, i, seen);
            for (int c = 0; c < 18; c++) {
                const bool flip = c / 9;
                const int up = c % 9 / 3 - 1, left = c % 3 - 1;
                double mean = 0.0, deviation = 255.0;
                if (k)
                    reference_statistics(i, flip, up, left, &mean, &deviation);
                if (difference(seen, i, flip, up, left, mean, deviation) < 1e-3) {
                    times[flip][up + 1][left + 1]++;
                    found++;
                }
            }
            assert_int_equal(found, 1);
        }
        int flipped = 0;
        for (int c = 0; c < 18; c++) {
            kinds += times[c / 9][c % 9 / 3][c % 3] > 0;
            flipped += c / 9 ? times[1][c % 9 / 3][c % 3] : 0;
        }
        assert_true(kinds >= 12);
        assert_true(flipped >= 10 && flipped <= 29);
    }
}

static void augmentation_is_deterministic(void **state)
{
    (void)state;
    const yk_net_options o = options_of("image", "flip,crop:2");
    float *g[3];
    size_t n = 0;
    for (int i = 0; i < 3; i++) {
        yk_model *m = model_of("conv 4 3x3 same, relu, maxpool 2, dense 3", &o, i < 2 ? 1 : 3);
        n = m->nparams;
        g[i] = gradient_of(m, first_images, IMAGES); /* a last block that is not full */
        yk_model_free(m);
    }
    assert_memory_equal(g[0], g[1], n * sizeof(float));
    assert_memory_equal(g[0], g[2], n * sizeof(float));
    for (int i = 0; i < 3; i++)
        yk_free(g[i]);
}

/* Augmentation is for training only; pixels as floats are the same images as bytes. */
static void predictions_do_not_augment(void **state)
{
    (void)state;
    yk_net_options plain = options_of("image", NULL), changed = options_of("image", "flip,crop:2");
    float p[3][IMAGES * CLASSES];
    double loss[3] = {0};
    yk_rows floats;
    yk_rows_init(&floats, YK_ROWS_F32, DIM);
    for (uint32_t i = 0; i < IMAGES; i++) {
        float *x;
        assert_int_equal(yk_rows_dense_f32(&floats, &x), YK_OK);
        for (uint32_t k = 0; k < DIM; k++)
            x[k] = (float)rows.u8[i * DIM + k];
        assert_int_equal(yk_rows_commit(&floats, 0, rows.label[i]), YK_OK);
    }
    for (int i = 0; i < 3; i++) {
        yk_model *m = model_of("conv 4 3x3, relu, dense 3", i == 1 ? &changed : &plain, 1);
        float *params = yk_alloc(m->nparams, sizeof *params, "a test");
        yk_workspace *w;
        assert_non_null(params);
        m->ops->init(m, 0, params, 1);
        assert_int_equal(yk_workspace_create(m, IMAGES, &w), YK_OK);
        yk_view v = {.w = params};
        yk_batch b = {i == 2 ? &floats : &rows, first_images, IMAGES, 0};
        m->ops->predict(m, w, &v, &b, p[i], &loss[i]);
        yk_workspace_free(m, w);
        yk_free(params);
        yk_model_free(m);
    }
    assert_memory_equal(p[0], p[1], sizeof p[0]);
    assert_true(loss[0] == loss[1]);
    for (int i = 0; i < IMAGES * CLASSES; i++)
        assert_true(fabsf(p[0][i] - p[2][i]) < 1e-5f);
    yk_rows_fini(&floats);
}

/* ---- descriptions and profiles ---- */

static void named_networks_are_described(void **state)
{
    (void)state;
    const struct {
        const char *name;
        size_t side, channels, params;
        uint32_t classes;
        int lines;
    } cases[] = {{"lenet5", 28, 1, 61706, 10, 13},
                 {"lenet-caffe", 28, 1, 1256080, 10, 9},
                 {"alexnet", 256, 3, 61100840, 1000, 22},
                 {"softmax", 28, 1, 7850, 10, 1}};
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        const size_t side = cases[i].side, dim = side * side * cases[i].channels;
        yk_model_shape shape = {.kind = YK_ROWS_U8,
                                .dim = dim,
                                .classes = cases[i].classes,
                                .bias = true,
                                .channels = cases[i].channels,
                                .height = side,
                                .width = side};
        yk_layer_line line[YK_MAX_LINES];
        yk_model *m;
        assert_int_equal(yk_model_create(cases[i].name, &shape, &m), YK_OK);
        const int n = yk_model_describe(m, 64, line);
        size_t params = 0;
        for (int k = 0; k < n; k++)
            params += line[k].params;
        assert_int_equal(n, cases[i].lines);
        assert_int_equal(params, cases[i].params);
        assert_int_equal(line[n - 1].shape[0], cases[i].classes);
        yk_model_free(m);
    }
}

static void layers_are_described(void **state)
{
    (void)state;
    yk_layer_line line[YK_MAX_LINES];
    const yk_net_options o = {0};
    yk_model *m = model_of("conv 4 3x3 same, relu, flatten, dense 3", &o, 1);
    assert_int_equal(yk_model_describe(m, 16, line), 5);
    assert_string_equal(line[1].text, "conv 4 3x3 same");
    assert_true(line[1].rank == 3 && line[1].shape[0] == 4 && line[1].shape[1] == HEIGHT &&
                line[1].shape[2] == WIDTH);
    assert_int_equal(line[1].params, 4 * CHANNELS * 9 + 4);
    assert_true(line[1].flops == 2.0 * 4 * CHANNELS * 9 * PLANE);
    assert_true(line[1].flops_back == line[1].flops); /* no gradient of the images */
    assert_true(line[1].bytes >= 2 * 16 * 4 * PLANE * sizeof(float));
    assert_true(line[2].bytes == 0 && line[2].flops == 0.0 && line[2].params == 0); /* in place */
    assert_true(line[3].rank == 1 && line[3].shape[0] == 4 * PLANE);
    assert_true(line[4].flops == 2.0 * 3 * 4 * PLANE && line[4].flops_back == 2.0 * line[4].flops);
    yk_model_free(m);
}

static void profiles_measure_time(void **state)
{
    (void)state;
    for (int asked = 0; asked < 2; asked++) {
        const yk_net_options o = {.profile = asked};
        yk_model *m = model_of("conv 4 3x3 same, relu, dense 3", &o, 2);
        float *params = yk_alloc(m->nparams, sizeof *params, "a test"), p[IMAGES * CLASSES];
        yk_profile_line line[YK_MAX_PROFILE_LINES];
        yk_workspace *w;
        double loss = 0.0;
        assert_non_null(params);
        m->ops->init(m, 0, params, 1);
        assert_int_equal(yk_workspace_create(m, IMAGES, &w), YK_OK);
        yk_view v = {.w = params};
        yk_batch b = {&rows, first_images, IMAGES, 0};
        yk_grad g;
        for (int i = 0; i < 3; i++) {
            m->ops->grad(m, w, &v, &b, &g);
            m->ops->predict(m, w, &v, &b, p, &loss); /* not counted */
        }
        const int n = yk_net_profile(w, line);
        assert_int_equal(n, asked ? 2 + 2 * 3 : 0);
        int backward = 0;
        for (int i = 0; i < n; i++) {
            assert_int_equal(line[i].calls, line[0].calls);
            assert_true(line[i].calls >= 3 && line[i].seconds > 0.0 && line[i].bytes > 0.0);
            backward += strcmp(line[i].pass, "backward") == 0;
            if (strcmp(line[i].text, "conv 4 3x3 same") == 0) /* 40 images are 3 blocks of 16 */
                assert_true(line[i].flops == 3.0 * 48.0 * 2.0 * 4 * CHANNELS * 9 * PLANE);
        }
        assert_int_equal(backward, asked ? 3 : 0);
        yk_workspace_free(m, w);
        yk_free(params);
        yk_model_free(m);
    }
    assert_true(yk_net_peak() > 1e8);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(options_are_parsed),
        cmocka_unit_test(wrong_options_are_errors),
        cmocka_unit_test(options_must_fit_the_data),
        cmocka_unit_test(initial_weights),
        cmocka_unit_test(initial_biases),
        cmocka_unit_test(images_are_standardized_one_by_one),
        cmocka_unit_test(images_are_standardized_by_channel),
        cmocka_unit_test(images_are_flipped_and_shifted),
        cmocka_unit_test(augmentation_is_deterministic),
        cmocka_unit_test(predictions_do_not_augment),
        cmocka_unit_test(named_networks_are_described),
        cmocka_unit_test(layers_are_described),
        cmocka_unit_test(profiles_measure_time),
    };
    return cmocka_run_group_tests(tests, make_rows, free_rows);
}
