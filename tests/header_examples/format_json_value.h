extern json_t *summary;
