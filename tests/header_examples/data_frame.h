static struct ArrowArrayStream stream;
static yk_source_options options;
