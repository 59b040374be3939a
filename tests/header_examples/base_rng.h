extern uint64_t seed, stream;
