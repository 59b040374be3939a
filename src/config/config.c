#include "config/config.h"

#include "base/number.h"
#include "base/text.h"
#include "config/hosts.h"
#include "data/split.h"
#include "format/ini.h"
#include "watch/http.h"
#include <float.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

void yk_config_init(yk_config *c)
{
    *c = (yk_config){.workers = 1,
                     .threads = 1,
                     .prefetch = YK_AUTO,
                     .deadline = 8,
                     .momentum = -1,
                     .initial_accumulator = -1,
                     .lr_patience = 1,
                     .epsilon = -1,
                     .min_delta = -1,
                     .init_bias = NAN,
                     .bias_lr = -1,
                     .lr_decay_every = 1000,
                     .seed = 1,
                     .sample_every = 0.25,
                     .shuffle_mb = 32};
}

void yk_config_fini(yk_config *c)
{
    for (const yk_option *o = yk_options; o->name; o++)
        if (o->kind == YK_OPT_TEXT)
            free(*(char **)((char *)c + o->offset));
    free(c->join_text);
    *c = (yk_config){0};
}

static yk_status set_number(const yk_option *o, const char *value, void *field)
{
    if (o->kind == YK_OPT_INT && o->word && strcmp(value, o->word) == 0) {
        *(int64_t *)field = YK_AUTO;
        return YK_OK;
    }
    const yk_status st = yk_option_is_by_group(o) ? yk_by_group_set(o, value, field)
                         : o->kind == YK_OPT_REAL ? yk_number_real(value, o->min, o->max, field)
                                                  : yk_number_int(value, o->min, o->max, field);
    return st ? yk_fail(st, "--%s %s: %s%s%s", o->name, value, yk_error(), o->word ? ", or " : "",
                        o->word ? o->word : "")
              : YK_OK;
}

yk_status yk_config_set(yk_config *c, const char *name, const char *value)
{
    const yk_option *o;
    if (yk_option_require(name, &o))
        return YK_EUSAGE;
    void *field = (char *)c + o->offset;
    if (o->kind == YK_OPT_TEXT) {
        if (!*value || strchr(YK_BLANKS, *value) || strchr(YK_BLANKS, value[strlen(value) - 1]) ||
            strpbrk(value, "\r\n"))
            return yk_fail(YK_EUSAGE,
                           "--%s '%s': the value is empty, begins or ends with a space, or has several lines",
                           name, value);
        if (o->word && !yk_list_has(o->word, value))
            return yk_fail(YK_EUSAGE, "--%s %s: the value must be one of: %s", name, value, o->word);
        char *copy = strdup(value);
        if (!copy)
            return yk_fail_memory(strlen(value), "an option");
        free(*(char **)field);
        *(char **)field = copy;
        return YK_OK;
    }
    if (o->kind == YK_OPT_FLAG) {
        if (strcmp(value, "true") && strcmp(value, "false"))
            return yk_fail(YK_EUSAGE, "%s = %s: the value must be true or false", name, value);
        *(bool *)field = value[0] == 't';
        return YK_OK;
    }
    return set_number(o, value, field);
}

/* "agent, hosts", each name once. */
static yk_status add_name(char **names, const char *name)
{
    char *longer;
    if (*names && strstr(*names, name)) /* none of these names is a substring of another */
        return YK_OK;
    if (asprintf(&longer, "%s%s%s", *names ? *names : "", *names ? ", " : "", name) < 0)
        return yk_fail_memory(strlen(name), "a name");
    free(*names);
    *names = longer;
    return YK_OK;
}

/* `ignored`: receives the names of options that a file cannot set; NULL: such options are errors. */
static yk_status load_option(yk_config *c, const char *name, const char *value, char **ignored)
{
    const yk_option *o = yk_option_find(name);
    if (!o || !(o->flags & YK_OPT_COMMAND_LINE_ONLY))
        return yk_config_set(c, name, value);
    return ignored ? add_name(ignored, name)
                   : yk_fail(YK_EUSAGE, "a file cannot set %s; use --%s on the command line", name, name);
}

