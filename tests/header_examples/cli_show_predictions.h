extern yoke_model *model;
extern yoke_data *data;
extern yoke_prediction how;
extern yoke_error error;
extern int failed;
extern yk_status st;
