#include <stdio.h>
extern yk_process_evidence *w;
extern yk_usage usage;
