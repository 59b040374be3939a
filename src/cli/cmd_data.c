/* yoke data: gen and convert write a source to a file, inspect looks at one. */
#include "cli/cli.h"

#include "base/clock.h"
#include "base/log.h"
#include "cli/arguments.h"
#include "cli/show_inspection.h"
#include "cli/terminal.h"
#include "data/export.h"
#include "data/inspect.h"
#include "data/spec.h"
#include <argp.h>
#include <errno.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

enum { FORMAT = 1000, SPLIT, FEATURES, HASH_BITS, SKIP_BAD, FIRST, JSON, QUIET };

typedef struct {
    const char *spec, *out, *format;
    yk_split split;
    yk_source_options source;
    size_t first;
    bool json, to_file;
} arguments;

/* ---- options */

#define SPLIT_OPTION                                                                                         \
    {                                                                                                        \
        "split", SPLIT, "HALF", 0, "train (the default) or test, of data that has both", 0                   \
    }
#define OUT_OPTIONS                                                                                          \
    {"out", 'o', "FILE", 0, "write FILE; it appears when it is complete", 0},                                \
    {                                                                                                        \
        "format", FORMAT, "FORMAT", 0,                                                                       \
            "tfrecord, libsvm, libffm or cache (binary, loads at once); else by FILE's ending, else cache",  \
            0                                                                                                \
    }
#define READ_OPTIONS                                                                                         \
    {"features", FEATURES, "N", 0, "columns of the data (as for yoke train)", 0},                            \
        {"hash-bits", HASH_BITS, "B", 0, "hash sparse keys into 2^B columns", 0},                            \
    {                                                                                                        \
        "skip-bad", SKIP_BAD, "N", 0, "skip and count up to N bad records", 0                                \
    }
#define SAY_OPTIONS                                                                                          \
    {"json", JSON, NULL, 0, "the results as one JSON object", 0},                                            \
    {                                                                                                        \
        "quiet", QUIET, NULL, 0, "no progress line", 0                                                       \
    }

static const struct argp_option gen_options[] = {OUT_OPTIONS, SPLIT_OPTION, SAY_OPTIONS, {0}};
static const struct argp_option convert_options[] = {
    OUT_OPTIONS, SPLIT_OPTION, READ_OPTIONS, SAY_OPTIONS, {0}};
static const struct argp_option inspect_options[] = {
    {"first", FIRST, "N", 0, "show the first N records (3)", 0},
    SPLIT_OPTION,
    READ_OPTIONS,
    SAY_OPTIONS,
    {0}};

static error_t parse(int key, char *arg, struct argp_state *state)
{
    arguments *a = state->input;
    switch (key) {
    case 'o':
        a->out = arg;
        return 0;
    case FORMAT:
        a->format = arg;
        return 0;
    case SPLIT:
        a->split = yk_argument_split(state, arg);
        return 0;
    case FEATURES:
        a->source.features = yk_argument_whole(state, "features", arg, 1, INT32_MAX - 1);
        return 0;
    case HASH_BITS:
        a->source.hash_bits = (unsigned)yk_argument_whole(state, "hash-bits", arg, 1, 30);
        return 0;
    case SKIP_BAD:
        a->source.skip_bad = yk_argument_whole(state, "skip-bad", arg, 0, 1e15);
        return 0;
    case FIRST:
        a->first = (size_t)yk_argument_whole(state, "first", arg, 0, 1e6);
        return 0;
    case JSON:
        a->json = true;
        return 0;
    case QUIET:
        yk_terminal_quiet(true);
        return 0;
    case ARGP_KEY_ARG:
        if (a->spec)
            argp_error(state, "what is '%s'? one data set at a time: %s was given already (quote patterns)",
                       arg, a->spec);
        a->spec = arg;
        return 0;
    case ARGP_KEY_END:
        if (!a->spec)
            argp_error(state, "which data? for instance synth:digits, 'tfrecord:clicks/part-*' or a path");
        if (a->to_file && !a->out)
            argp_error(state, "--out FILE is missing: where to write");
        return 0;
    default:
        return ARGP_ERR_UNKNOWN;
    }
}

