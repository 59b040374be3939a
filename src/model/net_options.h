/* The options of a network besides its layers: initial weights, and preprocessing of images.
 *
 * Example:
 *     yk_net_options o = {0};                               // the defaults
 *     st = yk_net_options_init(&o, "normal:0.01");          // --init
 *     st = yk_net_options_standardize(&o, "channel:0.49/0.23,0.46/0.22,0.41/0.23");
 *     st = yk_net_options_augment(&o, "flip,crop:4");
 *
 * Initial weights (fan-in: inputs per output; fan-out: outputs per input):
 *
 *     he              normal, variance 2 / fan-in                          (He et al. 2015)
 *     glorot          uniform, up to +-sqrt(6 / (fan-in + fan-out))        (Glorot, Bengio 2010; default of Keras)
 *     torch, uniform  uniform, up to +-1 / sqrt(fan-in), also the biases   (default of PyTorch)
 *     normal:SIGMA    normal, with this standard deviation
 *     uniform:LIMIT   uniform, up to +-LIMIT
 *
 * Initial biases are 0, or the value of --init-bias. Standardization of a pixel x:
 *
 *     none            x (bytes: / 255)
 *     image           (x - m) / s, with mean and deviation of the image; s is at least 1 / sqrt(pixels) in the units of the
 *                     data, so that a blank image stays finite (like TensorFlow's per_image_standardization)
 *     channel         (x - m) / s, with mean and deviation of the channel, from a sample of the training set or as given:
 *                     channel:m/s,m/s,m/s
 *
 * Augmentation is for training only and precedes standardization; pixels outside the image are black (0).
 * Plain data; the functions are pure and borrow their arguments.
 */
#ifndef YK_MODEL_NET_OPTIONS_H
#define YK_MODEL_NET_OPTIONS_H

#include "base/status.h"

typedef enum { YK_INIT_HE, YK_INIT_GLOROT, YK_INIT_TORCH, YK_INIT_NORMAL, YK_INIT_UNIFORM } yk_init_kind;
typedef enum { YK_STANDARDIZE_NONE, YK_STANDARDIZE_IMAGE, YK_STANDARDIZE_CHANNEL } yk_standardize;

enum { YK_MAX_CHANNELS = 16, YK_MAX_CROP = 64, YK_STANDARDIZE_TEXT = 512 };

typedef struct {
    yk_init_kind init;
    double init_size; /* SIGMA or LIMIT */
    bool bias_given;
    float init_bias;

    yk_standardize standardize;
    size_t channels; /* with known mean and deviation; 0: not measured yet */
    float mean[YK_MAX_CHANNELS], deviation[YK_MAX_CHANNELS];

    bool flip;   /* mirrors half of the images left to right */
    size_t crop; /* shifts by up to this many pixels in each direction */

    bool profile; /* measures the time of each layer */
    bool given;   /* an option was given; linear models reject them */
} yk_net_options;

/* Each parses the value of one option; NULL leaves the default. */
yk_status yk_net_options_init(yk_net_options *o, const char *text);
yk_status yk_net_options_standardize(yk_net_options *o, const char *text);
yk_status yk_net_options_augment(yk_net_options *o, const char *text);

/* The inverse of yk_net_options_standardize(), exact to the bit. */
void yk_net_options_standardize_text(const yk_net_options *o, char out[static YK_STANDARDIZE_TEXT]);

#endif
