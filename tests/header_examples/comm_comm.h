extern float gradient[100];
static const size_t bytes = sizeof gradient;
static const int tag = 20;
