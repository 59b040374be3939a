/* The table of options: the flags of every option are as intended, documented defaults are correct, and values survive
 * config.ini. */
#include "base/suggest.h"
#include "config/config.h"

#include "scratch.h"

/* To add an option, decide on each of these sets (config/option.h explains them) and on the number at the end. */
static const struct {
    unsigned flag;
    const char *names;
} sets[] = {
    {YK_OPT_CHANGES_RESULTS,
     "model loss class-weight data test test-examples validation warm-start features hash-bits skip-bad "
     "stream shuffle-mb "
     "no-shuffle no-bias init "
     "init-bias standardize augment mode "
     "staleness workers threads servers quorum local-steps prefetch batch global-batch epochs steps monitor "
     "patience min-delta seed "
     "optimizer lr l2 l1 momentum adam-betas epsilon clip-norm initial-accumulator "
     "lr-schedule lr-decay lr-decay-every lr-decay-epochs lr-patience warm-up warm-up-epochs lr-batch "
     "bias-lr "
     "bias-decay"},
    {YK_OPT_MUST_AGREE,
     "model loss class-weight data test test-examples validation warm-start features hash-bits skip-bad "
     "stream shuffle-mb "
     "no-shuffle no-bias init "
     "init-bias "
     "standardize "
     "augment dry-run "
     "mode staleness workers threads bind servers quorum local-steps prefetch deadline batch "
     "global-batch epochs "
     "steps monitor patience min-delta no-stop-on-divergence seed "
     "optimizer lr "
     "l2 l1 momentum adam-betas epsilon clip-norm initial-accumulator lr-schedule lr-decay lr-decay-every "
     "lr-decay-epochs lr-patience warm-up warm-up-epochs lr-batch bias-lr "
     "bias-decay "
     "eval-every "
     "log-every "
     "checkpoint-every sample-every trace tensorboard-workers"},
    {YK_OPT_IN_SWEEPS,
     "model loss class-weight data test test-examples validation warm-start features hash-bits skip-bad "
     "stream shuffle-mb "
     "no-shuffle no-bias init "
     "init-bias "
     "standardize "
     "augment mode "
     "staleness workers threads launch hosts hostfile agent bind network servers quorum "
     "local-steps "
     "prefetch restarts "
     "deadline batch global-batch epochs steps monitor patience min-delta "
     "no-stop-on-divergence seed optimizer lr l2 l1 momentum "
     "adam-betas epsilon clip-norm initial-accumulator lr-schedule "
     "lr-decay lr-decay-every "
     "lr-decay-epochs lr-patience warm-up warm-up-epochs lr-batch bias-lr bias-decay eval-every log-every "
     "checkpoint-every sample-every trace "
     "tensorboard-workers http"},
    {YK_OPT_SAVED,
     "model loss class-weight data test test-examples validation warm-start features hash-bits skip-bad "
     "stream shuffle-mb "
     "no-shuffle no-bias init "
     "init-bias "
     "standardize "
     "augment mode "
     "staleness workers threads launch hosts hostfile agent bind network servers quorum "
     "local-steps "
     "prefetch restarts "
     "deadline batch global-batch epochs steps monitor patience min-delta "
     "no-stop-on-divergence seed optimizer lr l2 l1 momentum "
     "adam-betas epsilon clip-norm initial-accumulator lr-schedule "
     "lr-decay lr-decay-every "
     "lr-decay-epochs lr-patience warm-up warm-up-epochs lr-batch bias-lr bias-decay eval-every log-every "
     "checkpoint-every sample-every trace "
     "tensorboard-workers"},
    {YK_OPT_VARIES_IN_REPEATS, "epochs steps seed"},
    {YK_OPT_HAS_SPACES, "model data test validation"},
    {YK_OPT_COMMAND_LINE_ONLY, "hosts hostfile agent network join token-file out resume http config"},
    {YK_OPT_STARTS_JOB, "launch hosts hostfile join"},
    {YK_OPT_SETS_MODE, "mode staleness"},
};
enum { SETS = sizeof sets / sizeof *sets, OPTIONS = 79 };

static void flags_are_as_intended(void **state)
{
    (void)state;
    for (size_t i = 0; i < SETS; i++) {
        char have[2048] = "";
        for (const yk_option *o = yk_options; o->name; o++)
            if (o->flags & sets[i].flag)
                snprintf(have + strlen(have), sizeof have - strlen(have), "%s%s", *have ? " " : "", o->name);
        assert_string_equal(have, sets[i].names);
    }
    size_t n = 0;
    for (const yk_option *o = yk_options; o->name; o++)
        n++;
    assert_int_equal(n, OPTIONS); /* also those without a flag */
}

