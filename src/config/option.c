#include "config/option.h"

#include "base/suggest.h"
#include "config/config.h"
#include "core/rows.h"
#include <math.h>
#include <string.h>

#define BIG 9.0e15 /* exact in a double */

/* ---- kind, field and range */

#define FIELD(kind, field, min, max)          YK_OPT_##kind, offsetof(yk_config, field), min, max
#define TEXT(field)                           FIELD(TEXT, field, 0, 0), NULL, NULL
#define TEXT_OF(list, field)                  FIELD(TEXT, field, 0, 0), list, NULL
#define INTEGER(field, min, max)              FIELD(INT, field, min, max), NULL, NULL
#define INTEGER_OR(word, field, min, max)     FIELD(INT, field, min, max), word, NULL
#define REAL(field, min, max)                 FIELD(REAL, field, min, max), NULL, NULL
#define WHOLE_BY_GROUP(word, field, min, max) FIELD(INT_BY_GROUP, field, min, max), word, NULL
#define REAL_BY_GROUP(word, field, min, max)  FIELD(REAL_BY_GROUP, field, min, max), word, NULL
#define WORD_BY_GROUP(words, field)           FIELD(WORD_BY_GROUP, field, 0, 0), NULL, words
#define FLAG(field)                           FIELD(FLAG, field, 0, 0), NULL, NULL

/* ---- headings */

#define MODEL    "Model and data"
#define NETWORK  "Networks"
#define PARALLEL "Workers and synchronization"
#define CLUSTER  "Clusters"
#define STEPS    "Steps"
#define UPDATES  "Updates"
#define OUTPUT   "Output"

/* ---- flags that occur together */

/* What is trained, and how. */
#define TRAINS (YK_OPT_CHANGES_RESULTS | YK_OPT_MUST_AGREE | YK_OPT_IN_SWEEPS | YK_OPT_SAVED)
/* The same; values may contain spaces. */
#define TRAINS_TEXT (TRAINS | YK_OPT_HAS_SPACES)
/* How long a run trains, and its seed: repeats of a configuration may differ in these. */
#define REPEATS (TRAINS | YK_OPT_VARIES_IN_REPEATS)
/* When a run is evaluated, saved, measured, or declared lost. */
#define RUNS (YK_OPT_MUST_AGREE | YK_OPT_IN_SWEEPS | YK_OPT_SAVED)
/* What the launcher does. */
#define LAUNCHES (YK_OPT_IN_SWEEPS | YK_OPT_SAVED)
/* Which programs the launcher runs, on which hosts, and who can reach them. */
#define CONNECTS (LAUNCHES | YK_OPT_COMMAND_LINE_ONLY)
/* What this invocation does, in all processes. */
#define SHOWS YK_OPT_MUST_AGREE
/* Where this invocation reads and writes. */
#define INVOKES YK_OPT_COMMAND_LINE_ONLY
/* What this process prints. */
#define PRINTS 0

