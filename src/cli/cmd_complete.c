/* yoke complete WORD: the words that may follow WORD on a command line, for the completions of shells (completions/). */
#include "cli/cli.h"

#include <stdio.h>
#include <string.h>

#define DATA                                                                                                 \
    "idx: tfrecord: csv: parquet: libsvm: libffm: vw: criteo: cifar10: images: cache: synth:digits "         \
    "synth:ctr "                                                                                             \
    "synth:images"

static const struct {
    const char *after, *words;
} known[] = {
    {"yoke", "train eval predict inspect sweep report data version help"},
    {"data", "gen convert inspect"},
    {"--model", "softmax logreg linear fm:8 wide-deep deepfm lenet5 lenet-caffe alexnet"},
    {"--mode", "sync async"},
    {"--optimizer", "sgd momentum nesterov adagrad rowwise-adagrad ftrl adam adamw"},
    {"--lr-schedule", "constant step inverse cosine one-cycle plateau"},
    {"--stream", "auto always never"},
    {"--split", "train test"},
    {"--loss", "logistic softmax squared hinge"},
    {"--data", DATA},
    {"--test", DATA},
};

int yk_cmd_complete(int argc, char **argv)
{
    for (size_t i = 0; argc == 2 && i < sizeof known / sizeof *known; i++)
        if (strcmp(argv[1], known[i].after) == 0)
            puts(known[i].words);
    return yk_cli_exit(yk_cli_flush());
}
