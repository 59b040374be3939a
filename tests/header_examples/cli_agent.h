extern int fd;
