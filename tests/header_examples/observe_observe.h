#include "base/clock.h"
extern yk_observer_config config;
extern yk_evaluation evaluation;
extern yk_outcome outcome;
extern yk_observation observation;
extern uint64_t steps;
extern double loss;
extern bool lost;
