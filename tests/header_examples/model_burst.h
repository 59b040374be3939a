#include "store/burst.h"

extern yk_model *m;
extern yk_workspace *work;
extern yk_local *s;
extern int me;
extern yk_view view;
extern yk_batch batch;
extern float lr, *loss;
