extern yk_figure figure;
extern yk_text text;
