extern yk_config config;
extern yk_plan plan;
extern const yk_model *model;
