static const unsigned char token[32];
