#include <stdio.h>
extern const yk_rows *train, *test;
