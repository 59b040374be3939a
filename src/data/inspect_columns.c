/* The columns of a table, for yoke data inspect: types, missing and distinct values, examples. Sources that were opened with
 * carry "*" have the texts of all cells. */
#include "data/inspect.h"

#include "base/mem.h"
#include "data/columns.h"
#include <stdio.h>
#include <stdlib.h>

yk_status yk__inspect_table(const yk_schema *s, yk_inspection *out)
{
    if (!(out->table = calloc(s->ncolumns + 1, sizeof *out->table)))
        return yk_fail_memory(s->ncolumns * sizeof *out->table, "columns");
    for (; out->ntable < s->ncolumns; out->ntable++) {
        const yk_schema_column *c = &s->column[out->ntable];
        yk_inspected_column *to = &out->table[out->ntable];
        to->role = yk_column_role_name(c->role);
        to->type = "integer"; /* until a value is not */
        if (s->header ? !(to->name = strdup(c->name)) : asprintf(&to->name, "%zu", out->ntable + 1) < 0)
            return yk_fail_memory(80, "a column's name");
    }
    return YK_OK;
}

/* A value that is new: counts it, and keeps the first ones. */
static yk_status add_value(yk_inspected_column *c, const char *text, size_t n)
{
    bool is_new = false;
    yk_status st = yk_schema_value_add(&c->seen, yk_cell_hash(1, text, n) | 1, &is_new);
    if (is_new && c->seen.n <= YK_INSPECT_EXAMPLES && !(c->example[c->seen.n - 1] = strndup(text, 40)))
        st = yk_fail_memory(40, "a value");
    return st;
}

static void narrow_type(yk_inspected_column *c, const char *text, size_t n)
{
    double v;
    if (*c->type != 't' && !yk_cell_number(text, n, &v))
        c->type = "text";
    else if (*c->type == 'i' && v != floor(v))
        c->type = "number";
}

yk_status yk__inspect_cells(const yk_schema *s, const yk_reader *r, size_t rows, yk_inspection *out)
{
    yk_status st = YK_OK;
    for (size_t i = 0; i < rows && !st; i++)
        for (size_t k = 0; k < out->ntable && !st; k++) {
            yk_inspected_column *c = &out->table[k];
            const char *text = yk_reader_cell(r, i, k);
            const size_t n = strlen(text);
            if (yk_cell_missing(s, text, n, s->column[k].role != YK_COLUMN_CATEGORICAL)) {
                c->missing++;
                continue;
            }
            narrow_type(c, text, n);
            st = add_value(c, text, n);
        }
    return st;
}

void yk__inspect_table_free(yk_inspection *i)
{
    for (size_t k = 0; k < i->ntable; k++) {
        free(i->table[k].name);
        yk_free(i->table[k].seen.slot);
        for (size_t e = 0; e < YK_INSPECT_EXAMPLES; e++)
            free(i->table[k].example[e]);
    }
    free(i->table);
}
