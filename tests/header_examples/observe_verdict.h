#include <stdio.h>
extern yk_worker_evidence *w;
extern yk_usage usage;