/* Rules that hold between the flags. */
static void flags_are_consistent(void **state)
{
    (void)state;
    for (const yk_option *o = yk_options; o->name; o++) {
        const unsigned f = o->flags;
        if (f &
            YK_OPT_CHANGES_RESULTS) /* otherwise a resumed run or another process would train something else */
            assert_true((f & YK_OPT_SAVED) && (f & YK_OPT_MUST_AGREE) && !(f & YK_OPT_COMMAND_LINE_ONLY));
        if (f & YK_OPT_VARIES_IN_REPEATS)
            assert_true(f & YK_OPT_CHANGES_RESULTS);
        if (f & YK_OPT_COMMAND_LINE_ONLY)
            assert_false(f & YK_OPT_MUST_AGREE); /* a worker that joins from another host cannot know it */
        assert_true((o->kind == YK_OPT_FLAG) == !o->arg);
        assert_ptr_equal(yk_option_find(o->name), o); /* names are unique */
    }
}

/* A default that is a number equals that of yk_config_init(), or stands for 0 or a negative number (not given). */
static void documented_defaults_are_correct(void **state)
{
    (void)state;
    size_t compared = 0;
    yk_config c, initial;
    yk_config_init(&c);
    yk_config_init(&initial);
    for (const yk_option *o = yk_options; o->name; o++) {
        if (!yk_option_is_number(o) || yk_option_is_by_group(o) || !o->default_text ||
            yk_config_set(&c, o->name, o->default_text))
            continue;
        const void *x = (const char *)&c + o->offset, *y = (const char *)&initial + o->offset;
        const double from_text = o->kind == YK_OPT_REAL ? *(const double *)x : (double)*(const int64_t *)x,
                     is = o->kind == YK_OPT_REAL ? *(const double *)y : (double)*(const int64_t *)y;
        if (is > 0.0) {
            assert_true(from_text == is);
            compared++;
        }
    }
    yk_config_fini(&c);
    assert_int_equal(
        compared,
        8); /* workers, threads, deadline, seed, lr-decay-every, lr-patience, sample-every, shuffle-mb */
}

/* The help names everything that is hashed. */
static void help_lists_hashed_data(void **state)
{
    (void)state;
    static const char *const hashed[] = {"LIBSVM", "LIBFFM", "TFRecord", "CSR arrays", "Criteo", "CSV"};
    for (size_t i = 0; i < sizeof hashed / sizeof *hashed; i++)
        assert_non_null(strstr(yk_option_find("hash-bits")->help, hashed[i]));
}

/* A value for each kind that is not its default. */
static const char *value_of(const yk_option *o)
{
    const char *word = o->word;
    return o->kind == YK_OPT_FLAG            ? "true"
           : word && yk_option_is_number(o)  ? strcmp(word, o->default_text) ? word : "1"
           : word                            ? strrchr(word, ' ') + 1
           : o->kind == YK_OPT_INT           ? "7"
           : o->kind == YK_OPT_REAL          ? "0.375"
           : o->kind == YK_OPT_REAL_BY_GROUP ? "keyed=0.375,dense=0.1,linear=0.2"
           : o->kind == YK_OPT_INT_BY_GROUP  ? "dense=7"
           : o->words                        ? o->words(1)
                                             : "text";
}

/* Each option alone: one that is stored in config.ini makes it a different run, and is read back. */
static void stored_options_survive_a_round_trip(void **state)
{
    (void)state;
    for (const yk_option *o = yk_options; o->name; o++) {
        yk_config plain, given, loaded;
        char *ignored;
        bool there;
        yk_config_init(&plain);
        yk_config_init(&given);
        yk_config_init(&loaded);
        assert_int_equal(yk_config_set(&given, o->name, value_of(o)), YK_OK);
        const bool kept = (o->flags & YK_OPT_SAVED) && !(o->flags & YK_OPT_COMMAND_LINE_ONLY);
        assert_true(yk_config_same_run(&plain, &given) == !kept);
        assert_int_equal(yk_config_save(&given, directory, "config.ini"), YK_OK);
        assert_int_equal(yk_config_load_run(&loaded, in_directory("config.ini"), &there, &ignored), YK_OK);
        assert_true(there && !ignored && yk_config_same_run(&given, &loaded));
        yk_config_fini(&plain);
        yk_config_fini(&given);
        yk_config_fini(&loaded);
    }
}

static bool starts_job(const char *name, const char *value)
{
    yk_config c;
    yk_config_init(&c);
    assert_int_equal(yk_config_set(&c, name, value), YK_OK);
    const bool starts = yk_config_starts_job(&c);
    yk_config_fini(&c);
    return starts;
}

static void some_options_start_a_job(void **state)
{
    (void)state;
    assert_true(starts_job("launch", "1") && starts_job("hosts", "a") && starts_job("hostfile", "hosts") &&
                starts_job("join", "run"));
    assert_false(starts_job("launch", "0") || starts_job("servers", "1") || starts_job("agent", "ssh") ||
                 starts_job("network", "any"));
}

