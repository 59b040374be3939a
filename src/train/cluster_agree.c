/* Are the processes of a job one training? The same program, options, data and first parameters, or an error that names the
 * rank and what differs. */
#include "train/trainer.h"

#include "format/crc.h"
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

typedef struct {
    uint64_t options, program, data, parameters, nparams;
} identity;

static uint64_t hash_options(const yk_config *c)
{
    uint64_t hash = 0;
    for (const yk_option *o = yk_options; o->name; o++) {
        const char *field = (const char *)c + o->offset;
        if (!(o->flags & YK_OPT_MUST_AGREE))
            continue;
        const char *text = o->kind == YK_OPT_TEXT ? *(char *const *)(const void *)field : NULL;
        uint32_t crc = o->kind == YK_OPT_TEXT   ? (text ? yk_crc32c(text, strlen(text)) : 1)
                       : o->kind == YK_OPT_FLAG ? yk_crc32c(field, sizeof(bool))
                                                : yk_crc32c(field, 8);
        hash = hash * 0x100000001b3u + crc;
    }
    return hash;
}

static uint64_t hash_program(void)
{
    char buf[65536];
    uint64_t hash = 0;
    int fd = open("/proc/self/exe", O_RDONLY | O_CLOEXEC);
    for (ssize_t n; fd >= 0 && (n = read(fd, buf, sizeof buf)) > 0;)
        hash = hash * 0x100000001b3u + yk_crc32c(buf, (size_t)n);
    if (fd >= 0)
        close(fd);
    return hash;
}

static uint64_t hash_row(const yk_rows *rows, size_t r, uint64_t hash)
{
    hash = hash * 0x100000001b3u + (uint32_t)rows->label[r];
    if (rows->kind == YK_ROWS_SPARSE)
        return hash + yk_crc32c(rows->index + rows->start[r], yk_rows_entries(rows, r) * sizeof *rows->index);
    if (rows->kind == YK_ROWS_U8)
        return hash + yk_crc32c(rows->u8 + r * rows->dim, rows->dim);
    return hash + yk_crc32c(rows->f32 + r * rows->dim, rows->dim * sizeof *rows->f32);
}

/* Some rows of it. Of files also how long they are, and some rows from their beginning, middle and end as this process sees
 * them: rows in memory came from the others, too. */
static yk_status hash_data(yk__trainer *t, uint64_t *out)
{
    enum { ROWS = 16 };
    const yk_rows *rows = t->train.rows;
    yk_source *s = t->train.source;
    yk_status st = YK_OK;
    *out = t->train.examples * 31 + s->bytes * 7 + s->nblocks;
    for (size_t i = 0; rows && rows->n && i < 64; i++)
        *out = hash_row(rows, rows->n * i / 64, *out);
    for (size_t i = 0; !st && s->bytes && !s->cached && s->nblocks && i < 3; i++) {
        yk_rows part;
        yk_reader *r;
        size_t got;
        yk_rows_init(&part, s->kind, s->dim);
        if (!(st = yk_source_read(s, (s->nblocks - 1) * i / 2, &r))) {
            st = yk_reader_next(r, &part, ROWS, &got);
            yk_reader_free(r);
        }
        for (size_t k = 0; !st && k < part.n; k++)
            *out = hash_row(&part, k, *out);
        yk_rows_fini(&part);
    }
    return st;
}

static uint64_t identity_hash(const yk__trainer *t, uint64_t data)
{
    return ((hash_program() * 0x100000001b3u + hash_options(t->config)) * 0x100000001b3u + data) *
               0x100000001b3u +
           t->model->nparams;
}

yk_status yk__cluster_agree(yk__trainer *t)
{
    yk__cluster *k = &t->cluster;
    if (k->role == YK__ALONE)
        return YK_OK;
    uint64_t own_data = 0;
    yk_status st = k->role == YK__SERVER ? YK_OK : hash_data(t, &own_data);
    if (st)
        return st;
    if (k->joined)
        return yk_remote_hello(k->remote, identity_hash(t, own_data));
    identity mine = {.options = hash_options(t->config),
                     .program = hash_program(),
                     .nparams = t->model->nparams},
             *all = NULL;
    mine.data = own_data;
    if (k->role == YK__REPLICA)
        mine.parameters = yk__parameter_hash(t);
    if (k->rank == 0 && !(all = yk_alloc((size_t)k->ranks, sizeof *all, "the comparison of processes")))
        return YK_ESYSTEM;
    st = yk_comm_gather(k->comm, &mine, sizeof mine, all, t->plan->start_limit, "all processes to be ready");
    for (int i = 1; !st && k->rank == 0 && i < k->ranks; i++) {
        const identity *other = &all[i], *worker = &all[k->first];
        const char *what = other->program != mine.program   ? "is another program (another version, or build)"
                           : other->options != mine.options ? "was given other options"
                           : i >= k->first && other->data != worker->data ? "has other data"
                           : other->nparams != mine.nparams               ? "has a model of another size"
                           : other->parameters != mine.parameters         ? "begins with other parameters"
                                                                          : NULL;
        if (what)
            st = yk_fail(YK_EUSAGE, "rank %d %s than rank %d: they would not be one training", i, what,
                         i >= k->first && other->data != worker->data ? k->first : 0);
    }
    uint64_t data = all && !st ? all[k->first].data : 0;
    yk_free(all);
    if (!st)
        st =
            yk_comm_broadcast(k->comm, &data, sizeof data, t->plan->start_limit, "all processes to be ready");
    if (!st && k->role == YK__SERVER && k->cursor_kind == 2 && t->plan->joinable && getenv("YK_JOINABLE")) {
        st = yk_server_open(k->server, identity_hash(t, data));
        k->no_finalize = true; /* a thread waits in MPI for others: there is no way out of it but to end */
    }
    return st;
}
