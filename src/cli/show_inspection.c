/* Prints an inspection (data/inspect.h). The text ends with the first records. Images up to 32 pixels wide are drawn, other records
 * are listed. */
#include "cli/cli.h"

#include "data/text.h"
#include "lib/internal.h"
#include <math.h>
#include <stdio.h>
#include <string.h>

#define BARS          16
#define BAR_WIDTH     40
#define CLASSES_SHOWN 20
#define LEADERS_SHOWN 5
#define VALUES_SHOWN  12 /* of a record */
#define MAX_DRAWN     32 /* pixels in width */
#define PAGE_WIDTH    100

#define LABEL "%-16s"

typedef unsigned long long ull; /* for %llu */

static double share(uint64_t part, uint64_t whole)
{
    return whole ? (double)part / (double)whole : 0.0;
}

static void print_hashes(uint64_t n, uint64_t max)
{
    /* at least one if n > 0 */
    int hashes = n ? 1 + (int)(share(n, max) * (BAR_WIDTH - 1) + 0.5) : 0;
    printf("%.*s", hashes, "########################################");
}

/* ---- text ---- */

static void print_origin(const char *spec, const yk_inspection *i)
{
    char size[24];
    printf(LABEL "%s\n", "data", spec);
    printf(LABEL "%s", "format", i->source->ops->name);
    if (i->source->files.n)
        printf(", %llu file%s, %s on disk", (ull)i->source->files.n, yk_plural(i->source->files.n),
               yk_bytes_text((double)i->source->files.bytes, size));
    if (i->verified)
        printf(", all checksums match");
    if (i->source->has_test)
        printf("; %s set", i->split == YK_SPLIT_TEST ? "test" : "training");
    printf("\n" LABEL "%llu", "examples", (ull)i->examples);
    if (i->bad)
        printf(", %llu bad record%s skipped", (ull)i->bad, yk_plural(i->bad));
    printf("\n");
    if (i->has_truth)
        printf(LABEL "known for each example, because the data is generated\n", "probabilities");
}

static void print_classes(const yk_inspection *i)
{
    uint64_t max = i->class_count[i->majority];
    if (i->numbers)
        printf(LABEL "numbers from %.6g to %.6g, mean %.6g\n", "labels", i->label_min, i->label_max,
               i->label_mean);
    else if (!i->classes)
        printf(LABEL "not known: no column is the label\n", "classes");
    if (!i->classes)
        return;
    printf(LABEL "%zu\n", "classes", i->classes);
    for (size_t c = 0; c < i->classes && c < CLASSES_SHOWN; c++) {
        printf("  %12zu  %10llu  %6.2f %%  ", c, (ull)i->class_count[c],
               100.0 * share(i->class_count[c], i->examples));
        print_hashes(i->class_count[c], max);
        printf("\n");
    }
    if (i->classes > CLASSES_SHOWN)
        printf("  and %zu more class%s\n", i->classes - CLASSES_SHOWN,
               i->classes - CLASSES_SHOWN == 1 ? "" : "es");
    printf("always predicting class %zu: accuracy %.2f %%\n", i->majority, 100.0 * share(max, i->examples));
}

/* Without a header, its number. */
static const char *name_of(const yk_schema *s, size_t column, char number[24])
{
    snprintf(number, 24, "%zu", column + 1);
    return s->header ? s->column[column].name : number;
}

