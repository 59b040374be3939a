#include "report/plot.h"
extern yk_compare compare;
extern yk_text text;
