#include "store/store.h"
extern yk_comm *comm;
extern yk_group group[1];
extern int ngroups;
extern float *dense;
extern size_t begin, end;
extern yk_grad grad;
