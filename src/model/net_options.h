/* What a user may ask of a network beyond its layers: how its weights begin, and how an image becomes its input.
 *
 *     yk_net_options o = {0};                               // He's weights, pixels 0 to 1, nothing changed
 *     st = yk_net_options_init(&o, "normal:0.01");          // --init
 *     st = yk_net_options_standardize(&o, "channel:0.49/0.23,0.46/0.22,0.41/0.23");
 *     st = yk_net_options_augment(&o, "flip,crop:4");
 *
 * Weights begin as (fan-in and fan-out: the numbers that go into an output, and that an input goes to)
 *
 *     he              normal, variance 2 / fan-in                          (He et al. 2015)
 *     glorot          uniform, up to +-sqrt(6 / (fan-in + fan-out))        (Glorot, Bengio 2010; Keras's default)
 *     torch, uniform  uniform, up to +-1 / sqrt(fan-in), biases too        (PyTorch's default)
 *     normal:SIGMA    normal, that standard deviation
 *     uniform:LIMIT   uniform, up to +-LIMIT
 *
 * and biases as 0, or as --init-bias says. Pixels x become
 *
 *     none            x (bytes: / 255)
 *     image           (x - m) / s, of this image; s at least 1 / sqrt(pixels), in the data's own units, so that a blank image
 *                     stays finite (as TensorFlow's per_image_standardization)
 *     channel         (x - m) / s, of the channel, over a sample of the training set; or as given: channel:m/s,m/s,m/s
 *
 * Augmentation is for training alone and comes first: what a crop takes from outside of the image is black (0).
 * Plain data; functions are pure. Texts are read, not kept.
 */
#ifndef YK_MODEL_NET_OPTIONS_H
#define YK_MODEL_NET_OPTIONS_H

#include "base/status.h"
#include <stdbool.h>
#include <stddef.h>

typedef enum { YK_INIT_HE, YK_INIT_GLOROT, YK_INIT_TORCH, YK_INIT_NORMAL, YK_INIT_UNIFORM } yk_init_kind;
typedef enum { YK_STANDARDIZE_NONE, YK_STANDARDIZE_IMAGE, YK_STANDARDIZE_CHANNEL } yk_standardize;

enum { YK_MOST_CHANNELS = 16, YK_MOST_CROP = 64, YK_STANDARDIZE_TEXT = 512 };

typedef struct {
    yk_init_kind init;
    double init_size; /* SIGMA or LIMIT */
    bool bias_given;
    float init_bias;

    yk_standardize standardize;
    size_t channels; /* channel: of how many mean and deviation are known; 0: they are still to be measured */
    float mean[YK_MOST_CHANNELS], deviation[YK_MOST_CHANNELS];

    bool flip;   /* half of the images, left to right */
    size_t crop; /* moved by up to so many pixels in each direction */

    bool profile; /* the time of each layer is measured */
    bool asked;   /* for anything but the defaults: a linear model then says that it cannot */
} yk_net_options;

/* Each reads one option's text; NULL leaves the default. */
yk_status yk_net_options_init(yk_net_options *o, const char *text);
yk_status yk_net_options_standardize(yk_net_options *o, const char *text);
yk_status yk_net_options_augment(yk_net_options *o, const char *text);

/* What yk_net_options_standardize() reads back to the bit. */
void yk_net_options_standardize_text(const yk_net_options *o, char out[static YK_STANDARDIZE_TEXT]);

#endif
