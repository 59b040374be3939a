#include "config/config.h"

#include "base/number.h"
#include "format/ini.h"
#include "optim/optim.h"
#include "watch/http.h"
#include <errno.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#define AT(field) offsetof(yk_config, field)
#define BIG       9.0e15 /* exact in a double */

/* Which programs run, on which machines, and who can reach them. */
#define HOW_TO_START (YK_OPT_COMMAND_LINE_ONLY | YK_OPT_MAY_DIFFER)
/* What this invocation of the program does, and where. */
#define ONE_CALL (YK_OPT_COMMAND_LINE_ONLY | YK_OPT_NOT_KEPT | YK_OPT_MAY_DIFFER | YK_OPT_NOT_IN_SWEEPS)

const yk_option yk_options[] = {
    {"model", "M", YK_OPT_TEXT, AT(model), 0, 0, "What to train",
     "softmax (any number of classes), logreg (two classes; sparse or "
     "dense data), lenet5, lenet-caffe, alexnet, or a list of layers: "
     "\"conv 6 5x5 same, relu, maxpool 2, dense 10\""},
    {"data", "SPEC", YK_OPT_TEXT, AT(data), 0, 0, "What to train",
     "training data: idx:DIR, tfrecord:GLOB, libsvm:GLOB, criteo:GLOB, cifar10:DIR, images:DIR, cache:FILE, "
     "synth:digits, synth:ctr, "
     "synth:images, or a path; "
     "options after '?', as in 'synth:ctr?features=1000&seed=2'"},
    {"test", "SPEC", YK_OPT_TEXT, AT(test), 0, 0, "What to train",
     "test data; idx, cifar10, images and synth bring their own; 'none' for no tests"},
    {"features", "N", YK_OPT_INT, AT(features), 0, INT32_MAX - 1, "What to train",
     "columns of sparse data (0: as many as occur)"},
    {"hash-bits", "B", YK_OPT_INT, AT(hash_bits), 0, 30, "What to train",
     "hash Criteo text into 2^B features"},
    {"skip-bad", "N", YK_OPT_INT, AT(skip_bad), 0, BIG, "What to train",
     "skip and count up to N bad records"},
    {"stream", "WHEN", YK_OPT_TEXT, AT(stream), 0, 0, "What to train",
     "auto (data that does not fit into memory), always or never: read it anew in each epoch"},
    {"shuffle-mb", "MB", YK_OPT_INT, AT(shuffle_mb), 1, 1 << 20, "What to train",
     "memory in which streamed data is shuffled"},
    {"no-bias", NULL, YK_OPT_FLAG, AT(no_bias), 0, 0, "What to train", "logreg without a bias"},

    {"init", "HOW", YK_OPT_TEXT, AT(init), 0, 0, "Networks",
     "how weights begin: he (default), glorot, torch (uniform, up to 1 / sqrt(fan-in), biases too), "
     "normal:SIGMA or "
     "uniform:LIMIT"},
    {"init-bias", "X", YK_OPT_REAL, AT(init_bias), -HUGE_VAL, HUGE_VAL, "Networks",
     "what biases begin as (default 0)"},
    {"standardize", "HOW", YK_OPT_TEXT, AT(standardize), 0, 0, "Networks",
     "none (default: pixels 0 to 1), image (each to mean 0 and variance 1), channel (each channel, by the "
     "training set) or "
     "channel:MEAN/DEVIATION,... of each"},
    {"augment", "HOW", YK_OPT_TEXT, AT(augment), 0, 0, "Networks",
     "change training images at random: flip (left to right), crop:PIXELS (moved by up to so many), or "
     "flip,crop:4"},
    {"dry-run", NULL, YK_OPT_FLAG, AT(dry_run), 0, 0, "Networks",
     "print the layers with shapes, parameters, FLOPs and memory, and train nothing",
     YK_OPT_NOT_KEPT | YK_OPT_NOT_IN_SWEEPS},
    {"profile", NULL, YK_OPT_FLAG, AT(profile), 0, 0, "Networks",
     "after the run, the time of each layer, on stderr", YK_OPT_NOT_KEPT | YK_OPT_NOT_IN_SWEEPS},

    {"mode", "MODE", YK_OPT_TEXT, AT(mode), 0, 0, "How workers go together", "sync (default) or async"},
    {"staleness", "K", YK_OPT_INT, AT(staleness), -1, BIG, "How workers go together",
     "no worker may be more than K steps ahead of the slowest; 0 is sync, without it async has no bound"},
    {"workers", "N", YK_OPT_INT, AT(workers), 1, 1024, "How workers go together",
     "threads that train, each on its share (default 1)"},
    {"threads", "T", YK_OPT_INT, AT(threads), 1, 1024, "How workers go together",
     "cores of one worker, for networks; the linear models use one"},

    {"launch", "N", YK_OPT_INT, AT(launch), 0, 4096, "Clusters",
     "run as N processes on this machine, or on those of --hosts; mpirun and srun do as well",
     YK_OPT_MAY_DIFFER},
    {"hosts", "LIST", YK_OPT_TEXT, AT(hosts), 0, 0, "Clusters",
     "run on these machines, by ssh: a,b:2 is one process on a and two on b", HOW_TO_START},
    {"hostfile", "FILE", YK_OPT_TEXT, AT(hostfile), 0, 0, "Clusters",
     "the same from a file, a line each: HOST slots=N", HOW_TO_START},
    {"agent", "CMD", YK_OPT_TEXT, AT(agent), 0, 0, "Clusters", "what reaches other machines instead of ssh",
     HOW_TO_START},
    {"mpi-options", "ARGS", YK_OPT_TEXT, AT(mpi_options), 0, 0, "Clusters", "more arguments for mpirun",
     HOW_TO_START},
    {"network", "WHERE", YK_OPT_TEXT, AT(network), 0, 0, "Clusters",
     "local: only this machine can reach the job (default without --hosts); any: a worker may --join it "
     "from another machine",
     HOW_TO_START},
    {"servers", "K", YK_OPT_INT, AT(servers), 0, 1024, "Clusters",
     "processes 0 to K-1 own the parameters and train nothing; 0: every process has all of them (replicas). "
     "Default: 0 for synchronous training of dense models or with --local-steps, else 1"},
    {"quorum", "M", YK_OPT_INT, AT(quorum), 0, 4096, "Clusters",
     "sync: a step uses the first M gradients; later ones are counted and dropped"},
    {"local-steps", "H", YK_OPT_INT, AT(local_steps), 0, BIG, "Clusters",
     "each worker trains by itself for H steps, and then parameters are averaged; async: 1/N of what it has "
     "changed is added"},
    {"restarts", "R", YK_OPT_INT, AT(restarts), 0, 1e6, "Clusters",
     "with --launch or --hosts: start a job that was lost again from its last checkpoint, up to R times",
     YK_OPT_MAY_DIFFER},
    {"deadline", "S", YK_OPT_REAL, AT(deadline), 0.1, 86400, "Clusters",
     "seconds of silence after which a process is given up (default 8; longer where its steps are long)"},
    {"join", "RUN", YK_OPT_TEXT, AT(join), 0, 0, "Clusters",
     "become one more worker of the asynchronous job that writes this run directory", ONE_CALL},

    {"batch", "B", YK_OPT_INT, AT(batch), 1, 1 << 24, "Steps", "examples per worker and step (default 64)"},
    {"epochs", "E", YK_OPT_INT, AT(epochs), 0, BIG, "Steps", "passes over the data (default 1)"},
    {"steps", "S", YK_OPT_INT, AT(steps), 0, BIG, "Steps",
     "steps instead of epochs; async: of all workers together"},
    {"seed", "S", YK_OPT_INT, AT(seed), 0, BIG, "Steps",
     "order of the examples, and first weights of networks"},

    {"optimizer", "NAME", YK_OPT_TEXT, AT(optimizer), 0, 0, "Updates",
     "sgd (default), momentum, adagrad, ftrl or adam"},
    {"lr", "X", YK_OPT_REAL, AT(lr), 0, HUGE_VAL, "Updates",
     "learning rate (default: sgd 0.1, momentum 0.01, adagrad 0.05, adam 0.001, ftrl 0.1)"},
    {"l2", "X", YK_OPT_REAL, AT(l2), 0, HUGE_VAL, "Updates",
     "weight decay: adds l2/2 |w|^2 to the mean loss (ftrl: to the sum over steps); biases too"},
    {"l1", "X", YK_OPT_REAL, AT(l1), 0, HUGE_VAL, "Updates",
     "adds l1 |w| to the mean loss (ftrl: to the sum over steps)"},
    {"momentum", "X", YK_OPT_REAL, AT(momentum), 0, 1, "Updates", "of --optimizer momentum"},
    {"lr-schedule", "S", YK_OPT_TEXT, AT(lr_schedule), 0, 0, "Updates",
     "constant (default), step (times --lr-decay every --lr-decay-every steps) or inverse (lr / (1 + "
     "lr-decay * step))"},
    {"lr-decay", "X", YK_OPT_REAL, AT(lr_decay), 0, HUGE_VAL, "Updates",
     "see --lr-schedule (default: step 0.1, inverse 0.001)"},
    {"lr-decay-every", "N", YK_OPT_INT, AT(lr_decay_every), 1, BIG, "Updates",
     "see --lr-schedule (default 1000)"},
    {"lr-decay-epochs", "E", YK_OPT_REAL, AT(lr_decay_epochs), 0, 1e9, "Updates",
     "the same in epochs instead of steps; may be a fraction"},
    {"bias-lr", "X", YK_OPT_REAL, AT(bias_lr), 0, HUGE_VAL, "Updates",
     "times the learning rate, for biases of dense models (default 1)"},
    {"bias-decay", "WHETHER", YK_OPT_TEXT, AT(bias_decay), 0, 0, "Updates",
     "yes (default) or no: whether --l1 and --l2 hold for biases of dense models"},

    {"out", "DIR", YK_OPT_TEXT, AT(out), 0, 0, "What is kept",
     "run directory: configuration, metrics, checkpoints (default runs/MODEL-TIME-PID); 'none' keeps "
     "nothing",
     ONE_CALL},
    {"eval-every", "N", YK_OPT_INT, AT(eval_every), 0, BIG, "What is kept",
     "test every N steps (0: at the end of each epoch)"},
    {"checkpoint-every", "N", YK_OPT_INT, AT(checkpoint_every), 0, BIG, "What is kept",
     "save every N steps (default: every ten minutes); the end is saved in any case"},
    {"resume", NULL, YK_OPT_FLAG, AT(resume), 0, 0, "What is kept",
     "go on from the last checkpoint in --out, with its configuration", ONE_CALL},
    {"sample-every", "SECONDS", YK_OPT_REAL, AT(sample_every), 0, 3600, "What is kept",
     "look at CPU, memory, network and disk so often (default 0.25; 0: never)"},
    {"trace", NULL, YK_OPT_FLAG, AT(trace), 0, 0, "What is kept",
     "write a timeline, trace.json, for ui.perfetto.dev or chrome://tracing"},
    {"http", "[ADDR:]PORT", YK_OPT_TEXT, AT(http), 0, 0, "What is kept",
     "serve a live page, and /metrics for Prometheus; on this machine only unless ADDR says otherwise; port "
     "0: any that is free",
     YK_OPT_COMMAND_LINE_ONLY | YK_OPT_NOT_KEPT | YK_OPT_MAY_DIFFER},
    {"json", NULL, YK_OPT_FLAG, AT(json), 0, 0, "What is kept",
     "results as one JSON object on stdout's last line",
     YK_OPT_NOT_KEPT | YK_OPT_MAY_DIFFER | YK_OPT_NOT_IN_SWEEPS},
    {"quiet", NULL, YK_OPT_FLAG, AT(quiet), 0, 0, "What is kept", "no notes and no progress on stderr",
     YK_OPT_NOT_KEPT | YK_OPT_MAY_DIFFER | YK_OPT_NOT_IN_SWEEPS},
    {"config", "FILE", YK_OPT_TEXT, AT(config), 0, 0, "What is kept",
     "read options from FILE first (name = value); the command line wins", ONE_CALL},
    {NULL, NULL, YK_OPT_TEXT, 0, 0, 0, NULL, NULL}};

