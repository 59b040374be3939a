#include <sys/socket.h>
extern int fd;
extern const struct sockaddr *address;
extern socklen_t size;
