extern const yk_trained *model;
extern yk_source *source;
extern yk_infer_each each;
extern void *context;
extern yk_tally tally;
