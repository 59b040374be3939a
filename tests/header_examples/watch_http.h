#include "base/log.h"
extern char *make_document(void *context, yk_http_document which);
extern void *run;
