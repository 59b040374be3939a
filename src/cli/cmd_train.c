/* yoke train: its command line. job.h runs it. */
#include "cli/arguments.h"
#include "cli/cli.h"
#include "cli/job.h"
#include "cli/terminal.h"
#include <yoke.h>

static const char notes[] = "Examples:\n"
                            "  yoke train --model softmax --data synth:digits --epochs 5\n"
                            "  yoke train --model softmax --data idx:mnist --batch 200 --lr 0.5 --workers 3\n"
                            "  yoke train --model logreg --data 'tfrecord:day*' --mode async --workers 4\n"
                            "  yoke train --model logreg --data synth:ctr --optimizer ftrl --l1 1e-6\n"
                            "  yoke train --model lenet5 --data idx:mnist --lr 0.05 --epochs 6 --threads 2\n"
                            "  yoke train --model \"conv 8 3x3, relu, dense 10\" --data synth:images\n"
                            "  yoke train --model lenet5 --data idx:mnist --launch 4 --http 8080\n"
                            "  yoke train --model logreg --data synth:ctr --mode async --hosts a,b:2\n"
                            "  yoke train --join runs/clicks\n"
                            "  yoke train --out runs/clicks --resume\n"
                            "\n"
                            "Numbers may be written as 1e6, 100k or 2m. Ctrl-C saves a checkpoint and ends\n"
                            "the run, in all processes; a second Ctrl-C ends it immediately.";

/* The options are those of the library. */
static void parse(int argc, char **argv, yoke_options *options)
{
    yk_argument table[YK_MAX_ARGUMENTS + 1] = {{NULL}};
    yoke_option o;
    for (size_t i = 0; i < YK_MAX_ARGUMENTS && yoke_option_at(i, &o); i++)
        table[i] = (yk_argument){.name = o.name,
                                 .value = o.argument,
                                 .help = o.help,
                                 .default_text = o.default_text,
                                 .set = yk_argument_option,
                                 .to = options,
                                 .group = o.group};
    const yk_command_line line = {"yoke train",
                                  "[OPTION...]",
                                  "Train a model.",
                                  table,
                                  .unexpected = "options begin with --; use --data to specify the data",
                                  .notes = notes};
    yk_arguments_parse(&line, argc, argv);
}

int yk_cmd_train(int argc, char **argv)
{
    yoke_options *options = yoke_options_create();
    if (!options)
        return YOKE_SYSTEM_ERROR;
    parse(argc, argv, options);
    signal(SIGPIPE, SIG_IGN); /* if nobody reads the results, writing them fails */
    yk_terminal_quiet(yoke_options_get(options, "quiet"));
    const int code = yk_job(options, argc, argv);
    yoke_options_free(options);
    return code;
}