/* Section headers are allowed and ignored. Closes `in`. */
static yk_status load_lines(yk_config *c, yk_ini *in, yk_status st, char **ignored)
{
    while (yk_ini_next(in, &st))
        if (in->name)
            st = load_option(c, in->name, in->value, ignored);
    return yk_ini_close(in, st);
}

yk_status yk_config_load(yk_config *c, const char *path)
{
    yk_ini in;
    const yk_status st = yk_ini_open(path, 0, &in);
    return load_lines(c, &in, st, NULL);
}

yk_status yk_config_load_run(yk_config *c, const char *path, bool *there_out, char **ignored_out)
{
    yk_ini in;
    *ignored_out = NULL;
    yk_status st = yk_ini_open_regular(path, 1 << 20, 0, &in);
    *there_out = in.file;
    st = load_lines(c, &in, st, ignored_out);
    if (st) {
        free(*ignored_out);
        *ignored_out = NULL;
    }
    return st;
}

yk_status yk_config_load_text(yk_config *c, const char *name, const char *text, char **ignored_out)
{
    yk_ini in;
    *ignored_out = NULL;
    const yk_status st = yk_ini_open_text(name, text, &in);
    return load_lines(c, &in, st, ignored_out);
}

static bool is(const char *given, const char *word)
{
    return given && strcmp(given, word) == 0;
}

bool yk_config_monitors(const yk_config *c)
{
    bool any = false;
    for (int k = 0; k < YK_LR_SCHEDULES; k++)
        any |= yk_lr_schedules[k].monitors && yk_by_group_has(&c->lr_schedule, k);
    return any;
}

/* Whether the learning rate rises in the first steps. */
static bool warms_up(const yk_config *c)
{
    bool any = yk_by_group_given(&c->warm_up) || yk_by_group_given(&c->warm_up_epochs);
    for (int k = 0; k < YK_LR_SCHEDULES; k++)
        any |= yk_lr_schedules[k].rises && yk_by_group_has(&c->lr_schedule, k);
    return any;
}

/* Whether a parameter group has an optimizer with this text in its name. */
static bool uses_optimizer(const yk_config *c, const char *text)
{
    bool uses = false;
    for (int k = 0; yk_optim_name(k); k++)
        uses |= strstr(yk_optim_name(k), text) && yk_by_group_has(&c->optimizer, k);
    return uses || (!*c->optimizer.part[YK_GROUP_EVERY].name && strstr(yk_config_default_optimizer(c), text));
}

const char *yk_config_validation(const yk_config *c)
{
    return is(c->validation, "none") ? NULL : c->validation;
}