/* ---- reading under watch: a progress line, and Ctrl-C */

/* Stands between a source and whoever reads it. There is one command in a process, and one source in that. */
static struct {
    yk_source_ops ops; /* the source's, but for next() */
    yk_status (*next)(yk_reader *r, yk_rows *rows, size_t max, size_t *got_out);
    const char *doing;
    uint64_t examples;
    size_t block;
    int reading, readings;
    double shown;
} watch;

static void show_progress(const yk_reader *r)
{
    double now = yk_now();
    if (r->block < watch.block) { /* from the beginning again */
        watch.reading++;
        watch.examples = 0;
    }
    watch.block = r->block;
    if (now - watch.shown < 0.2)
        return;
    watch.shown = now;
    char reading[32] = "";
    if (watch.readings > 1)
        snprintf(reading, sizeof reading, ", reading %d of %d", watch.reading, watch.readings);
    yk_progress("%s: %.0f %%%s, %llu examples", watch.doing,
                100.0 * (double)(r->block + 1) / (double)r->source->nblocks, reading,
                (unsigned long long)watch.examples);
}

static yk_status next_watched(yk_reader *r, yk_rows *rows, size_t max, size_t *got_out)
{
    if (yk_cli_stop)
        return yk_fail(YK_ESTOP, "stopped by a signal while %s; no file was changed", watch.doing);
    yk_status st = watch.next(r, rows, max, got_out);
    watch.examples += *got_out;
    if (!st && yk_progress_wanted())
        show_progress(r);
    return st;
}

static yk_status open_watched(const arguments *a, const char *doing, int readings, yk_source **out)
{
    yk_source *s = NULL;
    yk_source_options options = a->source;
    options.fields = YK_FIELDS_STORED;
    yk_status st = yk_source_open(a->spec, a->split, &options, &s);
    if (st)
        return st;
    if (a->split == YK_SPLIT_TEST && !yk_source_has_test_split(s)) {
        yk_source_free(s);
        return yk_fail(YK_EUSAGE, "%s: this data has no test half of its own: leave out --split test",
                       a->spec);
    }
    watch.ops = *s->ops;
    watch.next = s->ops->next;
    watch.ops.next = next_watched;
    watch.doing = doing;
    watch.reading = 1;
    watch.readings = readings;
    watch.shown = yk_now() + 0.3; /* what is over at once needs no progress */
    s->ops = &watch.ops;
    *out = s;
    return YK_OK;
}

/* ---- gen and convert */

static bool ends_in(const char *s, const char *ending)
{
    size_t n = strlen(s), m = strlen(ending);
    return n > m && strcmp(s + n - m, ending) == 0;
}

static yk_status choose_format(arguments *a)
{
    static const struct {
        const char *ending, *format;
    } known[] = {{".tfrecord", "tfrecord"}, {".tfrecords", "tfrecord"}, {".libsvm", "libsvm"},
                 {".svm", "libsvm"},        {".svmlight", "libsvm"},    {".libffm", "libffm"},
                 {".ffm", "libffm"},        {".cache", "cache"}};
    if (ends_in(a->out, ".gz"))
        return yk_fail(YK_EUSAGE,
                       "%s: files are not written compressed: leave out .gz and run gzip on the result",
                       a->out);
    for (size_t i = 0; !a->format && i < sizeof known / sizeof *known; i++)
        if (ends_in(a->out, known[i].ending))
            a->format = known[i].format;
    a->format = a->format ? a->format : "cache";
    if (strcmp(a->format, "tfrecord") && strcmp(a->format, "libsvm") && strcmp(a->format, "libffm") &&
        strcmp(a->format, "cache"))
        return yk_fail(YK_EUSAGE, "--format %s: that cannot be written; the formats are %s", a->format,
                       yk_export_formats());
    return YK_OK;
}

