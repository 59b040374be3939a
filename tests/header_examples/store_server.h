extern yk_server_config config;