void yk_config_init(yk_config *c)
{
    *c = (yk_config){.staleness = -1,
                     .workers = 1,
                     .threads = 1,
                     .batch = 64,
                     .servers = -1,
                     .deadline = 8,
                     .lr = -1,
                     .momentum = -1,
                     .lr_decay = -1,
                     .init_bias = NAN,
                     .bias_lr = -1,
                     .lr_decay_every = 1000,
                     .seed = 1,
                     .sample_every = 0.25,
                     .shuffle_mb = 32};
}

void yk_config_fini(yk_config *c)
{
    for (const yk_option *o = yk_options; o->name; o++)
        if (o->kind == YK_OPT_TEXT)
            free(*(char **)((char *)c + o->offset));
    *c = (yk_config){0};
}

const yk_option *yk_option_find(const char *name)
{
    for (const yk_option *o = yk_options; o->name; o++)
        if (strcmp(o->name, name) == 0)
            return o;
    return NULL;
}

static yk_status set_number(const yk_option *o, const char *value, void *field)
{
    const yk_status st = o->kind == YK_OPT_INT ? yk_number_whole(value, o->least, o->most, field)
                                               : yk_number_real(value, o->least, o->most, field);
    return st ? yk_fail(st, "--%s %s: %s", o->name, value, yk_error()) : YK_OK;
}