static void print_table(const yk_inspection *i)
{
    const yk_schema *s = i->source->schema;
    yk_text rows = {0}, all = {0};
    char text[48], number[24];
    if (i->examples > YK_INSPECT_ROWS)
        printf("columns, with missing and distinct values of the first %d rows:\n", YK_INSPECT_ROWS);
    yk_text_add(&rows, "column\trole\ttype\tmissing\tdistinct\tvalues\n");
    for (size_t k = 0; k < i->ntable; k++) {
        const yk_inspected_column *c = &i->table[k];
        const char *name = name_of(s, k, number);
        yk_text_print(&rows, "%s\t%s\t%s\t%llu\t%llu\t", yk__text_show(name, strlen(name), text),
                      yk_column_role_name[s->column[k].role], c->type, (ull)c->missing, (ull)c->seen.n);
        for (size_t e = 0; e < YK_INSPECT_EXAMPLES && c->example[e]; e++)
            yk_text_print(&rows, "%s%s", e ? ", " : "",
                          yk__text_show(c->example[e], strlen(c->example[e]), text));
        yk_text_add(&rows, c->seen.n > YK_INSPECT_EXAMPLES ? ", ...\n" : "\n");
    }
    yk_text_columns(&all, &rows, "<<<>><");
    fputs(all.s ? all.s : "", stdout);
    yk_text_fini(&all);
}

static void print_dense(const yk_inspection *i)
{
    printf(LABEL, "shape");
    if (i->source->height)
        printf("%zu x %zu pixels%s, ", i->source->height, i->source->width,
               i->source->channels == 3 ? ", 3 colors" : "");
    printf("%zu value%s per example, %s\n", i->columns, yk_plural(i->columns),
           i->source->kind == YK_ROWS_U8 ? "bytes" : "floats");
    printf(LABEL "from %.6g to %.6g, mean %.6g, standard deviation %.6g, %.1f %% zeros\n", "values", i->min,
           i->max, i->mean, i->deviation, 100.0 * share(i->zeros, i->entries));
    if (i->source->kind == YK_ROWS_U8)
        printf(LABEL "models use byte * %.6g\n", "", (double)i->scale);
}

static void print_sparse(const yk_inspection *i)
{
    const yk_key_ranking *k = &i->ranking;
    printf(LABEL "%zu\n", "columns", i->columns);
    if (i->fields)
        printf(LABEL "%u\n", "fields", i->fields);
    printf(LABEL "%llu; per example: minimum %.0f, mean %.2f, maximum %.0f", "entries", (ull)i->entries,
           i->histogram.min, share(i->entries, i->examples), i->histogram.max);
    if (i->empty)
        printf("; %llu example%s no entries", (ull)i->empty, i->empty == 1 ? " has" : "s have");
    printf("\n");
    if (!i->entries)
        return;
    printf(LABEL "indices from %u to %u, %llu distinct (%.2f %% of the columns)\n", "features", i->index_min,
           i->index_max, (ull)k->distinct, 100.0 * share(k->distinct, i->columns));
    if (i->ones)
        printf(LABEL "all 1\n", "values");
    else
        printf(LABEL "from %.6g to %.6g, mean %.6g, standard deviation %.6g\n", "values", i->min, i->max,
               i->mean, i->deviation);
    printf(LABEL, "most frequent");
    for (size_t n = 0; n < k->nleaders && n < LEADERS_SHOWN; n++)
        printf(n ? ", %u (%.1f %%)" : "feature %u (in %.1f %% of the examples)", k->leader[n].key,
               100.0 * share(k->leader[n].count, i->examples));
    printf("\n");
    for (size_t c = 0; c < YK_INSPECT_CUTS; c++) {
        if (c && yk_inspect_cut[c - 1] >= k->distinct)
            break; /* the line before has all features */
        printf(LABEL "the %5llu most frequent features have %6.2f %% of all entries\n", c ? "" : "power law",
               (ull)(yk_inspect_cut[c] < k->distinct ? yk_inspect_cut[c] : k->distinct),
               100.0 * share(k->sum[c], i->entries));
    }
}

