extern yk_status st;
extern yk_model_shape shape;
extern yk_view view;
extern yk_batch batch;
extern yk_grad grad;
extern float *p;
extern double loss;
