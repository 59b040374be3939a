extern yk_compare compare;
extern yk_figures figures;
