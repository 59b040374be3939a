extern yk_shards_config config;
extern yk_local_config whole;
