#include <stdlib.h>
extern char **argv;
