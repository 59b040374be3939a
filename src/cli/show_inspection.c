#include "cli/show_inspection.h"

#include <errno.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define BARS          16
#define BAR_WIDTH     40
#define CLASSES_SHOWN 20
#define LEADERS_SHOWN 5
#define VALUES_SHOWN  12 /* of a record */
#define DRAWN_MOST    32 /* pixels in width */
#define PAGE_WIDTH    100

#define LABEL "%-16s"

typedef unsigned long long ull; /* what %llu wants */

const char *yk_bytes_text(uint64_t bytes, char text[24])
{
    static const char *const unit[] = {"bytes", "kB", "MB", "GB", "TB"};
    double x = (double)bytes;
    size_t u = 0;
    for (; x >= 999.95 && u + 1 < sizeof unit / sizeof *unit; u++)
        x /= 1000.0;
    snprintf(text, 24, u ? "%.1f %s" : "%.0f %s", x, unit[u]);
    return text;
}

static double share(uint64_t part, uint64_t whole)
{
    return whole ? (double)part / (double)whole : 0.0;
}

static void print_hashes(uint64_t n, uint64_t most)
{
    /* what is there at all can be seen */
    int hashes = n ? 1 + (int)(share(n, most) * (BAR_WIDTH - 1) + 0.5) : 0;
    printf("%.*s", hashes, "########################################");
}

/* ---- the page, from top to bottom */

static void print_origin(const char *spec, const yk_inspection *i)
{
    char size[24];
    printf(LABEL "%s\n", "data", spec);
    printf(LABEL "%s", "format", i->format);
    if (i->files)
        printf(", %llu file%s, %s on disk", (ull)i->files, i->files == 1 ? "" : "s",
               yk_bytes_text(i->bytes, size));
    if (i->verified)
        printf(", all checksums are right");
    if (i->has_test)
        printf("; this is the %s half", i->split == YK_SPLIT_TEST ? "test" : "training");
    printf("\n" LABEL "%llu", "examples", (ull)i->examples);
    if (i->bad)
        printf(", and %llu bad record%s skipped", (ull)i->bad, i->bad == 1 ? " that was" : "s that were");
    printf("\n");
    if (i->has_truth)
        printf(LABEL "known for each example: the data was generated\n", "probabilities");
}

static void print_classes(const yk_inspection *i)
{
    uint64_t most = i->class_count[i->majority];
    printf(LABEL "%zu\n", "classes", i->classes);
    for (size_t c = 0; c < i->classes && c < CLASSES_SHOWN; c++) {
        printf("  %12zu  %10llu  %6.2f %%  ", c, (ull)i->class_count[c],
               100.0 * share(i->class_count[c], i->examples));
        print_hashes(i->class_count[c], most);
        printf("\n");
    }
    if (i->classes > CLASSES_SHOWN)
        printf("  and %zu classes more\n", i->classes - CLASSES_SHOWN);
    printf("always guessing class %zu would be right in %.2f %%\n", i->majority,
           100.0 * share(most, i->examples));
}

static void print_dense(const yk_inspection *i)
{
    printf(LABEL, "shape");
    if (i->height)
        printf("%zu x %zu pixels%s, ", i->height, i->width, i->channels == 3 ? ", 3 colours" : "");
    printf("%zu values per example, %s\n", i->columns, i->kind == YK_ROWS_U8 ? "bytes" : "floats");
    printf(LABEL "from %.6g to %.6g, mean %.6g, standard deviation %.6g, %.1f %% are zero\n", "values",
           i->least, i->most, i->mean, i->deviation, 100.0 * share(i->zeros, i->entries));
    if (i->kind == YK_ROWS_U8)
        printf(LABEL "a model sees a byte times %.6g\n", "", (double)i->scale);
}

