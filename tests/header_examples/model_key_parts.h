#include "base/team.h"
#include <string.h>
extern yk__key_parts parts;
extern yk_batch batch;
extern int threads, me;
extern yk_team *team;
extern uint32_t *key;
extern void add(void *context, const yk__key_share *s);
extern void *context;
