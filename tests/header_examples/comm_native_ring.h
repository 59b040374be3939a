static int64_t pid;
static int descriptor;
static char buffer[8];