yk_status yk_config_set(yk_config *c, const char *name, const char *value)
{
    const yk_option *o = yk_option_find(name);
    if (!o)
        return yk_fail(YK_EUSAGE, "there is no option %s; yoke train --help lists them", name);
    void *field = (char *)c + o->offset;
    if (o->kind == YK_OPT_TEXT) {
        if (!*value || strchr(YK_BLANKS, *value) || strchr(YK_BLANKS, value[strlen(value) - 1]) ||
            strpbrk(value, "\r\n"))
            return yk_fail(YK_EUSAGE,
                           "--%s '%s': it is empty, begins or ends with a blank, or has more than one line",
                           name, value);
        char *copy = strdup(value);
        if (!copy)
            return yk_fail_memory(strlen(value), "an option");
        free(*(char **)field);
        *(char **)field = copy;
        return YK_OK;
    }
    if (o->kind == YK_OPT_FLAG) {
        if (strcmp(value, "true") && strcmp(value, "false"))
            return yk_fail(YK_EUSAGE, "%s = %s: it is true or false", name, value);
        *(bool *)field = value[0] == 't';
        return YK_OK;
    }
    return set_number(o, value, field);
}

/* "agent, hosts", each name once. */
static yk_status add_name(char **names, const char *name)
{
    char *longer;
    if (*names && strstr(*names, name)) /* none of these names is a substring of another */
        return YK_OK;
    if (asprintf(&longer, "%s%s%s", *names ? *names : "", *names ? ", " : "", name) < 0)
        return yk_fail_memory(strlen(name), "a name");
    free(*names);
    *names = longer;
    return YK_OK;
}

