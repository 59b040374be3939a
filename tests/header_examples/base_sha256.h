#include <stdio.h>
static const unsigned char key[32], message[4], received[32];
