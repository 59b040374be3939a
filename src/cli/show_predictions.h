/* The output of yoke predict: one line per example, as numbers, CSV or JSON.
 *
 *     text   0.4229601                                         outputs, separated by blanks; then the file of an image
 *     CSV    id,city,probability,class                         a header; columns of the data, outputs, the class
 *            u1,Paris,0.4229601,no
 *     JSON   {"id":"u1","city":"Paris","probabilities":[0.4229601],"class":"no"}
 *
 * Example:
 *     yk_show_predictions to = {.model = model, .form = YK_SHOW_CSV, .columns = "id,city", .threshold = 0.5};
 *     failed = yoke_predict_with(model, data, &how, yk_show_block, &to, &error);
 *     st = yk_show_end(&to, failed); // to.failure: why writing failed
 *
 * Main thread only.
 */
#ifndef YK_CLI_SHOW_PREDICTIONS_H
#define YK_CLI_SHOW_PREDICTIONS_H

#include "base/file.h"
#include "base/text.h"
#include <yoke.h>

typedef enum { YK_SHOW_TEXT, YK_SHOW_CSV, YK_SHOW_JSON } yk_show_form;

typedef struct {
    const yoke_model *model;
    yk_show_form form;
    const char *columns; /* names of the columns of yoke_prediction; NULL: none */
    double threshold;    /* one output: class 1 from this probability on */
    bool raw;
    yk_file *file; /* NULL: stdout; yk_show_end() closes it */
    /* private: */
    bool begun;
    yk_text text; /* the lines of a block */
    char failure[1024];
} yk_show_predictions;

yk_status yk_show_threshold(yk_show_predictions *to,
                            const char *text); /* YK_EUSAGE: not a probability, or many classes */
/* Creates the file `out`. YK_EUSAGE: it is one of those that `data`, a spec, reads. */
yk_status yk_show_open(yk_show_predictions *to, const char *data, const char *out);
int yk_show_block(void *show_predictions, const yoke_predictions *block); /* for yoke_predict_with() */
yk_status yk_show_end(yk_show_predictions *to, bool failed);

#endif
