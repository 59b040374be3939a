extern yk_status st;
extern yk_rows_kind kind;
extern size_t dim;
extern yk_batch batch;
