/* Inside of a run: what train.c sets up, loop.c trains with, and journal.c writes about. */
#ifndef YK_TRAIN_TRAINER_H
#define YK_TRAIN_TRAINER_H

#include "base/mem.h"
#include "base/thread.h"
#include "data/feed.h"
#include "dist/store.h"
#include "model/model.h"
#include "train/checkpoint.h"
#include "train/train.h"
#include <stdatomic.h>

/* One worker's own things. */
typedef struct {
    _Alignas(YK_ALIGN) yk_work *work;
    yk_tally tally;
    float *p;           /* [YK__EVAL_BATCH][outputs] */
    double period_loss; /* training loss summed since the last evaluation */
    uint64_t period_examples, examples;
    bool finished;
} yk__trainee;

enum { YK__MOST_GROUPS = YK_MAX_TENSORS / 2 };
enum { YK__EVAL_BATCH = 64, YK__SAVE_SECONDS = 600 };

typedef struct yk__journal yk__journal;

typedef struct {
    const yk_config *config;
    const volatile sig_atomic_t *stop;
    yk_result *result;
    yk_dataset train, test;
    bool tested;
    yk_keymap keymap;
    const yk_keymap *names; /* &keymap, or NULL where keys keep their names */
    yk_model *model;
    yk_store *store;
    yk_feed *feed;
    yk_team *team;
    yk__journal *journal;
    yk__trainee *trainee;
    int workers;
    bool in_step;
    uint64_t batch, steps, epochs, eval_every, checkpoint_every;
    yk_optim_config optim;
    yk_optim_group group[YK__MOST_GROUPS]; /* biases, where they have rates of their own */
    size_t ngroups;
    double peak;           /* --profile: FLOP/s of one thread at best */
    double started, began; /* the process; its first step */
    double earlier_seconds;
    uint64_t earlier_examples;

    /* how workers agree on a meeting */
    atomic_bool meeting;   /* not in step: come together as soon as you can */
    atomic_int finished;   /* not in step: workers without anything left to do */
    atomic_int word_at[2]; /* in step: worker 0's word, by the parity of the round: go on, save, or stop */
    bool do_eval, do_save, end; /* decided by worker 0 in a meeting */
    uint64_t step, epoch;       /* as of the last meeting */
    uint64_t next_eval, next_save;
    bool saves_by_time;
    double saved_at; /* when; without --checkpoint-every it is done every YK__SAVE_SECONDS */
    uint64_t last_eval, last_save;
    double first_loss;
} yk__trainer;

/* loop.c */
yk_status yk__train_worker(void *trainer, int me);

/* net_setup.c */
yk_status yk__net_options_of(const yk_config *c, yk_net_options *out); /* as the options say */
yk_status yk__net_channels(yk__trainer *t, yk_net_options *o); /* --standardize channel: measures them */
yk_status yk__groups_make(yk__trainer *t);                     /* --bias-lr, --bias-decay */
yk_status yk__decay_by_epochs(yk__trainer *t);                 /* --lr-decay-epochs */

/* describe.c */
yk_status yk__describe(yk__trainer *t);
yk_status yk__profile_take(yk__trainer *t);

/* journal.c: metrics.jsonl and the progress line; all called by worker 0 alone. */
yk_status yk__journal_open(yk__trainer *t);
yk_status yk__journal_close(yk__trainer *t);
void yk__journal_progress(yk__trainer *t, double loss); /* cheap: looks at the clock now and then */
yk_status yk__journal_eval(yk__trainer *t, double train_loss);

#endif
