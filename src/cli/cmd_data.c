/* yoke data: gen and convert write a source to a file, inspect describes it. */
#include "cli/cli.h"

#include "base/clock.h"
#include "base/log.h"
#include "base/suggest.h"
#include "cli/arguments.h"
#include "data/export.h"
#include "data/spec.h"
#include "lib/internal.h"
#include <fnmatch.h>
#include <math.h>
#include <stdio.h>
#include <string.h>

typedef struct {
    char *spec;
    const char *out, *format;
    yoke_split split;
    int64_t features, hash_bits, skip_bad, first;
    bool json, regression;
} arguments;

/* ---- reading with a progress line and Ctrl-C */

/* Wraps next() of a source. A process runs one command, which reads one source. */
static struct {
    yk_next *next;
    const char *doing; /* "reading" */
    uint64_t examples;
    size_t block;
    int pass, passes;
    double shown; /* when the progress line was last printed */
} watch;

static void show_progress(const yk_reader *r)
{
    double now = yk_now();
    if (r->block < watch.block) { /* the source is read again */
        watch.pass++;
        watch.examples = 0;
    }
    watch.block = r->block;
    if (now - watch.shown < 0.2)
        return;
    watch.shown = now;
    char pass[32] = "";
    if (watch.passes > 1)
        snprintf(pass, sizeof pass, ", pass %d of %d", watch.pass, watch.passes);
    yk_progress("%s: %.0f %%%s, %llu examples", watch.doing,
                100.0 * (double)(r->block + 1) / (double)r->source->nblocks, pass,
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

static yk_split split_of(const arguments *a)
{
    return a->split == YOKE_TEST_SPLIT ? YK_SPLIT_TEST : YK_SPLIT_TRAIN;
}

static yk_status open_watched(const arguments *a, int passes, bool inspects, yk_source **out)
{
    yk_source *s = NULL;
    const bool ffm = a->format && !strcmp(a->format, "libffm"); /* its entries have fields anyway */
    const yk_source_options options = {.features = (uint64_t)a->features,
                                       .hash_bits = (unsigned)a->hash_bits,
                                       .skip_bad = (uint64_t)a->skip_bad,
                                       .numbers = a->regression,
                                       .inspects = inspects,
                                       .bits_from_rows = inspects, /* converted files need equal numbers */
                                       .carry = inspects ? "*" : NULL,
                                       .fields = ffm ? YK_FIELDS_ALL : YK_FIELDS_STORED};
    yk_status st = yk_source_open(a->spec, split_of(a), &options, &s);
    if (!st)
        st = yk_source_check_keys(s, &options);
    if (!st && a->split == YOKE_TEST_SPLIT && !s->has_test)
        st = yk_fail(YK_EUSAGE, "%s: this data has no test set; leave out --split test", a->spec);
    if (st) {
        yk_source_free(s);
        return st;
    }
    watch.next = s->next;
    s->next = next_watched;
    watch.pass = 1;
    watch.passes = passes;
    watch.shown = yk_now() + 0.3; /* a short command needs no progress line */
    *out = s;
    return YK_OK;
}

/* ---- gen and convert */

static yk_status choose_format(arguments *a)
{
    static const struct {
        const char *names, *format;
    } known[] = {{"?*.tfrecord", "tfrecord"}, {"?*.tfrecords", "tfrecord"}, {"?*.libsvm", "libsvm"},
                 {"?*.svm", "libsvm"},        {"?*.svmlight", "libsvm"},    {"?*.libffm", "libffm"},
                 {"?*.ffm", "libffm"},        {"?*.cache", "cache"},        {"?*.bin", "cache"}};
    if (!fnmatch("?*.gz", a->out, 0))
        return yk_fail(YK_EUSAGE,
                       "%s: cannot write compressed files; leave out .gz and run gzip on the result", a->out);
    for (size_t i = 0; !a->format && i < sizeof known / sizeof *known; i++)
        if (!fnmatch(known[i].names, a->out, 0))
            a->format = known[i].format;
    if (a->format)
        return YK_OK;
    return yk_fail(
        YK_EUSAGE,
        "%s: the extension is not that of an output format; use .cache, .tfrecord, .libsvm or .libffm, "
        "or add --format FORMAT",
        a->out);
}

static yk_status print_written(const arguments *a, const yk_source *s, const yk_export_stats *e,
                               double seconds)
{
    double rate = (double)e->bytes / fmax(seconds, 1e-9);
    uint64_t bad = atomic_load(&s->bad);
    if (a->json) {
        yk_json j = {0};
        YK_JSON(&j, YK_OBJECT(NULL), YK_TEXT("data", a->spec),
                YK_TEXT("split", a->split == YOKE_TEST_SPLIT ? "test" : "train"), YK_TEXT("out", a->out),
                YK_TEXT("format", a->format), YK_INT("examples", e->examples), YK_INT("entries", e->entries),
                YK_INT("columns", e->dim), YK_INT("classes", e->classes), YK_INT("bytes", e->bytes),
                YK_INT("bad_records", bad), YK_REAL("seconds", seconds), YK_REAL("bytes_per_second", rate),
                YK_END);
        return yk_cli_print_json(&j);
    }
    char size[24];
    printf("%s: %llu example%s, %llu entr%s, %llu column%s, %u class%s, as %s\n", a->out,
           (unsigned long long)e->examples, yk_plural(e->examples), (unsigned long long)e->entries,
           e->entries == 1 ? "y" : "ies", (unsigned long long)e->dim, yk_plural(e->dim), e->classes,
           e->classes == 1 ? "" : "es", a->format);
    printf("%s in %.2f s, %.1f MB/s\n", yk_bytes_text((double)e->bytes, size), seconds, rate * 1e-6);
    if (bad)
        printf("%llu bad record%s skipped\n", (unsigned long long)bad, yk_plural(bad));
    return yk_cli_flush();
}

static yk_status convert(arguments *a)
{
    double begun = yk_now();
    const bool stream = yk_file_is_stream(a->out); /* perhaps stdout: the results are not printed there */
    yk_source *s = NULL;
    yk_export_stats written;
    yk_status st = choose_format(a);
    if (!st)
        st = open_watched(a, strcmp(a->format, "cache") ? 1 : 2, false, &s);
    if (st)
        return st;
    yk_cli_catch_signals(); /* a signal removes the unfinished file */
    st = yk_export(s, a->format, a->out, &written);
    yk_progress_end();
    if (!st && stream)
        yk_note("%s: %llu example%s written", a->out, (unsigned long long)written.examples,
                yk_plural(written.examples));
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
                     "%s is not generated data (synth:digits, synth:ctr, synth:images); to convert existing "
                     "data: yoke data convert '%s' --out %s",
                     a->spec, a->spec, a->out);
    yk_spec_fini(&spec);
    return st ? st : convert(a);
}

/* ---- inspect */

static yk_status inspect(arguments *a)
{
    yk_source *s = NULL;
    yk_inspection i;
    yk_status st = open_watched(a, 1, true, &s);
    if (st)
        return st;
    st = yk_inspect(s, split_of(a), (size_t)a->first, &i);
    yk_progress_end();
    if (!st)
        st = (a->json ? yk_inspection_print_json : yk_inspection_print)(a->spec, &i);
    yk_inspection_fini(&i);
    yk_source_free(s);
    return st;
}

/* ---- the command */

static const char help[] = "yoke data generates, converts and inspects data sets.\n"
                           "\n"
                           "  yoke data gen SPEC --out FILE      write generated data to a file\n"
                           "  yoke data convert SPEC --out FILE  write data in another format\n"
                           "  yoke data inspect SPEC             print statistics and the first records\n"
                           "\n"
                           "A SPEC is FORMAT:PATH?NAME=VALUE&NAME=VALUE, or a path; yoke then detects the\n"
                           "format from the content.\n"
                           "Formats: idx, tfrecord, libsvm, libffm, vw, criteo, csv, parquet, cifar10,\n"
                           "images, cache, synth.\n"
                           "\n"
                           "Examples:\n"
                           "  yoke data gen synth:digits --out digits.cache\n"
                           "  yoke data convert clicks.txt --out clicks.cache\n"
                           "  yoke data inspect 'tfrecord:clicks/part-*'\n"
                           "\n"
                           "yoke data COMMAND --help lists the options of a command.\n";

enum { WRITES = 1, READS_FILES = 2, INSPECTS = 4 };

static const struct {
    const char *name, *doing, *title, *summary;
    int options;
    yk_status (*run)(arguments *a);
    const char *notes;
} verbs[] = {{"gen", "generating", "yoke data gen", "Write generated data to a file.", WRITES, generate,
              "Examples:\n"
              "  yoke data gen synth:digits --out digits.cache\n"
              "  yoke data gen synth:digits --split test --out digits-test.libsvm\n"
              "  yoke data gen 'synth:ctr?features=1000&nnz=20&seed=7' --out clicks.tfrecord\n"
              "\n"
              "The same SPEC gives the same bytes on every platform. yoke train can use synth:\n"
              "data without a file."},
             {"convert", "converting", "yoke data convert", "Write data in another format.",
              WRITES | READS_FILES, convert,
              "Examples:\n"
              "  yoke data convert idx:mnist --out mnist.cache\n"
              "  yoke data convert idx:mnist --split test --out mnist-test.cache\n"
              "  yoke data convert 'criteo:day_*.gz' --hash-bits 24 --out clicks.cache\n"
              "  yoke data convert clicks.libsvm --out clicks.tfrecord --skip-bad 100\n"
              "\n"
              "A cache keeps all information and is mapped into memory. The other formats\n"
              "contain sparse rows; for images, only the non-zero pixels."},
             {"inspect", "reading", "yoke data inspect",
              "Read a whole data set and print statistics: classes, ranges of values and\n"
              "features, entries per example, the most frequent features, the first records.",
              READS_FILES | INSPECTS, inspect,
              "Examples:\n"
              "  yoke data inspect idx:mnist --first 6\n"
              "  yoke data inspect 'tfrecord:clicks/part-*'\n"
              "  yoke data inspect clicks.txt --hash-bits 22 --skip-bad 1000\n"
              "  yoke data inspect clicks.cache --json | jq .majority_share\n"
              "\n"
              "For a cache, all checksums are verified; if one is wrong, the exit status is 3."},
             {NULL}};

static void parse(size_t verb, int argc, char **argv, arguments *a)
{
    const int own = verbs[verb].options;
    const yk_argument table[] = {
        {"out", 'o', "FILE", yk_argument_text, &a->out,
         "output file; it appears under this name when it is complete", .of = WRITES},
        {"format", 0, "FORMAT", yk_argument_text, &a->format, "tfrecord, libsvm, libffm or cache",
         "from the extension of FILE", .of = WRITES},
        {"first", 0, "N", yk_argument_int, &a->first, "number of records to print", "3", 0, 1e6,
         .of = INSPECTS},
        {"split", 0, "SPLIT", yk_argument_split, &a->split,
         "train or test, for data that has both; ?split=0.9 in SPEC selects rows", "train"},
        {"features", 0, "N", yk_argument_int, &a->features, "number of columns of sparse data",
         "the largest index in the data + 1", 1, INT32_MAX - 1, .of = READS_FILES},
        {"hash-bits", 0, "B", yk_argument_int, &a->hash_bits, "hash sparse keys into 2^B columns",
         "24 for Criteo and Vowpal Wabbit text, CSV and Parquet, else not hashed", 1, 30, .of = READS_FILES},
        {"skip-bad", 0, "N", yk_argument_int, &a->skip_bad, "skip and count up to N bad records", "0", 0,
         1e15, .of = READS_FILES},
        {"regression", 0, NULL, yk_argument_flag, &a->regression,
         "labels are numbers, as for yoke train --loss squared", .of = READS_FILES},
        {"json", 0, NULL, yk_argument_flag, &a->json, "print the results as one JSON object"},
        {"quiet", 0, NULL, yk_argument_quiet, NULL, "do not print progress"},
        {NULL}};
    const yk_command_line line = {.name = verbs[verb].title,
                                  .usage = own & WRITES ? "SPEC --out FILE [OPTION...]" : "SPEC [OPTION...]",
                                  .summary = verbs[verb].summary,
                                  .table = table,
                                  .operand = &a->spec,
                                  .operands = 1,
                                  .unexpected = "expected one SPEC; quote patterns such as 'part-*'",
                                  .notes = verbs[verb].notes,
                                  .command = own};
    if (!yk_arguments_parse(&line, argc, argv))
        yk_usage_error("SPEC is missing; examples: synth:digits, 'tfrecord:clicks/part-*', or a path");
    if ((own & WRITES) && !a->out)
        yk_usage_error("--out FILE is missing");
}

int yk_cmd_data(int argc, char **argv)
{
    const char *verb = argc > 1 ? argv[1] : "";
    for (size_t i = 0; verbs[i].name; i++) {
        if (strcmp(verb, verbs[i].name))
            continue;
        arguments a = {.first = 3};
        watch.doing = verbs[i].doing;
        parse(i, argc - 1, argv + 1, &a);
        return yk_cli_exit(verbs[i].run(&a));
    }
    if (argc < 2 || strcmp(verb, "help") == 0 || strcmp(verb, "--help") == 0 || strcmp(verb, "-h") == 0) {
        fputs(help, argc < 2 ? stderr : stdout);
        return argc < 2 ? yk_status_exit(YK_EUSAGE) : yk_cli_exit(yk_cli_flush());
    }
    const char *other = yk_suggest(verb, verbs, sizeof *verbs);
    return yk_cli_exit(
        other ? yk_fail(YK_EUSAGE, "unknown command data %s; did you mean %s?", verb, other)
              : yk_fail(YK_EUSAGE, "unknown command data %s; the commands are gen, convert, inspect", verb));
}
