/* Tables about hosts: what they are, what the runs used of them, and what they sent to each other. */
#include "report/compare.h"

#include <stdio.h>
#include <stdlib.h>

enum { MAX_HOSTS = 256, MAX_TO = 24 };

/* ---- what they are ---- */

static const yk__member machine[] = {
    {{"host", .words = true}, "host"},
    {{"CPU", .words = true}, "cpu"},
    {{"cores", "processors of the host", YK_UNIT_INTEGER}, "cores"},
    {{"usable", "cores that affinity and cgroups allow", YK_UNIT_SHORT}, "usable_cores"},
    {{"memory", NULL, YK_UNIT_BYTES}, "memory_bytes"},
    {{"operating system", .words = true}, "os"},
    {{"kernel", .words = true}, "kernel"},
    {{"compiler", "of yoke", .words = true}, "compiler"},
    {{"yoke", .words = true}, "yoke"},
    {{"transport", "between processes", .words = true}, "transport"},
};
enum { MACHINE = sizeof machine / sizeof *machine, TRANSPORT = MACHINE - 1 };

/* Whether row r is about this machine. Runs of one process have no transport: the row gets that of another run. */
static bool is_row_of(yk_table *t, size_t r, const json_t *host)
{
    yk_cell *cell = &t->cell[r * t->columns];
    const char *transport = yk_string_at(host, "transport");
    for (size_t k = 0; k < TRANSPORT; k++) {
        const char *there = yk_string_at(host, machine[k].name);
        if (machine[k].column.words && strcmp(cell[k].text, there ? there : ""))
            return false;
    }
    if (transport && !*cell[TRANSPORT].text)
        cell[TRANSPORT].text = transport; /* of the run, which outlives the table */
    return true;
}

void yk__fill_machines(yk_compare *c, const yk__table_kind *kind, yk_table *t)
{
    (void)kind;
    for (size_t k = 0; k < MACHINE; k++)
        yk_table_column(t, &machine[k].column);
    for (size_t i = 0; i < c->n; i++) {
        const json_t *host;
        size_t h, r = 0;
        json_array_foreach(yk_value_at(c->run[i].summary, "hosts"), h, host)
        {
            for (r = 0; !t->status && r < t->rows && !is_row_of(t, r, host);)
                r++;
            if (r < t->rows)
                continue;
            yk_table_row(t, -1);
            yk__put_members(t, machine, MACHINE, host);
        }
    }
}

/* ---- what the runs used of them ---- */

static const yk__member used[] = {
    {{"CPU", "mean number of busy cores", YK_UNIT_CORES}, "cpu_mean"},
    {{"CPU peak", NULL, YK_UNIT_CORES}, "cpu_peak"},
    {{"memory", "mean", YK_UNIT_BYTES}, "rss_mean"},
    {{"memory peak", NULL, YK_UNIT_BYTES}, "rss_peak"},
    {{"sent", "mean, in messages", YK_UNIT_RATE}, "sent_rate"},
    {{"sent peak", NULL, YK_UNIT_RATE}, "sent_rate_peak"},
    {{"received", "mean, in messages", YK_UNIT_RATE}, "received_rate"},
    {{"received peak", NULL, YK_UNIT_RATE}, "received_rate_peak"},
    {{"disk", "mean, read and written", YK_UNIT_RATE}, "disk_rate"},
    {{"disk peak", NULL, YK_UNIT_RATE}, "disk_rate_peak"},
};
enum { USED = sizeof used / sizeof *used };

/* NAN: also if nothing was sent. */
static double used_of(const yk_run *r, const char *host, const char *name)
{
    const double sum = yk_sum_on_host(r, host, name);
    return sum > 0.0 || !(strstr(name, "sent") || strstr(name, "received")) ? sum : NAN;
}

/* ---- what they sent to each other ---- */