static void print_spread(const yk_inspection *i)
{
    yk_bar bar[BARS];
    uint64_t max = 0;
    bool whole = i->source->kind == YK_ROWS_SPARSE;
    size_t n = yk_distribution_bars(&i->histogram, BARS, bar);
    printf("%s\n", whole                           ? "entries per example:"
                   : i->source->kind == YK_ROWS_U8 ? "mean pixel per example:"
                                                   : "mean value per example:");
    for (size_t b = 0; b < n; b++)
        max = bar[b].n > max ? bar[b].n : max;
    for (size_t b = 0; b < n; b++) {
        char range[64];
        if (isinf(bar[b].to))
            snprintf(range, sizeof range, "%.6g or more", bar[b].from);
        else if (whole && bar[b].to - bar[b].from == 1.0)
            snprintf(range, sizeof range, "%.0f", bar[b].from);
        else
            snprintf(range, sizeof range, "%.6g - %.6g", bar[b].from, bar[b].to - (whole ? 1.0 : 0.0));
        printf("  %20s  %10llu  ", range, (ull)bar[b].n);
        print_hashes(bar[b].n, max);
        printf("\n");
    }
}

/* ---- the first records ---- */

static void list_record(const yk_inspection *i, size_t r)
{
    const yk_rows *rows = &i->first;
    bool sparse = rows->kind == YK_ROWS_SPARSE;
    size_t n = sparse ? yk_rows_entries(rows, r) : rows->dim, at = sparse ? (size_t)rows->start[r] : r * n;
    printf("  %3zu  ", r + 1);
    if (rows->target)
        printf("label %.6g, ", (double)rows->target[r]);
    else if (i->classes)
        printf("class %d, ", rows->label[r]);
    printf("%zu %s", n, sparse ? (n == 1 ? "entry" : "entries") : (n == 1 ? "value" : "values"));
    if (rows->truth)
        printf(", probability of class 1 %.4f", (double)rows->truth[r]);
    printf(":");
    for (size_t e = 0; e < n && e < VALUES_SHOWN; e++) {
        if (sparse)
            printf(" %u", rows->index[at + e]);
        if (sparse && rows->value && rows->value[at + e] != 1.0f)
            printf(":%.6g", (double)rows->value[at + e]);
        if (rows->kind == YK_ROWS_U8)
            printf(" %d", rows->u8[at + e]);
        if (rows->kind == YK_ROWS_F32)
            printf(" %.6g", (double)rows->f32[at + e]);
    }
    printf(n > VALUES_SHOWN ? " ...\n" : "\n");
}

/* Mean brightness of the pixel at (row, column) and of the one below it: a character is about twice as high as wide. The
 * color channels, which are stored one after the other, are averaged. */
static unsigned brightness(const yk_inspection *i, size_t r, size_t row, size_t column)
{
    const uint8_t *x = i->first.u8 + r * i->first.dim;
    unsigned sum = 0, n = 0;
    for (size_t c = 0; c < i->source->channels; c++)
        for (size_t y = row; y < row + 2 && y < i->source->height; y++, n++)
            sum += x[(c * i->source->height + y) * i->source->width + column];
    return n ? sum / n : 0;
}

/* Draws as many side by side as fit the page. */
static void draw_records(const yk_inspection *i)
{
    static const char shade[] = " .:-=+*#%@";
    size_t abreast = PAGE_WIDTH / (i->source->width + 3);
    for (size_t from = 0; from < i->first.n; from += abreast) {
        size_t n = i->first.n - from < abreast ? i->first.n - from : abreast;
        for (size_t r = from; r < from + n; r++) {
            char title[64];
            snprintf(title, sizeof title, "%zu: class %d", r + 1, i->first.label[r]);
            printf("  %-*.*s ", (int)i->source->width, (int)i->source->width, title);
        }
        printf("\n");
        for (size_t y = 0; y < i->source->height; y += 2) {
            for (size_t r = from; r < from + n; r++) {
                printf(" |");
                for (size_t x = 0; x < i->source->width; x++)
                    putchar(shade[brightness(i, r, y, x) * (sizeof shade - 1) / 256]);
                putchar('|');
            }
            printf("\n");
        }
    }
}

static bool can_draw(const yk_inspection *i)
{
    return i->source->kind == YK_ROWS_U8 && i->source->height && i->source->width &&
           i->source->width <= MAX_DRAWN && i->source->channels &&
           i->source->height * i->source->width * i->source->channels == i->columns;
}

