extern const yk_tally tally;
extern yk_json json;