static const char *only_for(const char *name, const char *value, bool keyed)
{
    yk_config c;
    yk_config_init(&c);
    assert_int_equal(yk_config_set(&c, name, value), YK_OK);
    const char *found = yk_config_only_for(&c, keyed);
    yk_config_fini(&c);
    return found ? found : "";
}

static void values_for_one_kind_of_group_are_found(void **state)
{
    (void)state;
    static const struct {
        const char *name, *keyed, *dense, *all;
    } want[] = {{"staleness", "keyed=2", "dense=0", "3"},
                {"servers", "keyed=all", "dense=0", "all"},
                {"optimizer", "keyed=adagrad", "dense=adam", "sgd"},
                {"lr", "keyed=0.1", "dense=0", "0.2"},
                {"lr-schedule", "keyed=step", "dense=cosine", "inverse"},
                {"lr-decay", "keyed=0.1", "dense=0", "0.2"},
                {"warm-up", "keyed=1", "dense=2", "3"},
                {"warm-up-epochs", "keyed=0.5", "dense=2", "3"}};
    size_t n = 0;
    for (const yk_option *o = yk_options; o->name; o++)
        n += yk_option_is_by_group(o);
    assert_int_equal(n, sizeof want / sizeof *want);
    for (size_t i = 0; i < n; i++) {
        assert_string_equal(only_for(want[i].name, want[i].keyed, true), want[i].name);
        assert_string_equal(only_for(want[i].name, want[i].keyed, false), "");
        assert_string_equal(only_for(want[i].name, want[i].dense, false), want[i].name);
        assert_string_equal(only_for(want[i].name, want[i].dense, true), "");
        assert_string_equal(only_for(want[i].name, want[i].all, true), "");
        assert_string_equal(only_for(want[i].name, want[i].all, false), "");
    }
    assert_string_equal(only_for("data", "csv:a?dense=b", false), "");
}

static void servers_are_a_number_or_all(void **state)
{
    (void)state;
    yk_config c;
    yk_config_init(&c);
    assert_int_equal(yk_config_set(&c, "servers", "all"), YK_OK);
    assert_int_equal(yk_by_group_of(&c.servers, "", true, -1), YK_ALL);
    assert_int_equal(yk_config_set(&c, "servers", "2"), YK_OK);
    assert_int_equal(yk_by_group_of(&c.servers, "", false, -1), 2);
    assert_int_equal(yk_config_set(&c, "servers", "keyed=all,dense=0"), YK_OK);
    assert_true(yk_by_group_of(&c.servers, "", true, -1) == YK_ALL &&
                yk_by_group_of(&c.servers, "", false, -1) == 0.0);
    assert_int_equal(yk_config_set(&c, "servers", "0"), YK_OK);
    assert_error(yk_config_set(&c, "servers", "some"), YK_EUSAGE,
                 "--servers some: not a whole number; must be between 0 and 1024, or all");
    assert_error(yk_config_set(&c, "servers", "-1"), YK_EUSAGE, "--servers -1");
    assert_error(yk_config_set(&c, "workers", "all"), YK_EUSAGE, "--workers all: not a whole number");
    assert_int_equal(yk_by_group_of(&c.servers, "", false, -1), 0);
    yk_config_fini(&c);
}

static const char *suggested(const char *word)
{
    static const char *const known[] = {"model", "mode", "momentum", "lr", "lr-decay", "checkpoint-every",
                                        NULL};
    const char *name = yk_suggest(word, known, sizeof *known);
    return name ? name : "";
}

static void misspelled_names_get_the_closest_one(void **state)
{
    (void)state;
    assert_string_equal(suggested("modle"), "model"); /* swapped */
    assert_string_equal(suggested("mod"), "mode");
    assert_string_equal(suggested("lrr"), "lr");
    assert_string_equal(suggested("check_point_every"), "checkpoint-every");
    assert_string_equal(suggested("zebra"), "");
    assert_string_equal(suggested(""), "");
    assert_string_equal(suggested("a-word-that-is-longer-than-any-name-of-an-option"), "");
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(flags_are_as_intended),
                                       cmocka_unit_test(flags_are_consistent),
                                       cmocka_unit_test(documented_defaults_are_correct),
                                       cmocka_unit_test(help_lists_hashed_data),
                                       cmocka_unit_test(stored_options_survive_a_round_trip),
                                       cmocka_unit_test(some_options_start_a_job),
                                       cmocka_unit_test(values_for_one_kind_of_group_are_found),
                                       cmocka_unit_test(servers_are_a_number_or_all),
                                       cmocka_unit_test(misspelled_names_get_the_closest_one)};
    return cmocka_run_group_tests_name("options", tests, make_test_directory, remove_test_directory);
}
