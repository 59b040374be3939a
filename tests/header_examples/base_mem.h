extern size_t parameters;
