extern yk_status st;
extern yk__layer layer;
extern size_t pixels;
