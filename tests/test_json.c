/* Writing JSON: the exact output, and that jansson reads it. */
#include "scratch.h"

#include "base/json.h"
#include <jansson.h>
#include <math.h>

static void everything(yk_json *j)
{
    YK_JSON(j, YK_OBJECT(NULL), YK_TEXT("text", "a \"b\" \\ \n\x01 \xc3\xbc"), YK_TEXT("none", NULL),
            YK_TEXT("not UTF-8", "a\xff"), YK_REAL("one", 1.0), YK_REAL("third", 1.0 / 3.0),
            YK_REAL("large", -1e300), YK_REAL("nan", NAN), YK_FIXED("fixed", 2.0, 3),
            YK_INT("whole", INT64_MIN), YK_INT_OR_NULL("unknown", false, 7), YK_INT_OR_NULL("known", true, 7),
            YK_BOOL("yes", true), YK_IF(false, YK_INT("left out", 1)), YK_IF(true, YK_INT("kept", 1)),
            YK_ARRAY("list"), YK_OBJECT(NULL), YK_END, YK_ARRAY(NULL), YK_END, YK_RAW(NULL, NULL),
            YK_RAW(NULL, "[1]"), YK_END, YK_END);
}

static void compact(void **state)
{
    (void)state;
    yk_json j = {.digits = 6};
    everything(&j);
    char *text = yk_json_take(&j);
    assert_string_equal(
        text, "{\"text\":\"a \\\"b\\\" \\\\ \\n\\u0001 \xc3\xbc\",\"none\":null,\"not UTF-8\":\"a\\ufffd\","
              "\"one\":1.0,\"third\":0.333333,\"large\":-1e+300,\"nan\":null,\"fixed\":2.000,"
              "\"whole\":-9223372036854775808,\"unknown\":null,\"known\":7,\"yes\":true,\"kept\":1,"
              "\"list\":[{},[],null,[1]]}");
    json_t *o = json_loads(text, JSON_REJECT_DUPLICATES, NULL);
    assert_non_null(o);
    json_decref(o);
    free(text);
}

static void known_only(void **state)
{
    (void)state;
    yk_json j = {.known_only = true};
    YK_JSON(&j, YK_OBJECT(NULL), YK_REAL("a", NAN), YK_REAL("b", 0.5), YK_FIXED("c", INFINITY, 1),
            YK_TEXT("d", NULL), YK_END);
    char *text = yk_json_take(&j);
    assert_string_equal(text, "{\"b\":0.5,\"d\":null}");
    free(text);
}

static void indented(void **state)
{
    (void)state;
    yk_json j = {.indent = true};
    YK_JSON(&j, YK_OBJECT(NULL), YK_INT("a", 1), YK_ARRAY("b"), YK_OBJECT(NULL), YK_REAL("c", 0.1), YK_END,
            YK_INT(NULL, 2), YK_END, YK_END);
    char *text = yk_json_take(&j);
    assert_string_equal(text, "{\n \"a\": 1,\n \"b\": [\n  {\n   \"c\": 0.1\n  },\n  2\n ]\n}");
    free(text);
    everything(&j);
    text = yk_json_take(&j);
    json_t *o = json_loads(text, JSON_REJECT_DUPLICATES, NULL);
    assert_non_null(o);
    json_decref(o);
    free(text);
}

static void lines(void **state)
{
    (void)state;
    yk_json j = {0};
    yk_file *f;
    assert_int_equal(yk_file_create_in(NULL, in_directory("lines"), &f), YK_OK);
    for (int i = 0; i < 2; i++) {
        YK_JSON(&j, YK_OBJECT(NULL), YK_INT("i", i), YK_TEXT("t", "</script>&"), YK_END);
        assert_int_equal(yk_json_write(&j, f), YK_OK);
    }
    yk_json_fini(&j);
    assert_int_equal(yk_file_close(f, YK_OK), YK_OK);
    char *text = calloc(1, 256);
    FILE *in = fopen(in_directory("lines"), "r");
    assert_true(fread(text, 1, 255, in) > 0);
    fclose(in);
    assert_string_equal(text, "{\"i\":0,\"t\":\"</script>&\"}\n{\"i\":1,\"t\":\"</script>&\"}\n");
    free(text);
    j = (yk_json){.between = ",\n"};
    YK_JSON(&j, YK_INT(NULL, 1), YK_ARRAY(NULL), YK_END);
    text = yk_json_take(&j);
    assert_string_equal(text, "1,\n[]");
    free(text);
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(compact), cmocka_unit_test(known_only),
                                       cmocka_unit_test(indented), cmocka_unit_test(lines)};
    return cmocka_run_group_tests(tests, make_test_directory, remove_test_directory);
}
