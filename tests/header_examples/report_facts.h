extern yk_run run;
extern yk_text text;
