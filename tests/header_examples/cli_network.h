extern yk_config config;
extern bool joinable;
