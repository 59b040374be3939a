#include <stdio.h>
extern yk_compare compare;