static double sent_between(const yk_run *r, const char *from, const char *to)
{
    const json_t *host;
    size_t h;
    json_array_foreach(yk_value_at(r->summary, "hosts"), h, host)
    {
        const char *name = yk_string_at(host, "host");
        const json_t *bytes = json_object_get(json_object_get(host, "sent_to"), to); /* names may have dots */
        if (name && bytes && !strcmp(name, from))
            return json_number_value(bytes);
    }
    return NAN;
}

/* ---- both: a row for each group of runs and host ---- */

/* Adds the hosts of a run to a list. */
static void list_hosts(const yk_run *r, const char **host, size_t *n)
{
    const json_t *p;
    size_t k;
    json_array_foreach(r->processes, k, p)
    {
        const char *name = yk_string_at(p, "host");
        if (name && *n < MAX_HOSTS && !yk_is_listed(name, host)) {
            host[(*n)++] = name;
            host[*n] = NULL;
        }
    }
}

/* `to`: the hosts that it sent to; NULL: what the runs used of it. */
static void put_row(const yk_compare *c, const yk_config_group *g, const char *host, const char **to,
                    size_t columns, yk_table *t)
{
    const bool failed = yk__all_failed(c, g);
    yk_table_row(t, (int)g->run[0]);
    yk__put_options(c, t, g->run[0]);
    yk_table_number(t, c->facts[g->run[0]].batch, NAN);
    yk_table_text(t, host);
    const size_t n = t->cells;
    yk_table_number(t, NAN, NAN);
    for (size_t k = 0; k < columns; k++) {
        yk_moments m = {0};
        for (size_t i = 0; i < g->n; i++) {
            const yk_run *r = &c->run[g->run[i]];
            if (!c->facts[g->run[i]].failed || failed)
                yk_moments_add(&m, to ? sent_between(r, host, to[k]) : used_of(r, host, used[k].name));
        }
        yk_table_number(t, yk_moments_mean(&m), yk_moments_deviation(&m, YK_MIN_REPEATS));
        if (!t->status && m.n > 0.0 && c->groups < c->n)
            t->cell[n].number = m.n;
    }
}

void yk__fill_by_host(yk_compare *c, const yk__table_kind *kind, yk_table *t)
{
    const bool traffic = !strcmp(kind->id, "traffic-between-hosts");
    const char *host[MAX_HOSTS + 1] = {NULL};
    size_t all = 0;
    for (size_t i = 0; i < c->n; i++)
        list_hosts(&c->run[i], host, &all);
    if (all < 1 + (size_t)traffic)
        return;
    const size_t columns = !traffic ? (size_t)USED : all < MAX_TO ? all : MAX_TO;
    t->keys = yk__add_options(c, t, kind->except) + 2;
    t->lead = all > 1 ? t->keys - 1 : 0; /* the hosts of a configuration */
    yk_table_column(t, &(yk_column){"batch", "examples per worker and step", YK_UNIT_INTEGER});
    yk_table_column(t, traffic ? &(yk_column){"from", .words = true} : &(yk_column){"host", .words = true});
    yk_table_column(t, &(yk_column){"repeats", "runs that are averaged", YK_UNIT_INTEGER});
    for (size_t k = 0; k < columns; k++) {
        yk_column to = {"", "bytes of messages, in the whole run", YK_UNIT_BYTES};
        snprintf(to.title, sizeof to.title, "to %.36s", traffic ? host[k] : "");
        yk_table_column(t, traffic ? &to : &used[k].column);
    }
    for (size_t g = 0; g < c->groups; g++) {
        const char *own[MAX_HOSTS + 1] = {NULL};
        size_t n = 0;
        for (size_t i = 0; i < c->group[g].n; i++)
            list_hosts(&c->run[c->group[g].run[i]], own, &n);
        for (size_t h = 0; h < n && (n > 1 || !traffic); h++)
            put_row(c, &c->group[g], own[h], traffic ? host : NULL, columns, t);
    }
}
