extern yk_status st;
extern yk_source_options options;
void use(const yk_rows *rows);
