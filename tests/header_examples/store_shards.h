extern yk_shards_config config;
extern yk_shards_training training;
