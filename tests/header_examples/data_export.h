extern yk_status st;
extern yk_source *source;
