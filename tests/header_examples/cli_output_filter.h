#include <stdio.h>
extern int job_stderr, job_stdout;
