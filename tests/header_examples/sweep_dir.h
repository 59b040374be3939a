extern yk_sweep_plan plan;
