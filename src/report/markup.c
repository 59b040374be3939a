/* Tables as LaTeX and as Markdown. */
#include "report/table.h"

#include "base/json.h"
#include <math.h>
#include <stdio.h>
#include <string.h>

typedef struct {
    const char *escaped;        /* characters that get a backslash */
    const char *const *special; /* other texts, each before its replacement; ends with NULL */
    const char *first, *between, *last, *bold, *end_bold;
} markup;

/* Everything that TeX would interpret. '[' and '*' after a line break would be its arguments. */
static const char *const in_latex[] = {"\\",     "\\textbackslash{}",
                                       "^",      "\\^{}",
                                       "~",      "\\~{}",
                                       "<",      "$<$",
                                       ">",      "$>$",
                                       "|",      "$|$",
                                       "\"",     "''",
                                       "[",      "{[}",
                                       "]",      "{]}",
                                       "*",      "{*}",
                                       "--",     "-{}-{}",
                                       "\u00b1", "$\\pm$",
                                       "\u00d7", "$\\times$",
                                       "\u2013", "--",
                                       "\u03bc", "$\\mu$",
                                       "\u00b7", "$\\cdot$",
                                       NULL};
static const char *const in_markdown[] = {"<", "&lt;", "&", "&amp;", NULL};
static const markup latex = {"{}$&#%_", in_latex, "", " & ", " \\\\\n", "\\textbf{", "}"};
static const markup markdown = {"\\|*_`[]#~$", in_markdown, "| ", " | ", " |\n", "**", "**"};

static void put(const markup *m, const char *s, yk_text *out)
{
    while (*s) {
        const char *const *at = m->special;
        const size_t n = yk_utf8_length(s);
        while (*at && strncmp(s, *at, strlen(*at)))
            at += 2;
        if (*at)
            yk_text_add(out, at[1]);
        else if (!n || (unsigned char)*s < ' ')
            yk_text_add(out, n ? " " : "?");
        else
            yk_text_print(out, "%s%.*s", strchr(m->escaped, *s) ? "\\" : "", (int)n, s);
        s += *at ? strlen(*at) : n ? n : 1;
    }
}

/* A cell as plain text: a number with its deviation. */
static void cell_text(const yk_table *t, size_t row, size_t k, char *out /* [128] */)
{
    const yk_cell *v = &t->cell[row * t->columns + k];
    char mean[YK_UNIT_SIZE], spread[YK_UNIT_SIZE];
    yk_unit_pair(t->column[k].unit, v->number, v->spread, mean, spread);
    if (v->text || t->column[k].words)
        snprintf(out, 128, "%s", v->text ? v->text : "");
    else if (isfinite(v->spread) && *spread)
        snprintf(out, 128, "%s \u00b1 %s", mean, spread);
    else
        snprintf(out, 128, "%s", mean);
}

/* Some columns of a table: those that identify its rows, and first .. last - 1. */
typedef struct {
    size_t keys, first, last;
} part;

static bool is_shown(const part *p, size_t k)
{
    return k < p->keys || (k >= p->first && k < p->last);
}

static void put_row(const markup *m, const yk_table *t, const part *p, size_t r, yk_text *out)
{
    for (size_t k = 0; k < t->columns; k++) {
        const bool mark = t->cell[r * t->columns + k].mark;
        char text[128];
        if (!is_shown(p, k))
            continue;
        cell_text(t, r, k, text);
        yk_text_print(out, "%s%s", k ? m->between : m->first, mark ? m->bold : "");
        put(m, text, out);
        yk_text_add(out, mark ? m->end_bold : "");
    }
    yk_text_add(out, m->last);
}

/* ---- LaTeX ---- */

/* With \scriptsize, in the text width of the class article: points. */
static const double page_width = 345.0, letter = 3.7, gap = 5.0;
enum { MAX_ROWS = 45 };

/* Titles are broken at spaces, except short ones such as "to 91 %". */
static size_t line_length(const char *title)
{
    return strlen(title) < 10 ? strlen(title) : strcspn(title, " ");
}

