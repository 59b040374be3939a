#include "base/keys.h"

#include "base/mem.h"
#include <string.h>

yk_status yk_merger_init_wide(yk_merger *m, size_t keys, uint32_t width)
{
    *m = (yk_merger){.width = width};
    return yk_merger_reserve(m, keys);
}

yk_status yk_merger_init(yk_merger *m, size_t keys)
{
    return yk_merger_init_wide(m, keys, 1);
}

void yk_merger_fini(yk_merger *m)
{
    yk_free(m->key);
    yk_free(m->value);
    yk_free(m->slot);
    *m = (yk_merger){0};
}

yk_status yk_merger_reserve(yk_merger *m, size_t keys)
{
    if (keys <= m->cap && m->cap) {
        yk_merger_clear(m);
        return YK_OK;
    }
    size_t slots = 64;
    while (slots < 2 * keys)
        slots *= 2;
    const uint32_t width = m->width ? m->width : 1;
    yk_merger_fini(m);
    m->width = width;
    m->cap = slots / 2;
    m->slots = slots;
    m->key = yk_alloc(m->cap, sizeof *m->key, "the keys of a batch");
    m->value = yk_alloc(m->cap * width, sizeof *m->value, "the gradient of a batch");
    m->slot = yk_alloc(slots, sizeof *m->slot, "the keys of a batch");
    m->stamp = 1;
    return m->key && m->value && m->slot ? YK_OK : YK_ESYSTEM;
}

yk_status yk_merger_grow(yk_merger *m, size_t keys)
{
    if (m->n + keys <= m->cap)
        return YK_OK;
    yk_merger old = *m;
    yk_status st = yk_merger_init_wide(m, 2 * old.n + keys, old.width);
    for (size_t i = 0; !st && i < old.n; i++)
        memcpy(m->value + (size_t)yk_merger_slot_wide(m, old.key[i], m->width) * m->width,
               old.value + i * m->width, m->width * sizeof *m->value);
    yk_merger_fini(&old);
    return st;
}

void yk_merger_clear(yk_merger *m)
{
    m->n = 0;
    if (++m->stamp == 0) { /* after 2^32 clears old stamps would look current */
        memset(m->slot, 0, m->slots * sizeof *m->slot);
        m->stamp = 1;
    }
}
