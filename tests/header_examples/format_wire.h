extern const uint8_t *p, *end, *span;
extern uint64_t tag;
extern size_t n;
void use(const uint8_t *bytes, size_t size);
