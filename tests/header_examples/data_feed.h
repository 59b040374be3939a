extern yk_status st;
extern yk_dataset dataset;
extern yk_feed_plan plan;
extern int worker;
void train_on(const yk_batch *batch);