static yk_status print_written_json(const arguments *a, const yk_export_stats *e, uint64_t bad,
                                    double seconds, double rate)
{
    yk_json j = {0};
    yk_json_object(&j, NULL);
    YK_JSON_TEXTS(&j, {"data", a->spec}, {"split", a->split == YK_SPLIT_TEST ? "test" : "train"},
                  {"out", a->out}, {"format", a->format});
    YK_JSON_WHOLES(&j, {"examples", e->examples}, {"entries", e->entries}, {"columns", e->dim},
                   {"classes", e->classes}, {"bytes", e->bytes}, {"bad_records", bad});
    YK_JSON_REALS(&j, {"seconds", seconds}, {"bytes_per_second", rate});
    yk_json_end(&j);
    return yk_json_print(&j);
}

static yk_status print_written(const arguments *a, const yk_source *s, const yk_export_stats *e,
                               double seconds)
{
    double rate = (double)e->bytes / fmax(seconds, 1e-9);
    uint64_t bad = atomic_load(&s->bad);
    if (a->json)
        return print_written_json(a, e, bad, seconds, rate);
    char size[24];
    printf("%s: %llu examples, %llu entries, %llu columns, %u classes, as %s\n", a->out,
           (unsigned long long)e->examples, (unsigned long long)e->entries, (unsigned long long)e->dim,
           e->classes, a->format);
    printf("%s in %.2f s, %.1f MB/s\n", yk_bytes_text(e->bytes, size), seconds, rate * 1e-6);
    if (bad)
        printf("%llu bad record%s skipped\n", (unsigned long long)bad, bad == 1 ? " was" : "s were");
    return fflush(stdout) || ferror(stdout)
               ? yk_fail(YK_ESYSTEM, "the results could not be written to stdout: %s", strerror(errno))
               : YK_OK;
}

/* A pipe or a device is written as it comes; where that is stdout, nothing else may go there. */
static bool is_stream(const char *path)
{
    struct stat st;
    return stat(path, &st) == 0 && !S_ISREG(st.st_mode);
}

static void on_signal(int signal)
{
    yk_cli_stop = signal;
}

/* A signal while a file is written: the unfinished one is removed. A second one ends the program at once. */
static void heed_signals(void)
{
    struct sigaction action = {.sa_handler = on_signal, .sa_flags = (int)(SA_RESETHAND | SA_RESTART)};
    sigaction(SIGINT, &action, NULL);
    sigaction(SIGTERM, &action, NULL);
}

static yk_status write_file(arguments *a, const char *doing)
{
    double begun = yk_now();
    bool stream = is_stream(a->out);
    yk_source *s = NULL;
    yk_export_stats written;
    yk_status st = choose_format(a);
    if (!st)
        st = open_watched(a, doing, strcmp(a->format, "cache") ? 1 : 2, &s);
    if (st)
        return st;
    heed_signals();
    st = yk_export(s, a->format, a->out, &written);
    yk_progress_end();
    if (!st && stream)
        yk_note("%s: %llu examples written", a->out, (unsigned long long)written.examples);
    else if (!st)
        st = print_written(a, s, &written, yk_now() - begun);
    yk_source_free(s);
    return st;
}

static yk_status generate(arguments *a)
{
    yk_spec spec;
    yk_status st = yk_spec_parse(a->spec, &spec);
    if (st)
        return st;
    if (strcmp(spec.format, "synth"))
        st = yk_fail(YK_EUSAGE,
                     "%s is not generated data (synth:digits, synth:ctr); for data that is there already: "
                     "yoke data convert '%s' --out %s",
                     a->spec, a->spec, a->out);
    yk_spec_fini(&spec);
    return st ? st : write_file(a, "generating");
}

static yk_status convert(arguments *a)
{
    return write_file(a, "converting");
}

/* ---- inspect */

static yk_status inspect(arguments *a)
{
    yk_source *s = NULL;
    yk_inspection i;
    yk_status st = open_watched(a, "reading", 1, &s);
    if (st)
        return st;
    st = yk_inspect(s, a->split, a->first, &i);
    yk_progress_end();
    yk_source_free(s);
    if (st)
        return st;
    st = a->json ? yk_inspection_print_json(a->spec, &i) : yk_inspection_print(a->spec, &i);
    yk_inspection_fini(&i);
    return st;
}

