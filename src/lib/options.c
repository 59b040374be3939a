/* yoke_options; and what the other functions of the library use: the version, errors, and structures of the caller. */
#include "lib/internal.h"

#include "base/log.h"
#include "base/mem.h"
#include "comm/comm.h"
#include "comm/rendezvous.h"
#include "config/hosts.h"
#include "format/ini.h"
#include "kern/isa.h"
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

const char *yoke_version(void)
{
    return YK_VERSION;
}

const char *yoke_kernels(void)
{
    return yk_isa_name(yk_isa_best());
}

yoke_status yk_api_status(yk_status st, yoke_error *error)
{
    const yoke_status status = st == YK_EINTERRUPTED ? YOKE_TRAINING_FAILED : (yoke_status)yk_status_exit(st);
    if (error) {
        error->status = status;
        snprintf(error->message, sizeof error->message, "%s",
                 !st           ? ""
                 : *yk_error() ? yk_error()
                               : yk_status_text(st));
    }
    return status;
}

typedef struct {
    yk_log log;
    void (*line)(void *context, yoke_log_level level, const char *text);
    void *context;
} listener;

static void pass_on(void *context, yk_log_level level, const char *text)
{
    const listener *l = context;
    l->line(l->context, level == YK_LOG_NOTE ? YOKE_NOTE : YOKE_WARNING, text);
}

void yoke_set_log(void (*log)(void *context, yoke_log_level level, const char *text), void *context)
{
    static _Thread_local listener here;
    here = (listener){{.line = pass_on, .context = &here}, log, context};
    yk_log_set(log ? &here.log : NULL);
}

yk_status yk_api_struct(void *to, size_t size, const void *from, size_t given, size_t min)
{
    if (given < min)
        return yk_fail(YK_EUSAGE, "a structure has struct_size %zu; initialize it with its _INIT macro",
                       given);
    memcpy(to, from, given < size ? given : size);
    return YK_OK;
}

yoke_options *yoke_options_create(void)
{
    yoke_options *o = calloc(1, sizeof *o);
    if (o)
        yk_config_init(&o->scratch);
    return o;
}

void yoke_options_free(yoke_options *o)
{
    if (!o)
        return;
    yk_arena_free(&o->arena);
    free(o->setting);
    yk_config_fini(&o->scratch);
    free(o);
}

static yk_status add(yoke_options *o, const char *name, const char *value)
{
    if (YK_RESERVE(o->setting, o->cap, o->n + 1, "the options"))
        return YK_ESYSTEM;
    o->setting[o->n] = (yk__setting){.name = name ? yk_arena_print(&o->arena, "%s", name) : NULL,
                                     .value = yk_arena_print(&o->arena, "%s", value)};
    o->n += !o->arena.status;
    return o->arena.status;
}

yoke_status yoke_options_set(yoke_options *o, const char *name, const char *value, yoke_error *error)
{
    if (strcmp(name, "config") == 0)
        return yoke_options_load(o, value, error);
    yk_status st = yk_config_set(&o->scratch, name, value);
    return yk_api_status(st ? st : add(o, name, value), error);
}

yoke_status yoke_options_load(yoke_options *o, const char *path, yoke_error *error)
{
    yk_status st = yk_config_load(&o->scratch, path);
    return yk_api_status(st ? st : add(o, NULL, path), error);
}

const char *yoke_options_get(const yoke_options *o, const char *name)
{
    const char *value = NULL;
    for (size_t i = 0; i < o->n; i++)
        if (o->setting[i].name && strcmp(o->setting[i].name, name) == 0)
            value = o->setting[i].value;
    return value;
}

int yoke_option_at(size_t i, yoke_option *out)
{
    for (size_t k = 0; k <= i; k++)
        if (!yk_options[k].name)
            return 0;
    const yk_option *o = &yk_options[i];
    *out = (yoke_option){o->name, o->arg, o->group, o->help, o->default_text};
    return 1;
}

/* ---- the configuration ---- */

/* Whether two model options are the same, except for blanks. */
static bool same_model(const char *a, const char *b)
{
    for (;; a++, b++) {
        a += strspn(a, YK_BLANKS);
        b += strspn(b, YK_BLANKS);
        if (*a != *b || !*a)
            return *a == *b;
    }
}

/* Checks the options of the command line against those of the run that it resumes. */
static yk_status check_resumed(const yoke_options *o, const char *run, bool there, const yk_config *c)
{
    const char *model = yoke_options_get(o, "model");
    if (!model && !c->model) /* with a model, --resume starts a run that does not exist */
        return yk_fail(
            YK_EUSAGE,
            "%s: no run to resume in this directory; check --out, or start a run with --model and --data",
            run);
    if (there && model && c->model && !same_model(model, c->model))
        return yk_fail(YK_EUSAGE,
                       "%s: this run trains --model '%s' and cannot be resumed with --model '%s'; leave out "
                       "--model, or start a new run with another --out",
                       run, c->model, model);
    return YK_OK;
}

/* Loads the options of the run that is resumed or joined. */
static yk_status load_run(const yoke_options *o, const char *run, bool join, bool silent, yk_config *c)
{
    char *path, *ignored;
    bool there;
    if (asprintf(&path, "%s/config.ini", run) < 0)
        return yk_fail_memory(strlen(run), "a path");
    yk_status st = yk_config_load_run(c, path, &there, &ignored);
    if (!st && !there && join)
        st = yk_fail(YK_EUSAGE, "%s: this directory has no run to join", run);
    if (!st && !join)
        st = check_resumed(o, run, there, c);
    if (ignored && !silent)
        yk_warn("%s: ignored: %s; these options are accepted only on the command line; to use them, repeat "
                "them there",
                path, ignored);
    free(ignored);
    free(path);
    return st;
}

