extern const char *text;
