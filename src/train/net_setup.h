/* Options of networks and biases that depend on the data and the model. */
#ifndef YK_TRAIN_NET_SETUP_H
#define YK_TRAIN_NET_SETUP_H

#include "config/config.h"
#include "data/dataset.h"
#include "model/model.h"
#include "store/local.h"

yk_status yk__net_options_of(const yk_config *c, yk_net_options *out);

/* For --standardize channel: measures the channels of the training data. channels: 0: one; name: of the data, for errors. */
yk_status yk__net_channels(yk_dataset *train, const char *name, size_t channels, yk_net_options *o);

/* --bias-lr, --bias-decay: sets the ranges of the groups, in `range` [YK_MAX_TENSORS / 2], which must outlive them. */
yk_status yk__set_bias_rates(const yk_config *c, const yk_model *m, yk_local_group *groups,
                             yk_optim_range *range);

#endif
