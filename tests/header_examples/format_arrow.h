#include <stdlib.h>

static struct ArrowSchema *schema;
static struct ArrowArray *array;
