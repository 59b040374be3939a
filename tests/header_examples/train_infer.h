extern const yk_trained *model;
extern yk_source *source;
extern yk_infer_each each;
extern void *user;
extern yk_score score;