const yk_option yk_options[] = {
    {"model", "M", TEXT(model), MODEL, TRAINS_TEXT, NULL,
     "softmax (any number of classes), logreg (two classes; sparse or dense data), linear (regression, or "
     "--loss; sparse or dense data), fm:K, wide-deep:K, "
     "deepfm:K (sparse data), lenet5, lenet-caffe, alexnet, or a list of layers: \"conv 6 5x5 "
     "same, relu, maxpool 2, dense 10\", \"linear + fm 8 + (embed 8, dense 100, relu, dense 1)\""},
    {"loss", "L", TEXT(loss), MODEL, TRAINS, "linear: squared; softmax and networks: softmax; else logistic",
     "logistic, hinge (two classes), softmax, or squared (regression: labels are numbers)"},
    {"class-weight", "LIST", TEXT(class_weight), MODEL, TRAINS, "1",
     "weights of the classes in training, such as 0=1,1=5, or no=1,yes=5 if they have names, multiplied by "
     "those of the examples; balanced: "
     "inversely proportional to the frequencies of the classes"},
    {"data", "SPEC", TEXT(data), MODEL, TRAINS_TEXT, NULL,
     "training data: idx:DIR, tfrecord:GLOB, libsvm:GLOB, libffm:GLOB, vw:GLOB, criteo:GLOB, csv:GLOB, "
     "parquet:GLOB, cifar10:DIR, images:DIR, cache:FILE, synth:digits, synth:ctr, synth:images, or a path; "
     "options follow a '?', as in 'synth:ctr?features=1000&seed=2'; ?split=0.9 reads 90 % of the rows, and "
     "?split=0.9..1 the others"},
    {"test", "SPEC", TEXT(test), MODEL, TRAINS_TEXT, "the test set of idx, cifar10, images and synth data",
     "test data; none: do not evaluate"},
    {"test-examples", "N", INTEGER(test_examples, 0, BIG), MODEL, TRAINS, "all",
     "evaluate on N examples of the test data: a fixed random sample, or the first N of streamed data"},
    {"validation", "PART|SPEC", TEXT(validation), MODEL, TRAINS_TEXT, NULL,
     "data that selects the best model, which eval, predict and Python then use: a fraction of the training "
     "data to hold back, such as 0.1 (by the hash of the row number), last:0.1 for its last rows, or other "
     "data; none: keep the last model"},
    {"warm-start", "RUN", TEXT(warm_start), MODEL, TRAINS, NULL,
     "begin with the parameters and the optimizer state of another run (a run directory: its last "
     "checkpoint; RUN/checkpoints/best or RUN/checkpoints/step-N: that one), or with the parameters in a "
     "model.safetensors file; features that it does not have get initial values"},
    {"features", "N", INTEGER(features, 0, YK_MAX_FEATURES), MODEL, TRAINS,
     "the largest index in the data + 1", "number of columns of sparse data"},
    {"hash-bits", "B", INTEGER(hash_bits, 0, 30), MODEL, TRAINS,
     "16 to 24, by the number of rows, for CSV and Parquet; 24 for Criteo and Vowpal Wabbit text; else not "
     "hashed",
     "hash the keys of sparse data into 2^B features: any 64-bit index in LIBSVM, LIBFFM and TFRecord files "
     "and in CSR arrays (C library, Python); Criteo and Vowpal Wabbit text; CSV; Parquet"},
    {"skip-bad", "N", INTEGER(skip_bad, 0, BIG), MODEL, TRAINS, "0",
     "skip, count and report up to N bad records"},
    {"stream", "WHEN", TEXT_OF("auto, always, never", stream), MODEL, TRAINS, "auto",
     "read the files again in each epoch instead of loading them: auto (if the data does not fit into "
     "memory), always or never"},
    {"shuffle-mb", "MB", INTEGER(shuffle_mb, 1, 1 << 20), MODEL, TRAINS, "32",
     "size of the buffer in which streamed data is shuffled, in MB"},
    {"no-shuffle", NULL, FLAG(no_shuffle), MODEL, TRAINS, NULL,
     "use the examples in the order of the data (approximately, if workers are asynchronous or stream "
     "files)"},
    {"no-bias", NULL, FLAG(no_bias), MODEL, TRAINS, NULL,
     "train a linear model, or the linear part of a model on sparse data, without a bias"},

    {"init", "METHOD", TEXT(init), NETWORK, TRAINS, "he",
     "initial weights: he, glorot, torch (uniform in +-1 / sqrt(fan-in), also for biases), normal:SIGMA "
     "or uniform:LIMIT"},
    {"init-bias", "X", REAL(init_bias, -HUGE_VAL, HUGE_VAL), NETWORK, TRAINS, "0", "initial biases"},
    {"standardize", "METHOD", TEXT(standardize), NETWORK, TRAINS, "none",
     "none (pixels from 0 to 1), image (each image to mean 0 and variance 1), channel (each channel, with "
     "its mean and standard deviation in the training set) or channel:MEAN/DEVIATION,... (with the given "
     "values)"},
    {"augment", "LIST", TEXT(augment), NETWORK, TRAINS, NULL,
     "random changes to training images: flip (left to right), crop:PIXELS (shift by up to PIXELS), or both: "
     "flip,crop:4"},
    {"dry-run", NULL, FLAG(dry_run), NETWORK, SHOWS, NULL,
     "print the layers with shapes, parameters, FLOPs and memory, without training"},
    {"profile", NULL, FLAG(profile), NETWORK, PRINTS, NULL,
     "print the time of each phase (and of each layer of a network) to stderr after the run"},

    {"mode", "MODE", TEXT_OF("sync, async", mode), PARALLEL, TRAINS | YK_OPT_SETS_MODE, "sync",
     "sync (synchronous) or async (asynchronous)"},
    {"staleness", "K", WHOLE_BY_GROUP(NULL, staleness, -1, BIG), PARALLEL, TRAINS | YK_OPT_SETS_MODE,
     "sync: 0; async: no bound",
     "staleness bound: a worker that is more than K steps ahead of the slowest waits before its next step; "
     "0: sync; -1: determined by --mode. keyed=K,dense=K: separate bounds for keyed parameters and for "
     "networks; NAME=K: for one parameter group. If one is 0, all workers take the same steps, and gradients "
     "of groups with other bounds are applied immediately"},
    {"workers", "N|auto", INTEGER_OR("auto", workers, 1, 1024), PARALLEL, TRAINS, "1",
     "worker threads of each process that trains; each trains on its own batches; auto: one per core "
     "(with --threads T: one per T cores)"},
    {"threads", "T", INTEGER(threads, 1, 1024), PARALLEL, TRAINS, "1",
     "threads of each worker, which share the work on each batch; the result does not depend on T; yoke uses "
     "only as many as help; logreg and softmax use one"},

    {"launch", "N", INTEGER(launch, 0, 4096), CLUSTER, LAUNCHES | YK_OPT_STARTS_JOB,
     "the number of processes in --hosts",
     "start N processes on this host, or on the hosts of --hosts; a job can also be started with srun, "
     "torchrun or mpirun; 0: a single process, for example to resume the run of a job in one process"},
    {"hosts", "LIST", TEXT(hosts), CLUSTER, CONNECTS | YK_OPT_STARTS_JOB, "this host",
     "run on these hosts, over ssh: a,b:2 is one process on a and two on b"},
    {"hostfile", "FILE", TEXT(hostfile), CLUSTER, CONNECTS | YK_OPT_STARTS_JOB, NULL,
     "read the hosts from a file, one per line: HOST slots=N"},
    {"agent", "CMD", TEXT(agent), CLUSTER, CONNECTS, "ssh", "program that runs commands on other hosts"},
    {"bind", "POLICY", TEXT_OF("auto, none, numa", bind), CLUSTER, RUNS, "auto",
     "numa: on a host with several NUMA nodes, bind each process to one node or to its share of the nodes; "
     "none: do not bind; auto: numa, unless the launcher has restricted the cores"},
    {"network", "SCOPE", TEXT_OF("local, any", network), CLUSTER, CONNECTS, "any with --hosts, else local",
     "local: only this host can reach the job; any: a worker can --join it from another host"},
    {"servers", "K|all", WHOLE_BY_GROUP("all", servers, 0, 1024), CLUSTER, TRAINS,
     "0 for synchronous training of dense models, else all",
     "K: processes 0 to K-1 are parameter servers and do not train; 0: every process has all parameters "
     "(replicas; models for sparse data are sharded instead); all: every process trains and owns a shard of "
     "the parameters; keyed=K,dense=0: keyed parameters are on K servers, and the network is replicated; "
     "keyed=0,dense=K: the network is on K servers, and the keyed parameters are divided among the processes "
     "that train; NAME=0 or NAME=K places one parameter group; groups without a value are on the K servers. "
     "Only dedicated parameter servers allow workers to be lost or to join without a restart"},
    {"quorum", "M", INTEGER(quorum, 0, 4096), CLUSTER, TRAINS, "all processes",
     "sync: a step uses the gradients of the first M processes; gradients that arrive later are counted and "
     "dropped"},
    {"local-steps", "H", INTEGER(local_steps, 0, BIG), CLUSTER, TRAINS, NULL,
     "local SGD: each process trains independently for H steps, then the parameters are averaged, weighted "
     "by examples; async: 1/N "
     "of the delta of each of N processes is added. --eval-every and --checkpoint-every end a round early, "
     "which "
     "changes results slightly"},
    {"prefetch", "N|auto", INTEGER_OR("auto", prefetch, 0, 2), CLUSTER, TRAINS, "auto",
     "async logistic regression on sparse data, with servers or shards: request N more copies of parameters "
     "before the current one is sent back. 0: copies are fresh, but a worker waits for them; auto: 1, if "
     "--staleness allows it"},
    {"restarts", "R", INTEGER(restarts, 0, 1e6), CLUSTER, LAUNCHES, "0",
     "with --launch or --hosts: if a process is lost, restart the job from its last checkpoint, up to R "
     "times"},
    {"deadline", "S", REAL(deadline, 0.1, 86400), CLUSTER, RUNS, "8",
     "heartbeat timeout: a process is declared lost after S seconds without a heartbeat (async: a worker "
     "after S/2), or later if its steps are long"},
    {"join", "RUN", TEXT(join), CLUSTER, INVOKES | YK_OPT_STARTS_JOB, NULL,
     "join the asynchronous job of this run directory as an additional worker; with --token-file: the job "
     "whose server 0 is at HOST:PORT"},
    {"token-file", "FILE", TEXT(token_file), CLUSTER, INVOKES, NULL,
     "for --join HOST:PORT: a file with the job token, or a copy of RUN/join"},

    {"batch", "B", INTEGER(batch, 1, 1 << 24), STEPS, TRAINS, "64", "examples per worker and step"},
    {"global-batch", "B", INTEGER(global_batch, 1, BIG), STEPS, TRAINS, "batch times workers",
     "examples of all workers together (--quorum M: of M processes), instead of --batch: B / N for each of N "
     "workers; sync: the workers of a process share its part as threads of one worker, if the model can use "
     "--threads"},
    {"epochs", "E", INTEGER(epochs, 1, BIG), STEPS, REPEATS, "1", "number of passes over the data"},
    {"steps", "S", INTEGER(steps, 1, BIG), STEPS, REPEATS, NULL,
     "number of steps, instead of --epochs; async: of all workers together"},
    {"monitor", "METRIC", TEXT(monitor), STEPS, TRAINS, "loss",
     "metric of the --validation data that selects the best model: loss, accuracy, auc, pr_auc, brier, "
     "macro_f1, rmse, r2, or another one that the summary lists in test_metrics"},
    {"patience", "N", INTEGER(patience, 0, BIG), STEPS, TRAINS, "0",
     "end the run after N evaluations of the --validation data without improvement; 0: never"},
    {"min-delta", "X", REAL(min_delta, 0, HUGE_VAL), STEPS, TRAINS, "0",
     "for --patience, only a change of the --monitor metric by more than X is an improvement"},
    {"no-stop-on-divergence", NULL, FLAG(no_stop_on_divergence), STEPS, RUNS, NULL,
     "do not end the run with an error if, after 10 % of the run and 200 steps, the mean training loss of "
     "the last 5 % is more than 1.5 times that of an untrained model"},
    {"seed", "S", INTEGER(seed, 0, BIG), STEPS, REPEATS, "1",
     "seed for the order of the examples and the initial weights (those of linear models are zero)"},

    {"optimizer", "NAME", WORD_BY_GROUP(yk_optim_name, optimizer), UPDATES, TRAINS,
     "sgd; fm, wide-deep, deepfm: keyed=adagrad,dense=adam",
     "sgd, momentum, nesterov, adagrad, rowwise-adagrad (one sum of squares per key), ftrl, adam or adamw "
     "(adam with decoupled weight decay); keyed=NAME,dense=NAME: separate optimizers for keyed parameters "
     "and for networks; individual parameter groups can be named too, for example linear=ftrl,embed=adagrad"},
    {"lr", "X", REAL_BY_GROUP("auto", lr, 0, HUGE_VAL), UPDATES, TRAINS,
     "sgd 0.1, momentum and nesterov 0.01, adagrad and rowwise-adagrad 0.05, adam and adamw 0.001, ftrl 0.1",
     "learning rate; keyed=X,dense=X: separate rates for keyed parameters and for networks; individual "
     "parameter groups can be named too, for example linear=0.1,embed=0.05; auto: chosen by a short search "
     "before training, which takes at most 10 % of the run and 30 s"},
    {"l2", "X", REAL(l2, 0, HUGE_VAL), UPDATES, TRAINS, "0",
     "weight decay: add l2/2 |w|^2 to the mean loss (ftrl: to the sum over steps; adamw: subtract lr l2 w in "
     "each step instead); includes biases"},
    {"l1", "X", REAL(l1, 0, 1e9), UPDATES, TRAINS, "0",
     "add l1 |w| to the mean loss (ftrl: to the sum over steps)"},
    {"momentum", "X", REAL(momentum, 0, 1), UPDATES, TRAINS, "0.9",
     "momentum of --optimizer momentum and nesterov"},
    {"adam-betas", "B1,B2", TEXT(adam_betas), UPDATES, TRAINS, "0.9,0.999",
     "adam and adamw: decay rates of the moving averages of the gradient and of its square"},
    {"epsilon", "X", REAL(epsilon, 0, HUGE_VAL), UPDATES, TRAINS, "adam and adamw 1e-8, others 1e-10",
     "adam, adamw, adagrad and rowwise-adagrad: added to the denominator of a step, a square root"},
    {"clip-norm", "X", REAL(clip_norm, 0, HUGE_VAL), UPDATES, TRAINS, "0: no limit",
     "scale a gradient down if its norm over all parameters exceeds X; sync: the mean gradient of a step; "
     "async and local SGD: that of each worker"},
    {"initial-accumulator", "X", REAL(initial_accumulator, 0, HUGE_VAL), UPDATES, TRAINS,
     "0.0001 for embedding vectors, else 0",
     "adagrad and rowwise-adagrad: initial value of the sums of squared gradients"},
    {"lr-schedule", "S", WORD_BY_GROUP(yk_lr_name, lr_schedule), UPDATES, TRAINS, "constant",
     "learning rate after the warm-up: constant, step (multiply by --lr-decay every --lr-decay-every steps), "
     "inverse (lr / (1 + lr-decay * step)), cosine (to lr-decay * lr at the end of the run), one-cycle (up "
     "from lr / 25 during the warm-up, or 30 % of the run; then down to lr-decay * lr) or plateau (multiply "
     "by --lr-decay if the monitored value has not improved for --lr-patience evaluations); by group, for "
     "example keyed=constant,dense=cosine"},
    {"lr-decay", "X", REAL_BY_GROUP(NULL, lr_decay, 0, HUGE_VAL), UPDATES, TRAINS,
     "step and plateau 0.1, inverse 0.001, cosine 0, one-cycle 0.000004", "see --lr-schedule"},
    {"lr-decay-every", "N", INTEGER(lr_decay_every, 1, BIG), UPDATES, TRAINS, "1000", "see --lr-schedule"},
    {"lr-decay-epochs", "E", REAL(lr_decay_epochs, 0, 1e9), UPDATES, TRAINS, NULL,
     "like --lr-decay-every, in epochs instead of steps; may be a fraction. Not with --quorum"},
    {"lr-patience", "N", INTEGER(lr_patience, 1, BIG), UPDATES, TRAINS, "1",
     "--lr-schedule plateau: evaluations without improvement before the learning rate is reduced"},
    {"warm-up", "N", WHOLE_BY_GROUP(NULL, warm_up, 0, BIG), UPDATES, TRAINS, "0",
     "increase the learning rate linearly during the first N steps; by group, as for --lr"},
    {"warm-up-epochs", "E", REAL_BY_GROUP(NULL, warm_up_epochs, 0, 1e9), UPDATES, TRAINS, NULL,
     "like --warm-up, in epochs instead of steps; may be a fraction. Not with --quorum"},
    {"lr-batch", "B", INTEGER(lr_batch, 1, BIG), UPDATES, TRAINS, NULL,
     "linear scaling: multiply --lr, which was chosen for B examples per step, by the examples per step / B; "
     "needs a warm-up"},
    {"bias-lr", "X", REAL(bias_lr, 0, HUGE_VAL), UPDATES, TRAINS, "1",
     "factor by which the learning rate of biases is multiplied, for dense models"},
    {"bias-decay", "BOOL", TEXT_OF("yes, no", bias_decay), UPDATES, TRAINS, "yes",
     "yes or no: apply --l1 and --l2 to biases of dense models"},

    {"out", "DIR", TEXT(out), OUTPUT, INVOKES, "runs/MODEL-TIME-PID",
     "run directory, for the configuration, metrics and checkpoints; none: write nothing"},
    {"eval-every", "N", INTEGER(eval_every, 0, BIG), OUTPUT, RUNS, "at the end of each epoch",
     "evaluate every N steps; async: of all workers together. Training waits if the previous evaluation is "
     "still running. Without this option, async runs on streams of unknown length are evaluated only at the "
     "end"},
    {"log-every", "N", INTEGER(log_every, 0, BIG), OUTPUT, RUNS, "200 to 2,000 times in a run",
     "write the training loss to metrics.jsonl and TensorBoard every N steps"},
    {"checkpoint-every", "N", INTEGER(checkpoint_every, 0, BIG), OUTPUT, RUNS,
     "every 10 s, or less often to cost at most 1 % of the time",
     "save a checkpoint every N steps; one is always saved at the end"},
    {"resume", NULL, FLAG(resume), OUTPUT, INVOKES, NULL,
     "continue from the last checkpoint in --out, with its configuration; start the run if there is none"},
    {"sample-every", "SECONDS", REAL(sample_every, 0, 3600), OUTPUT, RUNS, "0.25",
     "interval at which CPU, memory, network and disk are sampled; 0: never"},
    {"trace", NULL, FLAG(trace), OUTPUT, RUNS, NULL,
     "write a timeline, trace.json, for ui.perfetto.dev or chrome://tracing"},
    {"tensorboard-workers", NULL, FLAG(tensorboard_workers), OUTPUT, RUNS, NULL,
     "also write TensorBoard events of each worker (in a job, of each process): worker-N/ is a separate run"},
    {"http", "[ADDR:]PORT", TEXT(http), OUTPUT, YK_OPT_IN_SWEEPS | YK_OPT_COMMAND_LINE_ONLY, NULL,
     "serve a live page, and /metrics for Prometheus; only this host can reach it unless ADDR is given; port "
     "0: choose a free port"},
    {"json", NULL, FLAG(json), OUTPUT, PRINTS, NULL,
     "print the results as one JSON object on the last line of stdout"},
    {"quiet", NULL, FLAG(quiet), OUTPUT, PRINTS, NULL,
     "print no notes and no progress to stderr, only warnings and errors"},
    {"config", "FILE", TEXT(config), OUTPUT, INVOKES, NULL,
     "read options from FILE (name = value); options on the command line override them"},
    {NULL}};