/* ---- the command */

static const char help[] = "yoke data makes, converts and looks at data sets.\n"
                           "\n"
                           "  yoke data gen SPEC --out FILE       generated data as a file    yoke data gen "
                           "synth:digits --out digits.cache\n"
                           "  yoke data convert SPEC --out FILE   data in another format      yoke data "
                           "convert clicks.txt --out clicks.cache\n"
                           "  yoke data inspect SPEC              what is in it               yoke data "
                           "inspect 'tfrecord:clicks/part-*'\n"
                           "\n"
                           "A SPEC is format:where?key=value&key=value, or a path whose content tells the "
                           "format. Formats: idx, tfrecord,\n"
                           "libsvm, libffm, criteo, cache, synth. Each of the three has --help.\n";

static const struct {
    const char *name;
    char title[24];
    bool to_file;
    yk_status (*run)(arguments *a);
    struct argp argp;
} verbs[] = {
    {"gen",
     "yoke data gen",
     true,
     generate,
     {gen_options, parse, "SPEC",
      "Write generated data to a file.\v"
      "Examples:\n"
      "  yoke data gen synth:digits --out digits.cache\n"
      "  yoke data gen synth:digits --split test --out digits-test.libsvm\n"
      "  yoke data gen 'synth:ctr?features=1000&nnz=20&seed=7' --out clicks.tfrecord\n"
      "\n"
      "The same spec gives the same bytes everywhere. Training on synth:... directly needs no file.",
      NULL, NULL, NULL}},
    {"convert",
     "yoke data convert",
     true,
     convert,
     {convert_options, parse, "SPEC",
      "Write any data in another format.\v"
      "Examples:\n"
      "  yoke data convert idx:mnist --out mnist.cache\n"
      "  yoke data convert idx:mnist --split test --out mnist-test.cache\n"
      "  yoke data convert 'criteo:day_*.gz' --hash-bits 24 --out clicks.cache\n"
      "  yoke data convert clicks.libsvm --out clicks.tfrecord --skip-bad 100\n"
      "\n"
      "A cache keeps everything and loads by mapping it into memory. The others hold sparse rows: of images "
      "only the "
      "pixels that are not zero are written.",
      NULL, NULL, NULL}},
    {"inspect",
     "yoke data inspect",
     false,
     inspect,
     {inspect_options, parse, "SPEC",
      "Read all of a data set and say what is in it: classes and their shares, the range of values and "
      "features, how "
      "many entries examples have, how unevenly features occur, the first records.\v"
      "Examples:\n"
      "  yoke data inspect idx:mnist --first 6\n"
      "  yoke data inspect 'tfrecord:clicks/part-*'\n"
      "  yoke data inspect clicks.txt --hash-bits 22 --skip-bad 1000\n"
      "  yoke data inspect clicks.cache --json | jq .majority_share\n"
      "\n"
      "A cache is also verified: a wrong checksum ends with status 3.",
      NULL, NULL, NULL}},
};

int yk_cmd_data(int argc, char **argv)
{
    const char *verb = argc > 1 ? argv[1] : "";
    for (size_t i = 0; i < sizeof verbs / sizeof *verbs; i++) {
        if (strcmp(verb, verbs[i].name))
            continue;
        char name[sizeof verbs[i].title];
        memcpy(name, verbs[i].title, sizeof name);
        argv[1] = name; /* what argp calls the program */
        arguments a = {.first = 3, .to_file = verbs[i].to_file};
        argp_parse(&verbs[i].argp, argc - 1, argv + 1, 0, NULL, &a);
        return yk_cli_exit(verbs[i].run(&a));
    }
    if (argc < 2 || strcmp(verb, "help") == 0 || strcmp(verb, "--help") == 0 || strcmp(verb, "-h") == 0) {
        fputs(help, argc < 2 ? stderr : stdout);
        return argc < 2 ? yk_status_exit(YK_EUSAGE) : 0;
    }
    return yk_cli_exit(
        yk_fail(YK_EUSAGE, "yoke data %s: there is no such verb; there are: gen, convert, inspect", verb));
}
