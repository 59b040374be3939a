extern void write_files(const char *dir);
