extern yk__edge edge;
extern size_t block, channel;
extern int64_t row, column;
extern float *x;
