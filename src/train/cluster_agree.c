/* Checks that all processes of a job have the same program, options, data and initial parameters. An error names the rank
 * and the difference. */
#include "train/setup.h"

#include "base/crc.h"
#include <fcntl.h>
#include <string.h>
#include <unistd.h>

yk_status yk__all_reduce(const yk__trainer *t, void *mine, size_t bytes, yk__combine_op *combine,
                         const char *what)
{
    const yk__cluster *k = &t->cluster;
    const double limit = t->plan->startup_timeout;
    void *all = NULL;
    if (k->rank == 0 && !(all = yk_alloc((size_t)k->ranks, bytes, "the facts of all processes")))
        return YK_ESYSTEM;
    yk_status st = yk_comm_gather(k->comm, mine, bytes, all, limit, what);
    if (!st && all)
        st = combine(t, all, mine);
    yk_free(all);
    return st ? st : yk_comm_broadcast(k->comm, mine, bytes, limit, what);
}

#define PRIME 0x100000001b3u /* of the FNV hash */

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
        const uint32_t crc = o->kind != YK_OPT_TEXT ? yk_crc32c(field, yk_option_size(o))
                             : text                 ? yk_crc32c(text, strlen(text))
                                                    : 1;
        hash = hash * PRIME + crc;
    }
    return hash;
}

static uint64_t hash_program(void)
{
    char buf[65536];
    uint64_t hash = 0;
    int fd = open("/proc/self/exe", O_RDONLY | O_CLOEXEC);
    for (ssize_t n; fd >= 0 && (n = read(fd, buf, sizeof buf)) > 0;)
        hash = hash * PRIME + yk_crc32c(buf, (size_t)n);
    if (fd >= 0)
        close(fd);
    return hash;
}

static uint64_t hash_row(const yk_rows *rows, size_t r, uint64_t hash)
{
    hash = hash * PRIME + (uint32_t)rows->label[r];
    if (rows->kind == YK_ROWS_SPARSE) {
        const size_t at = (size_t)rows->start[r], n = yk_rows_entries(rows, r);
        hash += yk_crc32c(rows->index + at, n * sizeof *rows->index);
        return rows->field ? hash * PRIME + yk_crc32c(rows->field + at, n * sizeof *rows->field) : hash;
    }
    if (rows->kind == YK_ROWS_U8)
        return hash + yk_crc32c(rows->u8 + r * rows->dim, rows->dim);
    return hash + yk_crc32c(rows->f32 + r * rows->dim, rows->dim * sizeof *rows->f32);
}

/* Hashes some rows. For files, also their size and some rows from the beginning, the middle and the end, read by this
 * process: rows in memory may come from other processes. */
static yk_status hash_data(const yk_dataset *d, uint64_t *out)
{
    enum { ROWS = 16 };
    const yk_rows *rows = d->rows;
    yk_source *s = d->source;
    yk_status st = YK_OK;
    *out = d->examples * 31 + (s->cached ? yk_rows_bytes(s->cached) : s->files.bytes) * 7 + s->nblocks;
    for (size_t i = 0; rows && rows->n && i < 64; i++)
        *out = hash_row(rows, rows->n * i / 64, *out);
    for (size_t i = 0; !st && s->files.bytes && !s->cached && s->nblocks && i < 3; i++) {
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

/* What a worker that joins must have in common with the job. */
static uint64_t identity_hash(const identity *i)
{
    return ((i->program * PRIME + i->options) * PRIME + i->data) * PRIME + i->nparams;
}

/* NULL, or how rank `i` differs. *from_out: from which rank. */
static const char *difference(const yk_plan *p, const identity *all, int i, int *from_out)
{
    const identity *other = &all[i], *chief = &all[0];
    *from_out = 0;
    if (other->program != chief->program)
        return "runs a different version or build of yoke";
    if (other->options != chief->options)
        return "has different options";
    if (i >= p->first_client && other->data != all[p->first_client].data) {
        *from_out = p->first_client;
        return "has different data";
    }
    return other->nparams != chief->nparams         ? "has a model of a different size"
           : other->parameters != chief->parameters ? "starts with different parameters"
                                                    : NULL;
}

/* yk__all_reduce(): the identity of all, with the data of the processes that read it. */
static yk_status compare(const yk__trainer *t, const void *identities, void *out)
{
    const yk_plan *p = t->plan;
    const identity *all = identities;
    yk_status st = YK_OK;
    for (int i = 1; !st && i < t->cluster.ranks; i++) {
        int from;
        const char *what = difference(p, all, i, &from);
        if (what)
            st = yk_fail(
                YK_EUSAGE,
                "rank %d %s than rank %d: all processes of a job must use the same program, options and data",
                i, what, from);
    }
    ((identity *)out)->data = all[p->first_client].data;
    return st;
}

/* Lets workers join. All ranks call it. */
static yk_status open_for_workers(yk__trainer *t, uint64_t hash)
{
    const yk_plan *p = t->plan;
    const yk_config *c = t->config;
    yk__cluster *k = &t->cluster;
    if (yk_plan_join_obstacle(c, p))
        return YK_OK;
    const bool anywhere = c->network && strcmp(c->network, "any") == 0;
    yk_status st = yk_comm_open(k->comm, p->servers, anywhere, p->startup_timeout, &k->join_text);
    if (!st && k->server)
        yk_server_open(k->server, hash);
    return st;
}

yk_status yk__cluster_check(yk__trainer *t, uint64_t parameters)
{
    if (t->plan->alone)
        return YK_OK;
    identity mine = {.options = hash_options(t->config),
                     .program = hash_program(),
                     .nparams = t->model->nparams,
                     .parameters = parameters};
    yk_status st = t->plan->trains ? hash_data(&t->train, &mine.data) : YK_OK;
    if (st)
        return st;
    if (t->cluster.joined)
        return yk_shards_join(t->cluster.shards, identity_hash(&mine));
    st = yk__all_reduce(t, &mine, sizeof mine, compare, "all processes to be ready");
    return st ? st : open_for_workers(t, identity_hash(&mine));
}
