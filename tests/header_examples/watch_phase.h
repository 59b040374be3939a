extern int workers, steps;
