extern yk_compare compare;
extern yk_figures figures;
extern yk_text text;
