extern const yk_tally tally;