static void print_sparse(const yk_inspection *i)
{
    const yk_key_ranking *k = &i->ranking;
    printf(LABEL "%zu\n", "columns", i->columns);
    printf(LABEL "%llu; per example %.0f at least, %.2f on average, %.0f at most", "entries", (ull)i->entries,
           i->spread.least, share(i->entries, i->examples), i->spread.most);
    printf(i->empty ? "; %llu examples have none\n" : "\n", (ull)i->empty);
    if (!i->entries)
        return;
    printf(LABEL "indices from %u to %u, %llu different ones occur (%.2f %% of the columns)\n", "features",
           i->index_least, i->index_most, (ull)k->distinct, 100.0 * share(k->distinct, i->columns));
    if (i->ones)
        printf(LABEL "all are 1\n", "values");
    else
        printf(LABEL "from %.6g to %.6g, mean %.6g, standard deviation %.6g\n", "values", i->least, i->most,
               i->mean, i->deviation);
    printf(LABEL, "most frequent");
    for (size_t n = 0; n < k->nleaders && n < LEADERS_SHOWN; n++)
        printf(n ? ", %u (%.1f %%)" : "feature %u (in %.1f %% of the examples)", k->leader[n].key,
               100.0 * share(k->leader[n].count, i->examples));
    printf("\n");
    for (size_t c = 0; c < YK_INSPECT_CUTS; c++) {
        if (c && yk_inspect_cut[c - 1] >= k->distinct)
            break; /* they were all of them already */
        printf(LABEL "the %5llu most frequent features have %6.2f %% of all entries\n", c ? "" : "power law",
               (ull)(yk_inspect_cut[c] < k->distinct ? yk_inspect_cut[c] : k->distinct),
               100.0 * share(k->sum[c], i->entries));
    }
}

static void print_spread(const yk_inspection *i)
{
    yk_bar bar[BARS];
    uint64_t most = 0;
    bool whole = i->kind == YK_ROWS_SPARSE;
    size_t n = yk_spread_bars(&i->spread, BARS, bar);
    printf("%s\n", whole                   ? "how many entries an example has:"
                   : i->kind == YK_ROWS_U8 ? "mean of the pixels of an example:"
                                           : "mean of the values of an example:");
    for (size_t b = 0; b < n; b++)
        most = bar[b].n > most ? bar[b].n : most;
    for (size_t b = 0; b < n; b++) {
        char range[64];
        if (isinf(bar[b].to))
            snprintf(range, sizeof range, "%.6g and more", bar[b].from);
        else if (whole && bar[b].to - bar[b].from == 1.0)
            snprintf(range, sizeof range, "%.0f", bar[b].from);
        else
            snprintf(range, sizeof range, "%.6g - %.6g", bar[b].from, bar[b].to - (whole ? 1.0 : 0.0));
        printf("  %20s  %10llu  ", range, (ull)bar[b].n);
        print_hashes(bar[b].n, most);
        printf("\n");
    }
}

/* ---- the first records */