yk_status yk_inspection_print(const char *spec, const yk_inspection *i)
{
    print_origin(spec, i);
    if (i->table)
        print_table(i);
    print_classes(i);
    if (i->source->kind == YK_ROWS_SPARSE)
        print_sparse(i);
    else
        print_dense(i);
    print_spread(i);
    if (i->first.n == 1)
        printf("first record:\n");
    else if (i->first.n)
        printf("first %zu records:\n", i->first.n);
    if (can_draw(i))
        draw_records(i);
    else
        for (size_t r = 0; r < i->first.n; r++)
            list_record(i, r);
    printf(LABEL "%.2f s, %.0f examples per second\n", "read in", i->seconds,
           (double)i->examples / fmax(i->seconds, 1e-9));
    return yk_cli_flush();
}

/* ---- JSON ---- */

/* 0, unknown, becomes null. */
static void known(yk_json *j, const char *name, uint64_t n)
{
    YK_JSON(j, YK_INT_OR_NULL(name, n > 0, n));
}

static void record(yk_json *j, const yk_inspection *i, size_t r)
{
    const yk_rows *rows = &i->first;
    bool sparse = rows->kind == YK_ROWS_SPARSE;
    size_t n = sparse ? yk_rows_entries(rows, r) : rows->dim, at = sparse ? (size_t)rows->start[r] : r * n;
    yk_json_object(j, NULL);
    if (rows->target)
        yk_json_real(j, "label", (double)rows->target[r]);
    else
        YK_JSON(j, YK_INT_OR_NULL("label", i->classes > 0, rows->label[r]));
    yk_json_array(j, "value");
    for (size_t e = at; e < at + n; e++)
        if (rows->kind == YK_ROWS_U8)
            yk_json_int(j, NULL, rows->u8[e]);
        else
            yk_json_real(j, NULL,
                         !sparse       ? (double)rows->f32[e]
                         : rows->value ? (double)rows->value[e]
                                       : 1.0);
    yk_json_end(j);
    if (sparse) {
        yk_json_array(j, "index");
        for (size_t e = at; e < at + n; e++)
            yk_json_int(j, NULL, rows->index[e]);
        yk_json_end(j);
    }
    if (rows->truth)
        yk_json_real(j, "probability", (double)rows->truth[r]);
    yk_json_end(j);
}

static void spread(yk_json *j, const char *name, const yk_distribution *s)
{
    yk_bar bar[BARS];
    size_t n = yk_distribution_bars(s, BARS, bar);
    YK_JSON(j, YK_OBJECT(name), YK_REAL("least", s->min), YK_REAL("mean", s->sum / (double)s->n),
            YK_REAL("median", yk_distribution_quantile(s, 0.5)),
            YK_REAL("p99", yk_distribution_quantile(s, 0.99)), YK_REAL("most", s->max), YK_ARRAY("bars"));
    for (size_t b = 0; b < n; b++) {
        YK_JSON(j, YK_OBJECT(NULL), YK_REAL("from", bar[b].from), YK_REAL("to", bar[b].to),
                YK_INT("examples", bar[b].n), YK_END);
    }
    YK_JSON(j, YK_END, YK_END);
}

static void features(yk_json *j, const yk_inspection *i)
{
    YK_JSON(j, YK_OBJECT("features"), YK_INT("distinct", i->ranking.distinct),
            YK_INT_OR_NULL("index_least", i->entries > 0, i->index_min),
            YK_INT_OR_NULL("index_most", i->entries > 0, i->index_max), YK_ARRAY("most_frequent"));
    for (size_t n = 0; n < i->ranking.nleaders; n++) {
        YK_JSON(j, YK_OBJECT(NULL), YK_INT("index", i->ranking.leader[n].key),
                YK_INT("count", i->ranking.leader[n].count), YK_END);
    }
    YK_JSON(j, YK_END, YK_ARRAY("power_law"));
    for (size_t c = 0; c < YK_INSPECT_CUTS; c++) {
        YK_JSON(j, YK_OBJECT(NULL), YK_INT("features", yk_inspect_cut[c]),
                YK_REAL("share", share(i->ranking.sum[c], i->entries)), YK_END);
    }
    YK_JSON(j, YK_END, YK_INT("empty_examples", i->empty), YK_END);
}