/* Options that have no effect without others. */
static yk_status check_effects(const yk_config *c)
{
    static const char example[] =
        "validation; for example, --validation 0.1 holds back 10 % of the training data";
    const bool steps = yk_by_group_has(&c->lr_schedule, YK_LR_STEP), monitors = yk_config_monitors(c),
               validates = yk_config_validation(c);
    bool decays = false, velocity = false;
    for (int k = YK_LR_CONSTANT + 1; k < YK_LR_SCHEDULES; k++)
        decays |= yk_by_group_has(&c->lr_schedule, k);
    for (int k = 0; yk_optim_name(k); k++)
        velocity |= yk_optim_rule_of(k)->velocity == YK_VELOCITY_SUM && yk_by_group_has(&c->optimizer, k);
    const struct {
        bool given, has;
        const char *option, *needed;
    } rule[] = {
        {c->momentum >= 0.0, velocity, "momentum", "optimizer momentum or nesterov"},
        {c->adam_betas, uses_optimizer(c, "adam"), "adam-betas", "optimizer adam or adamw"},
        {c->epsilon >= 0.0, uses_optimizer(c, "ada"), "epsilon",
         "optimizer adam, adamw, adagrad or rowwise-adagrad"},
        {c->initial_accumulator >= 0.0, uses_optimizer(c, "adagrad"), "initial-accumulator",
         "optimizer adagrad or rowwise-adagrad"},
        {c->lr_decay_epochs > 0.0, steps, "lr-decay-epochs", "lr-schedule step"},
        {c->lr_decay_every != 1000, steps, "lr-decay-every", "lr-schedule step"},
        {c->lr_patience != 1, monitors, "lr-patience", "lr-schedule plateau"},
        {yk_by_group_given(&c->lr_decay), decays, "lr-decay",
         "lr-schedule step, inverse, cosine, one-cycle or plateau"},
        {c->monitor, c->validation, "monitor", example},
        {c->patience, c->validation, "patience", example},
        {c->min_delta >= 0.0, c->validation, "min-delta", example},
        {c->min_delta >= 0.0 && validates, c->patience || monitors, "min-delta",
         "patience or --lr-schedule plateau"},
        {c->token_file, c->join, "token-file", "join HOST:PORT"},
        {c->agent, yk_names_hosts(c), "agent", "hosts or --hostfile"},
        {c->restarts && !c->resume, yk_config_starts_job(c), "restarts", "launch or --hosts"},
    };
    for (size_t i = 0; i < sizeof rule / sizeof *rule; i++)
        if (rule[i].given && !rule[i].has)
            return yk_fail(YK_EUSAGE, "--%s has no effect without --%s", rule[i].option, rule[i].needed);
    return YK_OK;
}

static yk_status check_pairs(const yk_config *c)
{
    const bool begins = c->warm_start && !c->resume; /* a config.ini of yoke 0.2 may have both */
    const struct {
        bool both;
        const char *one, *other;
    } pair[] = {{c->epochs && c->steps, "epochs", "steps"},
                {c->hosts && c->hostfile, "hosts", "hostfile"},
                {begins && c->init, "init", "warm-start"},
                {begins && isfinite(c->init_bias), "init-bias", "warm-start"},
                {c->lr_decay_epochs > 0.0 && c->lr_decay_every != 1000, "lr-decay-epochs", "lr-decay-every"},
                {yk_by_group_given(&c->warm_up) && yk_by_group_given(&c->warm_up_epochs), "warm-up",
                 "warm-up-epochs"}};
    for (size_t i = 0; i < sizeof pair / sizeof *pair; i++)
        if (pair[i].both)
            return yk_fail(YK_EUSAGE, "--%s and --%s cannot be used together", pair[i].one, pair[i].other);
    return YK_OK;
}

static yk_status check_validation(const yk_config *c)
{
    const char *v = yk_config_validation(c);
    yk_hold_out h;
    double number;
    if (v && !yk_hold_out_parse(v, &h) && (h.last || !yk_number_real(v, -HUGE_VAL, HUGE_VAL, &number)))
        return yk_fail(
            YK_EUSAGE,
            "--validation %s: must be a fraction of the training data between 0 and 1, such as 0.1, "
            "last:0.1 for its last rows, or other data",
            v);
    return YK_OK;
}

/* The run directory and the network. */
static yk_status check_places(const yk_config *c)
{
    const bool none = is(c->out, "none");
    if (c->resume && (!c->out || none))
        return yk_fail(YK_EUSAGE, "--resume needs --out DIR: the run directory to continue");
    if (c->trace && none)
        return yk_fail(YK_EUSAGE, "--trace needs a run directory: --out DIR");
    if (is(c->network, "local") && yk_names_hosts(c))
        return yk_fail(YK_EUSAGE, "--network local cannot be used with --hosts or --hostfile");
    return c->http ? yk_http_check(c->http) : YK_OK;
}

