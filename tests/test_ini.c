/* Lines of name = value: comments, sections, blanks, byte order marks, errors with their line. */
#include "scratch.h"

#include "format/ini.h"
#include <stdio.h>
#include <string.h>

/* All lines as "name=value;" and "[section];", and the status of closing it. */
static const char *read_all(const char *path, unsigned flags, yk_status *st_out)
{
    static char text[512];
    yk_ini in;
    text[0] = '\0';
    yk_status st = yk_ini_open(path, flags, &in);
    while (yk_ini_next(&in, &st)) {
        char *to = text + strlen(text);
        const size_t room = sizeof text - strlen(text);
        if (in.name)
            snprintf(to, room, "%s=%s;", in.name, in.value);
        else if (in.comment)
            snprintf(to, room, "<%s>;", in.comment);
        else
            snprintf(to, room, "%s;", in.section);
    }
    *st_out = yk_ini_close(&in, st);
    return text;
}

static const char *lines_of(const char *text, unsigned flags, yk_status *st_out)
{
    const char *path = in_directory("a.ini");
    put(path, text, strlen(text));
    return read_all(path, flags, st_out);
}

static void lines_are_read(void **state)
{
    (void)state;
    static const struct {
        const char *text;
        unsigned flags;
        const char *lines;
    } cases[] = {{"", 0, ""},
                 {"a=1", 0, "a=1;"},
                 {"\xef\xbb\xbf  a \t= 1 2 \r\n", 0, "a=1 2;"},
                 {"; c\n  # d\n\n[one]\na = x=y\n", 0, "[one];a=x=y;"},
                 {"a = b ; c\nd = e;f\n", 0, "a=b ; c;d=e;f;"}, /* paths may contain anything */
                 {"a = b ; c\nd = e;f\n[x] ; y\n", YK_INI_END_COMMENTS, "a=b;d=e;f;[x];"},
                 {"a = \"b ; c\" ; d\n", YK_INI_END_COMMENTS, "a=\"b ; c\";"},
                 {"what\na=\n=b\n", YK_INI_LENIENT, "a=;=b;"},
                 {"; c\na=1\n # d=2 \n[x]\n", YK_INI_COMMENTS, "<; c>;a=1;<# d=2>;[x];"}};
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        yk_status st;
        assert_string_equal(lines_of(cases[i].text, cases[i].flags, &st), cases[i].lines);
        assert_int_equal(st, YK_OK);
    }
}

static void errors_have_their_line(void **state)
{
    (void)state;
    yk_status st;
    assert_string_equal(lines_of("a = 1\n\nwhat\nb = 2\n", 0, &st), "a=1;");
    assert_int_equal(st, YK_EUSAGE);
    assert_message("a.ini:3: not a line of the form name = value");
    read_all(in_directory("none.ini"), 0, &st);
    assert_int_equal(st, YK_EUSAGE);
    assert_message("none.ini: cannot read: No such file");
    read_all(directory, 0, &st);
    assert_int_equal(st, YK_EUSAGE);
    assert_message(": cannot read: Is a directory");
}

static void plain_files_only(void **state)
{
    (void)state;
    yk_ini in;
    yk_status st = yk_ini_open_regular(in_directory("none.ini"), 100, 0, &in);
    assert_int_equal(st, YK_OK);
    assert_null(in.file);
    assert_false(yk_ini_next(&in, &st));
    assert_int_equal(yk_ini_close(&in, st), YK_OK);
    put(in_directory("a.ini"), "a = 1\nb = 2\n", 12);
    st = yk_ini_open_regular(in_directory("a.ini"), 11, 0, &in); /* one byte above the limit */
    assert_int_equal(yk_ini_close(&in, st), YK_EDATA);
    st = yk_ini_open_regular(in_directory("a.ini"), 12, 0, &in);
    assert_true(yk_ini_next(&in, &st));
    assert_int_equal(yk_ini_close(&in, yk_fail(YK_EUSAGE, "no")), YK_EUSAGE);
    assert_message("a.ini:1: no");
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(lines_are_read),
                                       cmocka_unit_test(errors_have_their_line),
                                       cmocka_unit_test(plain_files_only)};
    return cmocka_run_group_tests(tests, make_test_directory, remove_test_directory);
}