/* Points that a column takes. */
static double column_width(const yk_table *t, size_t k)
{
    char text[128];
    size_t longest = 0;
    for (const char *at = t->column[k].title; *at; at += line_length(at) + (at[line_length(at)] == ' '))
        longest = line_length(at) > longest ? line_length(at) : longest;
    for (size_t r = 0; r < t->rows; r++) {
        cell_text(t, r, k, text);
        const size_t letters = (size_t)yk_utf8_width(text, strlen(text));
        longest = letters > longest ? letters : longest;
    }
    return letter * (double)longest + gap;
}

static void put_title(const yk_column *c, yk_text *out)
{
    char line[sizeof c->title];
    yk_text_print(out, "\\begin{tabular}[b]{@{}%s@{}}", c->words ? "l" : "r");
    for (const char *at = c->title; *at;) {
        const size_t n = line_length(at);
        snprintf(line, sizeof line, "%.*s", (int)n, at);
        put(&latex, line, out);
        at += n + (at[n] == ' ');
        yk_text_add(out, *at ? "\\\\" : "");
    }
    yk_text_add(out, "\\end{tabular}");
}

static void put_part(const yk_table *t, const part *p, size_t from, int number, yk_text *out)
{
    yk_text_add(out, "\n\\begin{table}[htbp]\n\\centering\n\\caption{");
    put(&latex, t->title, out);
    yk_text_add(out, number > 1 ? " (continued)" : t->note ? ". " : "");
    put(&latex, number == 1 && t->note ? t->note : "", out);
    yk_text_print(out, number > 1 ? "}\n\\label{tab:%s-%d}\n" : "}\n\\label{tab:%s}\n", t->id, number);
    yk_text_add(out, "\\scriptsize\n\\setlength{\\tabcolsep}{2pt}\n\\begin{tabular}{");
    for (size_t k = 0; k < t->columns; k++)
        yk_text_add(out, !is_shown(p, k) ? "" : t->column[k].words ? "l" : "r");
    yk_text_add(out, "}\n\\toprule\n");
    for (size_t k = 0; k < t->columns; k++)
        if (is_shown(p, k)) {
            yk_text_add(out, k ? " & " : "");
            put_title(&t->column[k], out);
        }
    yk_text_add(out, " \\\\\n\\midrule\n");
    for (size_t r = from; r < t->rows && r < from + MAX_ROWS; r++) {
        yk_text_add(out, r > from && t->lead && !yk_table_same_group(t, r) ? "\\midrule\n" : "");
        put_row(&latex, t, p, r, out);
    }
    yk_text_add(out, "\\bottomrule\n\\end{tabular}\n\\end{table}\n");
}

void yk_table_latex(const yk_table *t, yk_text *out)
{
    part p = {.keys = t->keys ? t->keys : 1};
    double keys = 0.0, rest = 0.0;
    for (size_t k = 0; k < t->columns; k++)
        *(k < p.keys ? &keys : &rest) += column_width(t, k);
    /* parts of about the same width */
    const double space = fmax(page_width - keys, page_width / 4.0),
                 share = rest / fmax(ceil(rest / space), 1.0);
    int number = 1;
    for (p.first = p.last = p.keys; p.last < t->columns || number == 1; p.first = p.last) {
        for (double width = 0.0; p.last < t->columns && (p.last == p.first || width < share); p.last++)
            if ((width += column_width(t, p.last)) > space && p.last > p.first)
                break;
        for (size_t from = 0; from < t->rows; from += MAX_ROWS)
            put_part(t, &p, from, number++, out);
    }
}

/* ---- Markdown ---- */

void yk_table_markdown(const yk_table *t, yk_text *out)
{
    const part all = {.last = t->columns};
    yk_text_print(out, "\n## %s\n\n", t->title);
    for (size_t k = 0; k < t->columns; k++) {
        yk_text_add(out, k ? " | " : "| ");
        put(&markdown, t->column[k].title, out);
    }
    yk_text_add(out, " |\n|");
    for (size_t k = 0; k < t->columns; k++)
        yk_text_add(out, t->column[k].words ? " --- |" : " ---: |");
    yk_text_add(out, "\n");
    for (size_t r = 0; r < t->rows; r++)
        put_row(&markdown, t, &all, r, out);
    yk_text_add(out, t->note ? "\n" : "");
    put(&markdown, t->note ? t->note : "", out);
    yk_text_add(out, t->note ? "\n" : "");
}
