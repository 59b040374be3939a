extern yk_rows rows;
