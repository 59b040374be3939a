extern yk_status st;
extern yk_source *source;
void show(uint64_t examples, size_t classes, uint64_t distinct);
