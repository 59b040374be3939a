extern yk_status st;
yk_status set(const char *section, const char *name, const char *value);
