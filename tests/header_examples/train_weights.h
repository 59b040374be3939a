extern const yk_trained *model;
extern yk_source *data;
