extern yk_phases *p;
