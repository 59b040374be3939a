extern yk_status st;
extern yk_source_options options;
extern yk_rows rows;