static void list_record(const yk_rows *rows, size_t r)
{
    bool sparse = rows->kind == YK_ROWS_SPARSE;
    size_t n = sparse ? yk_rows_entries(rows, r) : rows->dim, at = sparse ? (size_t)rows->start[r] : r * n;
    printf("  %3zu  class %d, %zu %s", r + 1, rows->label[r], n, sparse ? "entries" : "values");
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

/* Ink of the pixel at (row, column) and of the one below it: a character is about twice as high as wide. Colours, which
 * lie in planes one after the other, are averaged. */
static unsigned ink(const yk_inspection *i, size_t r, size_t row, size_t column)
{
    const uint8_t *x = i->first.u8 + r * i->first.dim;
    unsigned sum = 0, n = 0;
    for (size_t c = 0; c < i->channels; c++)
        for (size_t y = row; y < row + 2 && y < i->height; y++, n++)
            sum += x[(c * i->height + y) * i->width + column];
    return n ? sum / n : 0;
}

/* As many side by side as fit the page. */
static void draw_records(const yk_inspection *i)
{
    static const char shade[] = " .:-=+*#%@";
    size_t abreast = PAGE_WIDTH / (i->width + 3);
    for (size_t from = 0; from < i->first.n; from += abreast) {
        size_t n = i->first.n - from < abreast ? i->first.n - from : abreast;
        for (size_t r = from; r < from + n; r++) {
            char title[64];
            snprintf(title, sizeof title, "%zu: class %d", r + 1, i->first.label[r]);
            printf("  %-*.*s ", (int)i->width, (int)i->width, title);
        }
        printf("\n");
        for (size_t y = 0; y < i->height; y += 2) {
            for (size_t r = from; r < from + n; r++) {
                printf(" |");
                for (size_t x = 0; x < i->width; x++)
                    putchar(shade[ink(i, r, y, x) * (sizeof shade - 1) / 256]);
                putchar('|');
            }
            printf("\n");
        }
    }
}

static bool can_draw(const yk_inspection *i)
{
    return i->kind == YK_ROWS_U8 && i->height && i->width && i->width <= DRAWN_MOST && i->channels &&
           i->height * i->width * i->channels == i->columns;
}

static yk_status fail_stdout(void)
{
    return yk_fail(YK_ESYSTEM, "the results could not be written to stdout: %s", strerror(errno));
}

yk_status yk_inspection_print(const char *spec, const yk_inspection *i)
{
    print_origin(spec, i);
    print_classes(i);
    if (i->kind == YK_ROWS_SPARSE)
        print_sparse(i);
    else
        print_dense(i);
    print_spread(i);
    if (i->first.n)
        printf("the first %zu:\n", i->first.n);
    if (can_draw(i))
        draw_records(i);
    else
        for (size_t r = 0; r < i->first.n; r++)
            list_record(&i->first, r);
    printf(LABEL "%.2f s, %.0f examples per second\n", "read in", i->seconds,
           (double)i->examples / fmax(i->seconds, 1e-9));
    return fflush(stdout) || ferror(stdout) ? fail_stdout() : YK_OK;
}

/* ---- JSON */

static json_t *whole(uint64_t n)
{
    return json_integer((json_int_t)n);
}

static json_t *real(double x)
{
    return isfinite(x) ? json_real(x) : json_null();
}

/* What is not known is null. */
static json_t *known(uint64_t n)
{
    return n ? whole(n) : json_null();
}

static json_t *json_record(const yk_rows *rows, size_t r)
{
    bool sparse = rows->kind == YK_ROWS_SPARSE;
    size_t n = sparse ? yk_rows_entries(rows, r) : rows->dim, at = sparse ? (size_t)rows->start[r] : r * n;
    json_t *index = sparse ? json_array() : NULL, *value = json_array();
    for (size_t e = at; e < at + n; e++) {
        if (sparse)
            json_array_append_new(index, json_integer(rows->index[e]));
        json_array_append_new(value, rows->kind == YK_ROWS_U8 ? json_integer(rows->u8[e])
                                     : sparse ? real(rows->value ? (double)rows->value[e] : 1.0)
                                              : real((double)rows->f32[e]));
    }
    json_t *o = json_pack("{s:i, s:o}", "label", rows->label[r], "value", value);
    if (sparse)
        json_object_set_new(o, "index", index);
    if (rows->truth)
        json_object_set_new(o, "probability", real((double)rows->truth[r]));
    return o;
}

static json_t *json_spread(const yk_spread *s)
{
    yk_bar bar[BARS];
    size_t n = yk_spread_bars(s, BARS, bar);
    json_t *bars = json_array();
    for (size_t b = 0; b < n; b++)
        json_array_append_new(bars, json_pack("{s:f, s:o, s:o}", "from", bar[b].from, "to", real(bar[b].to),
                                              "examples", whole(bar[b].n)));
    return json_pack("{s:f, s:f, s:f, s:f, s:f, s:o}", "least", s->least, "mean", s->sum / (double)s->n,
                     "median", yk_spread_quantile(s, 0.5), "p99", yk_spread_quantile(s, 0.99), "most",
                     s->most, "bars", bars);
}

static json_t *json_features(const yk_inspection *i)
{
    json_t *top = json_array(), *law = json_array();
    for (size_t n = 0; n < i->ranking.nleaders; n++)
        json_array_append_new(top, json_pack("{s:o, s:o}", "index", whole(i->ranking.leader[n].key), "count",
                                             whole(i->ranking.leader[n].count)));
    for (size_t c = 0; c < YK_INSPECT_CUTS; c++)
        json_array_append_new(law, json_pack("{s:o, s:f}", "features", whole(yk_inspect_cut[c]), "share",
                                             share(i->ranking.sum[c], i->entries)));
    return json_pack("{s:o, s:o, s:o, s:o, s:o, s:o}", "distinct", whole(i->ranking.distinct), "index_least",
                     i->entries ? whole(i->index_least) : json_null(), "index_most",
                     i->entries ? whole(i->index_most) : json_null(), "most_frequent", top, "power_law", law,
                     "empty_examples", whole(i->empty));
}

json_t *yk_json_text(const char *s)
{
    json_t *j = s ? json_string(s) : NULL;
    return j ? j : json_null();
}

yk_status yk_json_print(json_t *o)
{
    char *line = o ? json_dumps(o, JSON_COMPACT | JSON_REAL_PRECISION(9)) : NULL;
    json_decref(o);
    if (!line)
        return yk_fail_memory(4096, "the results");
    bool ok = printf("%s\n", line) > 0 && fflush(stdout) == 0;
    free(line);
    return ok ? YK_OK : fail_stdout();
}

yk_status yk_inspection_print_json(const char *spec, const yk_inspection *i)
{
    static const char *const kind[] = {"u8", "f32", "sparse"};
    bool sparse = i->kind == YK_ROWS_SPARSE;
    json_t *classes = json_array(), *first = json_array();
    for (size_t c = 0; c < i->classes; c++)
        json_array_append_new(classes, whole(i->class_count[c]));
    for (size_t r = 0; r < i->first.n; r++)
        json_array_append_new(first, json_record(&i->first, r));
    json_t *values =
        json_pack("{s:f, s:f, s:f, s:f, s:o, s:b}", "least", i->least, "most", i->most, "mean", i->mean,
                  "deviation", i->deviation, "zeros", whole(i->zeros), "all_ones", i->ones);
    json_t *o = json_pack("{s:o, s:s, s:s, s:s, s:o, s:o, s:b, s:b, s:b}", "data", yk_json_text(spec),
                          "split", i->split == YK_SPLIT_TEST ? "test" : "train", "format", i->format, "kind",
                          kind[i->kind], "files", known(i->files), "bytes", known(i->bytes), "has_test",
                          i->has_test, "has_probabilities", i->has_truth, "checksums_verified", i->verified);
    json_t *rest = json_pack(
        "{s:o, s:o, s:o, s:o, s:o, s:f, s:o, s:o, s:o, s:o, s:o, s:o, s:o, s:o, s:f}", "examples",
        whole(i->examples), "bad_records", whole(i->bad), "classes", whole(i->classes), "class_counts",
        classes, "majority_class", whole(i->majority), "majority_share",
        share(i->class_count[i->majority], i->examples), "columns", whole(i->columns), "height",
        known(i->height), "width", known(i->width), "channels", known(i->channels), "entries",
        whole(i->entries), "values", values, "features", sparse ? json_features(i) : json_null(),
        sparse ? "entries_per_example" : "mean_per_example", json_spread(&i->spread), "seconds", i->seconds);
    if (rest)
        json_object_set_new(rest, "first", first);
    else
        json_decref(first);
    if (o && rest && json_object_update(o, rest) == 0) {
        json_decref(rest);
        return yk_json_print(o);
    }
    json_decref(rest);
    json_decref(o);
    return yk_json_print(NULL);
}
