extern yk_status st;
