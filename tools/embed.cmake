# Converts a file to a C array: cmake -DIN=src/report/page.js -DNAME=report_page_js -DOUT=page_js.c -P tools/embed.cmake
#
#     const unsigned char yk_embedded_NAME[];          its bytes, then a zero byte
#     const unsigned long yk_embedded_NAME_size;       without the zero byte
file(READ "${IN}" hex HEX)
string(LENGTH "${hex}" digits)
math(EXPR size "${digits} / 2")
string(REGEX REPLACE "(................................)" "\\1\n" hex "${hex}")
string(REGEX REPLACE "([0-9a-f][0-9a-f])" "0x\\1," bytes "${hex}")
file(WRITE "${OUT}" "extern const unsigned char yk_embedded_${NAME}[];
extern const unsigned long yk_embedded_${NAME}_size;
const unsigned char yk_embedded_${NAME}[] = {
${bytes}0};
const unsigned long yk_embedded_${NAME}_size = ${size};
")
