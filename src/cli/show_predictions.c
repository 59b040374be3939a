#include "cli/show_predictions.h"

#include "base/json.h"
#include "base/number.h"
#include "cli/cli.h"
#include "data/files.h"
#include "data/spec.h"
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

/* ---- classes */

yk_status yk_show_threshold(yk_show_predictions *to, const char *text)
{
    if (yk_number_real(text, 0.0, 1.0, &to->threshold))
        return yk_fail(YK_EUSAGE, "--threshold %s: %s", text, yk_error());
    if (yoke_model_regression(to->model))
        return yk_fail(YK_EUSAGE, "--threshold is for models with classes; this one predicts numbers");
    return yoke_model_outputs(to->model) == 1
               ? YK_OK
               : yk_fail(
                     YK_EUSAGE,
                     "--threshold is for models with two classes and one output; the class of this model is "
                     "the one with the largest probability");
}

static size_t class_of(const yk_show_predictions *to, const float *p, size_t n)
{
    size_t best = 0;
    if (n == 1) {
        const double t = to->raw ? log(to->threshold / (1.0 - to->threshold)) : to->threshold;
        return (double)p[0] >= t;
    }
    for (size_t c = 1; c < n; c++)
        best = p[c] > p[best] ? c : best;
    return best;
}

/* Its name, or its number. */
static const char *class_name(const yk_show_predictions *to, size_t c, char number[24])
{
    const char *name = yoke_model_class(to->model, c);
    snprintf(number, 24, "%zu", c);
    return name ? name : number;
}

/* ---- text */

static void add_line(yk_text *t, const float *p, size_t n, const char *file)
{
    for (size_t c = 0; c < n; c++)
        yk_text_print(t, "%s%.7g", c ? " " : "", (double)p[c]);
    if (file) /* the rest of the line, whatever it contains */
        yk_text_add(t, " ");
    for (const char *at = file; at && *at; at++)
        yk_text_put(t, *at == '\n' || *at == '\r' ? "?" : at, 1);
    yk_text_add(t, "\n");
}

/* ---- CSV */

/* Quoted if necessary; otherwise exactly as in the data. */
static void add_field(yk_text *t, const char *s, const char *after)
{
    if (!strpbrk(s, ",\"\r\n")) {
        yk_text_add(t, s);
    } else {
        yk_text_add(t, "\"");
        for (; *s; s++)
            yk_text_put(t, *s == '"' ? "\"\"" : s, *s == '"' ? 2 : 1);
        yk_text_add(t, "\"");
    }
    yk_text_add(t, after);
}

static void add_header(const yk_show_predictions *to, yk_text *t, size_t n, bool files)
{
    const bool numbers = yoke_model_regression(to->model);
    const char *const what = to->raw ? "score" : "probability";
    char number[24];
    for (const char *at = to->columns; at && *at;) {
        const size_t length = strcspn(at, ",");
        yk_text_put(t, at, length);
        yk_text_add(t, ",");
        at += length + (at[length] == ',');
    }
    yk_text_add(t, files ? "file," : "");
    for (size_t c = 0; c < n && !numbers; c++) {
        yk_text_print(t, n == 1 ? "%s," : "%s_", what);
        if (n > 1)
            add_field(t, class_name(to, c, number), ",");
    }
    yk_text_add(t, numbers ? "prediction\n" : "class\n");
}

static void add_fields(const yk_show_predictions *to, const yoke_predictions *block, size_t i)
{
    yk_text *t = (yk_text *)&to->text;
    const float *p = block->probability + i * block->outputs;
    char number[24];
    for (size_t k = 0; k < block->columns; k++)
        add_field(t, block->column[i * block->columns + k], ",");
    if (block->file)
        add_field(t, block->file[i], ",");
    if (yoke_model_regression(to->model)) {
        yk_text_print(t, "%.7g\n", (double)p[0]);
        return;
    }
    for (size_t c = 0; c < block->outputs; c++)
        yk_text_print(t, "%.7g,", (double)p[c]);
    add_field(t, class_name(to, class_of(to, p, block->outputs), number), "\n");
}