/* `ignored`: receives the names of options that a file cannot set; NULL: such options are errors. */
static yk_status load_option(yk_config *c, const char *name, const char *value, char **ignored)
{
    const yk_option *o = yk_option_find(name);
    if (!o || !(o->flags & YK_OPT_COMMAND_LINE_ONLY))
        return yk_config_set(c, name, value);
    return ignored ? add_name(ignored, name)
                   : yk_fail(YK_EUSAGE, "a file cannot set %s; give --%s on the command line", name, name);
}

/* Section headers are allowed and ignored. Closes `in`. */
static yk_status load_lines(yk_config *c, yk_ini *in, yk_status st, char **ignored)
{
    while (yk_ini_next(in, &st))
        if (in->name)
            st = load_option(c, in->name, in->value, ignored);
    return yk_ini_close(in, st);
}

yk_status yk_config_load(yk_config *c, const char *path)
{
    yk_ini in;
    const yk_status st = yk_ini_open(path, 0, &in);
    return load_lines(c, &in, st, NULL);
}

yk_status yk_config_load_run(yk_config *c, const char *path, bool *there_out, char **ignored_out)
{
    yk_ini in;
    *ignored_out = NULL;
    yk_status st = yk_ini_open_plain(path, 1 << 20, 0, &in);
    *there_out = in.file;
    st = load_lines(c, &in, st, ignored_out);
    if (st) {
        free(*ignored_out);
        *ignored_out = NULL;
    }
    return st;
}

static yk_status one_of(const char *option, const char *value, const char *const *known)
{
    char list[128] = "";
    for (; value && *known; known++) {
        if (strcmp(value, *known) == 0)
            return YK_OK;
        snprintf(list + strlen(list), sizeof list - strlen(list), "%s%s", *list ? ", " : "", *known);
    }
    return value ? yk_fail(YK_EUSAGE, "--%s %s is not known; choose one of: %s", option, value, list) : YK_OK;
}