/* Loads the options of a job from its server. The text has the addresses of the servers, an empty line, and the options. */
static yk_status ask_server(const char *address, const char *token_file, char **ignored, yk_config *c)
{
    char token[YK_TOKEN_TEXT], *text = NULL;
    yk_status st = yk_token_file("--token-file", token_file, token);
    if (st)
        return st;
    if ((st = yk_comm_ask(address, token, 30.0, &text)))
        return yk_fail(st, "--join: %s", yk_error());
    char *options = strstr(text, "\n\n");
    if (!options)
        st = yk_fail(YK_EDATA, "--join %s: the server runs a different version of yoke; use the same version",
                     address);
    else if (options[1] = '\0', asprintf(&c->join_text, "%s\n%s", token, text) < 0)
        st = yk_fail_memory(strlen(text), "the addresses of the job");
    else
        st = yk_config_load_text(c, address, options + 2, ignored);
    free(text);
    return st;
}

/* A worker that joins is one process, on this host. */
static yk_status check_join(const yoke_options *o)
{
    static const char *const others[] = {"launch", "hosts", "hostfile", "restarts",
                                         "resume", "out",   "dry-run"};
    for (size_t i = 0; i < sizeof others / sizeof *others; i++) {
        const char *value = yoke_options_get(o, others[i]);
        if (value && strcmp(value, "false") && strcmp(value, "none"))
            return yk_fail(
                YK_EUSAGE,
                "--%s cannot be used with --join, which adds one worker, on this host, to a running job",
                others[i]);
    }
    return YK_OK;
}

/* With a token, from the server at this address. Otherwise, RUN/join has the addresses of a running job, and its token. */
static yk_status load_join(const yoke_options *o, const char *join, bool silent, yk_config *c)
{
    const char *token_file = yoke_options_get(o, "token-file");
    char *ignored = NULL, path[PATH_MAX], text[1 << 15] = "";
    if (token_file) {
        const yk_status st = ask_server(join, token_file, &ignored, c);
        free(ignored);
        return st;
    }
    snprintf(path, sizeof path, "%s/join", join);
    if (access(path, F_OK))
        return yk_fail(YK_EUSAGE,
                       "%s: no asynchronous job that can be joined is running in this run directory; at its "
                       "start, a job prints whether workers can join it, and if not, why. To join a job by "
                       "its address, give --join HOST:PORT --token-file FILE",
                       join);
    yk_status st = yk_token_text("--join", path, text, sizeof text);
    if (!st && !(c->join_text = strdup(text)))
        st = yk_fail_memory(strlen(text), "the addresses of the job");
    return st ? st : load_run(o, join, true, silent, c);
}

static yk_status load_files(const yoke_options *o, bool silent, yk_config *c)
{
    const char *out = yoke_options_get(o, "out"), *join = yoke_options_get(o, "join"),
               *resume = yoke_options_get(o, "resume");
    yk_status st = YK_OK;
    for (size_t i = 0; !st && i < o->n; i++)
        if (!o->setting[i].name)
            st = yk_config_load(c, o->setting[i].value);
    if (!st && !join && resume && strcmp(resume, "false")) {
        if (!out)
            return yk_fail(YK_EUSAGE, "--resume needs --out DIR: the run directory to continue");
        st = load_run(o, out, false, silent, c);
    }
    if (!st && join && !(st = check_join(o)))
        st = load_join(o, join, silent, c);
    return st;
}

/* Names an option of a joining worker that differs: the servers would refuse the worker without saying which. */
static yk_status set_option(yk_config *c, const yk__setting *s)
{
    const yk_option *o = yk_option_find(s->name);
    char number[YK_OPTION_TEXT];
    char *of_job = o ? strdup(yk_config_changed(c, o, number)) : NULL;
    yk_status st = yk_config_set(c, s->name, s->value);
    const bool differs = !st && of_job && strcmp(of_job, yk_config_changed(c, o, number));
    c->new_init |= differs && (!strcmp(s->name, "init") || !strcmp(s->name, "init-bias"));
    if (differs && c->join_text && o->flags & YK_OPT_MUST_AGREE)
        st = yk_fail(YK_EUSAGE,
                     "--%s %s: the job %s%s; leave the option out: a worker that joins uses the options of "
                     "the job",
                     s->name, s->value, *of_job ? "has " : "was started without it", of_job);
    free(of_job);
    return st;
}

yk_status yk_options_resolve(const yoke_options *o, bool silent, yk_config *out)
{
    yk_config_init(out);
    yk_status st = load_files(o, silent, out);
    if (!st && yoke_options_get(o, "steps")) /* overrides epochs of a file */
        out->epochs = 0;
    if (!st && yoke_options_get(o, "epochs"))
        out->steps = 0;
    const yk_by_group before = out->lr;
    for (size_t i = 0; !st && i < o->n; i++)
        if (o->setting[i].name)
            st = set_option(out, &o->setting[i]);
    if (!st && yoke_options_get(o, "launch") && !out->launch && yk_names_hosts(out))
        st = yk_fail(YK_EUSAGE,
                     "--launch 0 (a single process) and --hosts or --hostfile cannot be used together");
    char path[PATH_MAX];
    snprintf(path, sizeof path, "%s/config.ini", out->out ? out->out : "");
    if (!st && out->resume && yk_by_group_has(&out->lr, YK_ALL) && access(path, F_OK) == 0)
        out->lr = before; /* the run has begun: --lr auto searches once */
    return st;
}
