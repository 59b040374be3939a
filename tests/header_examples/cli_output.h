extern double p;