yk_status yk_config_check(const yk_config *c)
{
    double betas[2];
    yk_status st;
    if (!c->model)
        return yk_fail(YK_EUSAGE, "--model is missing; for example, --model softmax --data synth:digits");
    if (!c->data)
        return yk_fail(YK_EUSAGE,
                       "--data is missing; for example, --data synth:digits, or the path of your data");
    if ((st = check_places(c)) || (st = check_effects(c)) || (st = check_pairs(c)) ||
        (st = yk_config_betas(c, &betas[0], &betas[1])) || (st = check_validation(c)))
        return st;
    const double bound =
        fmax(yk_by_group_of(&c->staleness, "", true, 0), yk_by_group_of(&c->staleness, "", false, 0));
    if (is(c->mode, "sync") && bound > 0)
        return yk_fail(YK_EUSAGE,
                       "--mode sync means --staleness 0; for a staleness bound of %.0f, use --mode async",
                       bound);
    if (c->lr_batch && !warms_up(c))
        return yk_fail(YK_EUSAGE, "--lr-batch needs a warm-up, because the first steps with a large learning "
                                  "rate often diverge: add --warm-up STEPS, or --lr-schedule one-cycle");
    return YK_OK;
}

bool yk_config_starts_job(const yk_config *c)
{
    bool starts = false;
    for (const yk_option *o = yk_options; o->name; o++) {
        const void *field = (const char *)c + o->offset;
        if (o->flags & YK_OPT_STARTS_JOB)
            starts |= o->kind == YK_OPT_TEXT ? *(char *const *)field != NULL : *(const int64_t *)field > 0;
    }
    return starts;
}

yk_optim_kind yk_config_optimizer(const yk_config *c, const char *otherwise, const char *group, bool keyed)
{
    yk_by_group defaults = {0};
    const double given = yk_by_group_of(&c->optimizer, group, keyed, -1.0);
    if (given < 0.0)
        (void)yk_by_group_set(yk_option_find("optimizer"), otherwise, &defaults);
    return (yk_optim_kind)(given < 0.0 ? yk_by_group_of(&defaults, "", keyed, 0.0) : given);
}

const char *yk_config_default_optimizer(const yk_config *c)
{
    yk_model_description d = {.optimizer = "sgd"};
    if (c->model)
        (void)yk_model_parse(c->model, &d); /* errors are reported when it is trained */
    return d.optimizer;
}

void yk_config_optimizer_text(const yk_config *c, char out[YK_OPTION_TEXT])
{
    yk_by_group_text(yk_option_find("optimizer"), &c->optimizer, out, YK_OPTION_TEXT);
    if (!*out)
        snprintf(out, YK_OPTION_TEXT, "%s", yk_config_default_optimizer(c));
}

yk_status yk_config_betas(const yk_config *c, double *beta1, double *beta2)
{
    char text[64];
    const char *comma = c->adam_betas ? strchr(c->adam_betas, ',') : NULL;
    snprintf(text, sizeof text, "%.*s", comma ? (int)(comma - c->adam_betas) : 0, c->adam_betas);
    if (c->adam_betas &&
        (!comma || yk_number_real(text, 0.0, 1.0, beta1) || yk_number_real(comma + 1, 0.0, 1.0, beta2)))
        return yk_fail(YK_EUSAGE, "--adam-betas %s: must be two numbers from 0 to 1, as in 0.9,0.999",
                       c->adam_betas);
    return YK_OK;
}

static const yk_by_group *by_group(const yk_option *o, const yk_config *c)
{
    static const yk_by_group none = {0};
    return yk_option_is_by_group(o) ? (const void *)((const char *)c + o->offset) : &none;
}

const char *yk_config_named_group(const yk_config *c, size_t i, const char **option_out)
{
    for (const yk_option *o = yk_options; o->name; o++)
        for (int k = YK_GROUP_NAMED; k < YK_GROUP_PARTS; k++) {
            *option_out = o->name;
            if (*by_group(o, c)->part[k].name && i-- == 0)
                return by_group(o, c)->part[k].name;
        }
    return NULL;
}

const char *yk_config_only_for(const yk_config *c, bool keyed)
{
    for (const yk_option *o = yk_options; o->name; o++)
        if (*by_group(o, c)->part[keyed ? YK_GROUP_KEYED : YK_GROUP_DENSE].name)
            return o->name;
    return NULL;
}