static void put_source(yk_json *j, const char *spec, const yk_inspection *i)
{
    static const char *const kind[] = {"u8", "f32", "sparse"};
    YK_JSON(j, YK_TEXT("data", spec), YK_TEXT("split", i->split == YK_SPLIT_TEST ? "test" : "train"),
            YK_TEXT("format", i->source->ops->name), YK_TEXT("kind", kind[i->source->kind]));
    known(j, "files", i->source->files.n);
    known(j, "bytes", i->source->files.bytes);
    YK_JSON(j, YK_BOOL("has_test", i->source->has_test), YK_BOOL("has_probabilities", i->has_truth),
            YK_BOOL("checksums_verified", i->verified), YK_INT("examples", i->examples),
            YK_INT("bad_records", i->bad), YK_INT("classes", i->classes), YK_ARRAY("class_counts"));
    for (size_t c = 0; c < i->classes; c++)
        yk_json_int(j, NULL, (int64_t)i->class_count[c]);
    YK_JSON(
        j, YK_END, YK_INT_OR_NULL("majority_class", i->classes > 0, i->majority),
        YK_REAL("majority_share", i->classes ? share(i->class_count[i->majority], i->examples) : (double)NAN),
        YK_OBJECT("labels"), YK_REAL("least", i->label_min), YK_REAL("most", i->label_max),
        YK_REAL("mean", i->label_mean), YK_END);
}

yk_status yk_inspection_print_json(const char *spec, const yk_inspection *i)
{
    const bool sparse = i->source->kind == YK_ROWS_SPARSE;
    char number[24];
    yk_json all = {0}, *j = &all;
    yk_json_object(j, NULL);
    put_source(j, spec, i);
    yk_json_int(j, "columns", (int64_t)i->columns);
    known(j, "fields", i->fields);
    known(j, "height", i->source->height);
    known(j, "width", i->source->width);
    known(j, "channels", i->source->channels);
    YK_JSON(j, YK_INT("entries", i->entries), YK_OBJECT("values"), YK_REAL("least", i->min),
            YK_REAL("most", i->max), YK_REAL("mean", i->mean), YK_REAL("deviation", i->deviation),
            YK_INT("zeros", i->zeros), YK_BOOL("all_ones", i->ones), YK_END);
    if (sparse)
        features(j, i);
    else
        yk_json_null(j, "features");
    spread(j, sparse ? "entries_per_example" : "mean_per_example", &i->histogram);
    YK_JSON(j, YK_REAL("seconds", i->seconds), YK_ARRAY("table"));
    for (size_t k = 0; k < i->ntable; k++) {
        const yk_inspected_column *c = &i->table[k];
        YK_JSON(j, YK_OBJECT(NULL), YK_TEXT("name", name_of(i->source->schema, k, number)),
                YK_TEXT("role", yk_column_role_name[i->source->schema->column[k].role]),
                YK_TEXT("type", c->type), YK_INT("missing", c->missing), YK_INT("distinct", c->seen.n),
                YK_ARRAY("values"));
        for (size_t e = 0; e < YK_INSPECT_EXAMPLES && c->example[e]; e++)
            yk_json_text(j, NULL, c->example[e]);
        YK_JSON(j, YK_END, YK_END);
    }
    YK_JSON(j, YK_END, YK_ARRAY("first"));
    for (size_t r = 0; r < i->first.n; r++)
        record(j, i, r);
    YK_JSON(j, YK_END, YK_END);
    return yk_cli_print_json(j);
}