/* ---- JSON */

static void add_classes(const yk_show_predictions *to, yk_json *j, const float *p, size_t outputs)
{
    const size_t class = class_of(to, p, outputs);
    yk_json_array(j, to->raw ? "scores" : "probabilities");
    for (size_t c = 0; c < outputs; c++)
        yk_json_real(j, NULL, (double)p[c]);
    yk_json_end(j);
    if (yoke_model_class(to->model, class))
        yk_json_text(j, "class", yoke_model_class(to->model, class));
    else
        yk_json_int(j, "class", (int64_t) class);
}

static void add_object(const yk_show_predictions *to, const yoke_predictions *block, size_t i)
{
    yk_text *t = (yk_text *)&to->text;
    const float *p = block->probability + i * block->outputs;
    yk_json j = {.digits = 7};
    char name[256];
    yk_json_object(&j, NULL);
    const char *at = to->columns;
    for (size_t k = 0; k < block->columns; k++, at += strcspn(at, ","), at += *at == ',') {
        snprintf(name, sizeof name, "%.*s", (int)strcspn(at, ","), at);
        yk_json_text(&j, name, block->column[i * block->columns + k]);
    }
    if (yoke_model_regression(to->model))
        yk_json_real(&j, "prediction", (double)p[0]);
    else
        add_classes(to, &j, p, block->outputs);
    if (block->file)
        yk_json_text(&j, "file", block->file[i]);
    yk_json_end(&j);
    char *line = yk_json_take(&j);
    if (line)
        yk_text_print(t, "%s\n", line);
    else
        t->status = yk_fail_memory(block->outputs, "a line");
    free(line);
}

/* ---- blocks */

/* Whether a file is one of those that `data` reads. */
static bool is_read(const char *data, const char *path)
{
    struct stat there;
    yk_spec spec;
    yk_files f = {0};
    bool found = false;
    if (stat(path, &there) || yk_spec_is_stdin(data) || yk_spec_parse(data, &spec))
        return false;
    if (!yk_files_find(spec.where, &f))
        for (size_t i = 0; f.state && i < f.n; i++)
            found |= f.state[i].device == there.st_dev && f.state[i].inode == there.st_ino;
    yk_files_fini(&f);
    yk_spec_fini(&spec);
    return found;
}

yk_status yk_show_open(yk_show_predictions *to, const char *data, const char *out)
{
    return is_read(data, out)
               ? yk_fail(YK_EUSAGE, "--out %s is one of the files of --data: choose another file", out)
               : yk_file_create(out, &to->file);
}

int yk_show_block(void *show_predictions, const yoke_predictions *block)
{
    yk_show_predictions *to = show_predictions;
    yk_text *t = &to->text;
    t->n = 0;
    if (!to->begun && to->form == YK_SHOW_CSV)
        add_header(to, t, block->outputs, block->file);
    to->begun = true;
    for (size_t i = 0; i < block->n; i++)
        if (to->form == YK_SHOW_TEXT)
            add_line(t, block->probability + i * block->outputs, block->outputs,
                     block->file ? block->file[i] : NULL);
        else
            (to->form == YK_SHOW_CSV ? add_fields : add_object)(to, block, i);
    yk_status st = t->status;
    if (!st && to->file)
        st = yk_file_write(to->file, t->s, t->n);
    else if (!st && fwrite(t->s, 1, t->n, stdout) < t->n)
        st = yk_cli_flush();
    if (st)
        snprintf(to->failure, sizeof to->failure, "%s", yk_error());
    return st;
}

yk_status yk_show_end(yk_show_predictions *to, bool failed)
{
    const bool to_file = to->file;
    if (*to->failure)
        yk_fail(YK_ESYSTEM, "%s", to->failure); /* the library has replaced it: stopped by the caller */
    const yk_status st = yk_file_close(to->file, failed ? YK_ESYSTEM : YK_OK);
    yk_text_fini(&to->text);
    return st || to_file ? st : yk_cli_flush();
}
