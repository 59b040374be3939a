extern int threads;