/* The value as text, borrowed from the configuration or in `number`; "": not given (a real number is then out of its range). */
static const char *text_of(const yk_option *o, const yk_config *c, char number[YK_OPTION_TEXT])
{
    const void *field = (const char *)c + o->offset;
    const double real = o->kind == YK_OPT_REAL ? *(const double *)field : 0.0;
    *number = 0;
    if (o->kind == YK_OPT_TEXT)
        return *(char *const *)field ? *(char *const *)field : "";
    if (o->kind == YK_OPT_FLAG)
        return *(const bool *)field ? "true" : "";
    if (o->kind == YK_OPT_INT && o->word && *(const int64_t *)field == YK_AUTO)
        return o->word;
    if (yk_option_is_by_group(o))
        yk_by_group_text(o, field, number, YK_OPTION_TEXT);
    else if (o->kind != YK_OPT_REAL)
        snprintf(number, YK_OPTION_TEXT, "%lld", (long long)*(const int64_t *)field);
    else if (isfinite(real) && (real >= 0 || o->min < 0))
        yk_number_shortest(real, DBL_MANT_DIG, number, YK_OPTION_TEXT);
    return number;
}

static bool same_value(const yk_option *o, const yk_config *a, const yk_config *b)
{
    char x[YK_OPTION_TEXT], y[YK_OPTION_TEXT];
    return strcmp(text_of(o, a, x), text_of(o, b, y)) == 0;
}

bool yk_config_same_run(const yk_config *a, const yk_config *b)
{
    for (const yk_option *o = yk_options; o->name; o++)
        if ((o->flags & YK_OPT_SAVED) && !(o->flags & YK_OPT_COMMAND_LINE_ONLY) && !same_value(o, a, b))
            return false;
    return true;
}

/* Whether an integer was given: otherwise it is out of its range, or the default of all versions. */
static bool is_given(const yk_option *o, const yk_config *c, const yk_config *defaults)
{
    const int64_t n = *(const int64_t *)(const void *)((const char *)c + o->offset);
    return n == YK_AUTO || ((!same_value(o, c, defaults) || o->min >= 1) && (double)n >= o->min);
}

/* As in config.ini; "": it was not given, and other versions have the same default. */
static const char *saved_text(const yk_option *o, const yk_config *c, const yk_config *defaults,
                              char number[YK_OPTION_TEXT])
{
    return o->kind == YK_OPT_INT && !is_given(o, c, defaults) ? "" : text_of(o, c, number);
}

const char *yk_config_changed(const yk_config *c, const yk_option *o, char number[YK_OPTION_TEXT])
{
    yk_config defaults;
    yk_config_init(&defaults);
    return same_value(o, c, &defaults) ? "" : saved_text(o, c, &defaults, number);
}

static yk_status save_option(yk_file *f, const yk_option *o, const yk_config *c, const yk_config *defaults)
{
    const char *line = o->flags & YK_OPT_COMMAND_LINE_ONLY ? "; on the command line: --%s %s\n" : "%s = %s\n";
    char number[YK_OPTION_TEXT];
    const char *text = saved_text(o, c, defaults, number);
    return *text ? yk_file_print(f, line, o->name, text) : YK_OK;
}

yk_status yk_config_save(const yk_config *c, const char *dir, const char *name)
{
    yk_file *f;
    yk_config defaults;
    yk_config_init(&defaults);
    yk_status st = yk_file_create_in(dir, name, &f);
    if (st)
        return st;
    st = yk_file_print(f, "; yoke %s. Run it again: yoke train --config %s/%s --out ANOTHER_DIR\n",
                       YK_VERSION, dir, name);
    for (const yk_option *o = yk_options; !st && o->name; o++)
        if (o->flags & YK_OPT_SAVED)
            st = save_option(f, o, c, &defaults);
    return yk_file_close(f, st);
}
