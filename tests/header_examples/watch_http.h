#include "base/log.h"
#include <stddef.h>
extern const char page[];
extern char *make_status(void *context);
extern void *run;