const yk_option *yk_option_find(const char *name)
{
    for (const yk_option *o = yk_options; o->name; o++)
        if (strcmp(o->name, name) == 0)
            return o;
    return NULL;
}

const char *yk_option_removed(const char *name)
{
    return strcmp(name, "mpi-options") == 0 ? "yoke no longer starts mpirun; to use MPI, start the job with "
                                              "mpirun ... yoke train ..."
                                            : NULL;
}

yk_status yk_option_require(const char *name, const yk_option **out)
{
    *out = yk_option_find(name);
    if (*out)
        return YK_OK;
    const char *other = yk_suggest(name, yk_options, sizeof *yk_options), *removed = yk_option_removed(name);
    return removed ? yk_fail(YK_EUSAGE, "unknown option %s; %s", name, removed)
           : other ? yk_fail(YK_EUSAGE, "unknown option %s; did you mean %s?", name, other)
                   : yk_fail(YK_EUSAGE, "unknown option %s; yoke train --help lists the options", name);
}

bool yk_option_is_number(const yk_option *o)
{
    return o->kind != YK_OPT_TEXT && o->kind != YK_OPT_WORD_BY_GROUP && o->kind != YK_OPT_FLAG;
}

bool yk_option_is_by_group(const yk_option *o)
{
    return o->kind == YK_OPT_INT_BY_GROUP || o->kind == YK_OPT_REAL_BY_GROUP ||
           o->kind == YK_OPT_WORD_BY_GROUP;
}

size_t yk_option_size(const yk_option *o)
{
    return o->kind == YK_OPT_TEXT     ? sizeof(char *)
           : o->kind == YK_OPT_FLAG   ? sizeof(bool)
           : yk_option_is_by_group(o) ? sizeof(yk_by_group)
           : o->kind == YK_OPT_REAL   ? sizeof(double)
                                      : sizeof(int64_t);
}
