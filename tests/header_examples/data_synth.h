extern yk_status st;
extern yk_rows rows;
