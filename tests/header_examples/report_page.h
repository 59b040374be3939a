extern yk_compare compare;
extern yk_warnings warnings;
extern yk_figures figures;
