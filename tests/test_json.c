/* Writing JSON: the exact output, and that jansson reads it. */
#include "scratch.h"

#include "base/json.h"
#include <jansson.h>
#include <math.h>

static void everything(yk_json *j)
{
    yk_json_object(j, NULL);
    yk_json_text(j, "text", "a \"b\" \\ \n\x01 \xc3\xbc");
    yk_json_text(j, "none", NULL);
    yk_json_text(j, "not UTF-8", "a\xff");
    yk_json_real(j, "one", 1.0);
    yk_json_real(j, "third", 1.0 / 3.0);
    yk_json_real(j, "large", -1e300);
    yk_json_real(j, "nan", NAN);
    yk_json_fixed(j, "fixed", 2.0, 3);
    yk_json_int(j, "whole", INT64_MIN);
    yk_json_bool(j, "yes", true);
    yk_json_array(j, "list");
    yk_json_object(j, NULL);
    yk_json_end(j);
    yk_json_array(j, NULL);
    yk_json_end(j);
    yk_json_null(j, NULL);
    yk_json_end(j);
    yk_json_end(j);
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
              "\"whole\":-9223372036854775808,\"yes\":true,\"list\":[{},[],null]}");
    json_t *o = json_loads(text, JSON_REJECT_DUPLICATES, NULL);
    assert_non_null(o);
    json_decref(o);
    free(text);
}

static void indented(void **state)
{
    (void)state;
    yk_json j = {.indent = true};
    yk_json_object(&j, NULL);
    yk_json_int(&j, "a", 1);
    yk_json_array(&j, "b");
    yk_json_object(&j, NULL);
    yk_json_real(&j, "c", 0.1);
    yk_json_end(&j);
    yk_json_int(&j, NULL, 2);
    yk_json_end(&j);
    yk_json_end(&j);
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
        yk_json_object(&j, NULL);
        yk_json_int(&j, "i", i);
        yk_json_text(&j, "t", "</script>&");
        yk_json_end(&j);
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
    yk_json_int(&j, NULL, 1);
    yk_json_array(&j, NULL);
    yk_json_end(&j);
    text = yk_json_take(&j);
    assert_string_equal(text, "1,\n[]");
    free(text);
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(compact), cmocka_unit_test(indented),
                                       cmocka_unit_test(lines)};
    return cmocka_run_group_tests(tests, make_test_directory, remove_test_directory);
}
