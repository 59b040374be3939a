extern yk_view view;
extern yk_batch batch;
extern float *z, *err, *step;
