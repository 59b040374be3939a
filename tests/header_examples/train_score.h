extern const float *p;
extern size_t outputs;
extern yk_batch batch;
extern double loss;
extern yk_tally all;
extern yk_score score;