yk_status yk_config_check(const yk_config *c)
{
    static const char *const modes[] = {"sync", "async", NULL},
                             *const streams[] = {"auto", "always", "never", NULL},
                             *const schedules[] = {"constant", "step", "inverse", NULL},
                             *const networks[] = {"local", "any", NULL},
                             *const answers[] = {"yes", "no", NULL};
    yk_status st;
    if (!c->model)
        return yk_fail(YK_EUSAGE, "--model is missing: try --model softmax --data synth:digits");
    if (!c->data)
        return yk_fail(YK_EUSAGE, "--data is missing: try --data synth:digits, or a path to your data");
    if ((st = one_of("mode", c->mode, modes)) || (st = one_of("stream", c->stream, streams)) ||
        (st = one_of("lr-schedule", c->lr_schedule, schedules)) ||
        (st = one_of("network", c->network, networks)) || (st = one_of("bias-decay", c->bias_decay, answers)))
        return st;
    if (c->lr_decay_epochs > 0.0 && (!c->lr_schedule || strcmp(c->lr_schedule, "step")))
        return yk_fail(YK_EUSAGE, "--lr-decay-epochs %g has no effect without --lr-schedule step",
                       c->lr_decay_epochs);
    if (c->lr_decay_epochs > 0.0 && c->lr_decay_every != 1000)
        return yk_fail(YK_EUSAGE, "--lr-decay-epochs and --lr-decay-every: choose one of them");
    if (c->mode && strcmp(c->mode, "sync") == 0 && c->staleness > 0)
        return yk_fail(YK_EUSAGE,
                       "--mode sync means --staleness 0; for a bound of %lld steps use --mode async",
                       (long long)c->staleness);
    if (c->resume && (!c->out || strcmp(c->out, "none") == 0))
        return yk_fail(YK_EUSAGE, "--resume needs --out DIR: the run directory to go on with");
    if (c->trace && c->out && strcmp(c->out, "none") == 0)
        return yk_fail(YK_EUSAGE, "--trace needs a run directory to write to: --out DIR");
    if (c->network && strcmp(c->network, "local") == 0 && (c->hosts || c->hostfile))
        return yk_fail(YK_EUSAGE, "--network local cannot be used with --hosts or --hostfile");
    if (c->http && (st = yk_http_check(c->http)))
        return st;
    if (c->momentum >= 0.0 && (!c->optimizer || strcmp(c->optimizer, "momentum")))
        return yk_fail(YK_EUSAGE, "--momentum %g has no effect without --optimizer momentum", c->momentum);
    if (c->lr_decay >= 0.0 && (!c->lr_schedule || strcmp(c->lr_schedule, "constant") == 0))
        return yk_fail(YK_EUSAGE, "--lr-decay %g has no effect without --lr-schedule step or inverse",
                       c->lr_decay);
    if (c->epochs && c->steps)
        return yk_fail(YK_EUSAGE, "--epochs and --steps: choose one of them");
    return YK_OK;
}

yk_status yk_config_save(const yk_config *c, const char *dir, const char *name)
{
    yk_file *f;
    yk_config defaults;
    yk_config_init(&defaults);
    yk_status st = yk_file_create_in(dir, name, &f);
    if (st)
        return st;
    yk_file_print(f, "; yoke %s. Run it again: yoke train --config %s/%s --out ANOTHER_DIR\n", YK_VERSION,
                  dir, name);
    for (const yk_option *o = yk_options; o->name; o++) {
        const void *field = (const char *)c + o->offset, *fallback = (const char *)&defaults + o->offset;
        if (o->flags & YK_OPT_NOT_KEPT)
            continue;
        if (o->kind == YK_OPT_TEXT && *(char *const *)field)
            st = yk_file_print(
                f, o->flags & YK_OPT_COMMAND_LINE_ONLY ? "; on the command line: --%s %s\n" : "%s = %s\n",
                o->name, *(char *const *)field);
        else if (o->kind == YK_OPT_INT &&
                 (*(const int64_t *)field != *(const int64_t *)fallback || o->least >= 1))
            st = yk_file_print(f, "%s = %lld\n", o->name, (long long)*(const int64_t *)field);
        else if (o->kind == YK_OPT_REAL && isfinite(*(const double *)field) &&
                 (*(const double *)field >= 0 || o->least < 0))
            st = yk_file_print(f, "%s = %.17g\n", o->name, *(const double *)field);
        else if (o->kind == YK_OPT_FLAG && *(const bool *)field)
            st = yk_file_print(f, "%s = true\n", o->name);
    }
    return yk_file_close(f, st);
}
