#include <stdlib.h>

extern const yk_model *model;
extern yk_local *store;
extern const yk_keymap *keymap;
