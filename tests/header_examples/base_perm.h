#include "base/rng.h"
extern uint64_t n, seed, epoch;
extern void use(uint64_t element);
