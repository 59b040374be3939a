extern yk_config config;
