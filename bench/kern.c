/* Measures the kernels of the linear models for each instruction set: ns per row of 39 entries, and per MNIST-like image.
 *
 *     build/bench_kern [features]
 */
#include "base/clock.h"
#include "base/perm.h"
#include "data/dataset.h"
#include "kern/linear.h"
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { BATCH = 100, REPEAT = 5 };

static double best_of(void (*work)(void *), void *arg, size_t rows)
{
    double best = 1e30;
    for (int r = 0; r < REPEAT; r++) {
        uint64_t begin = yk_now_ns();
        work(arg);
        double ns = (double)(yk_now_ns() - begin) / (double)rows;
        best = ns < best ? ns : best;
    }
    return best;
}

typedef struct {
    const yk_linear_ops *ops;
    const yk_rows *rows;
    uint32_t *pick;
    yk_view view;
    float z[BATCH], err[BATCH], coef[BATCH];
    int what;
} sparse_bench;

static void sparse_pass(void *arg)
{
    sparse_bench *b = arg;
    for (size_t at = 0; at + 2 * BATCH < b->rows->n; at += BATCH) {
        yk_batch batch = {b->rows, b->pick + at, BATCH, BATCH};
        if (b->what < 2)
            b->ops->margins(&b->view, &batch, b->z);
        if (b->what == 1) /* as in a step: the rows are in the cache */
            b->ops->add_rows(&b->view, &batch, b->coef);
        if (b->what == 2)
            b->ops->logistic(b->z, &batch, b->err);
    }
}

int main(int argc, char **argv)
{
    char spec[128];
    snprintf(spec, sizeof spec, "synth:ctr?examples=300000&features=%s", argc > 1 ? argv[1] : "33762578");
    yk_dataset d;
    yk_source_options none = {0};
    if (yk_dataset_open(spec, YK_SPLIT_TRAIN, &none, YK_STREAM_NEVER, &d)) {
        fprintf(stderr, "%s\n", yk_error());
        return 1;
    }
    yk_rows sample;
    yk_keymap map;
    float *table = calloc(d.dim + 2 + (1 << 17), sizeof *table);
    sparse_bench b = {.rows = d.rows, .pick = malloc(d.rows->n * sizeof *b.pick)};
    if (!table || !b.pick || yk_dataset_sample(&d, 1 << 15, &sample) ||
        yk_keymap_make(&sample, NULL, d.dim, UINT32_MAX, 1 << 17, &map) || yk_dataset_remap_keys(&d, &map))
        return 1;
    yk_perm perm = yk_perm_make(d.rows->n, 1);
    for (size_t i = 0; i < d.rows->n; i++)
        b.pick[i] = (uint32_t)yk_perm_at(&perm, i);
    for (int i = 0; i < BATCH; i++)
        b.coef[i] = 1e-6f;
    static const char *const names[] = {"margins", "both", "logistic"};
    for (int isa = 0; isa <= (int)yk_isa_best(); isa++)
        for (b.what = 0; b.what < 3; b.what++) {
            b.ops = YK_ISA_AT(yk_linear, (yk_isa)isa);
            b.view = (yk_view){.w = table};
            double plain = best_of(sparse_pass, &b, d.rows->n);
            b.view = (yk_view){.w = table + map.hot, .hot = map.hot, .shift = -(int32_t)map.hot};
            printf("%-8s %-10s %7.1f ns per row, %7.1f with copies of %u hot keys\n",
                   yk_isa_name((yk_isa)isa), names[b.what], plain, best_of(sparse_pass, &b, d.rows->n),
                   map.hot);
        }
    yk_rows_fini(&sample);
    yk_keymap_fini(&map);
    yk_dataset_fini(&d);
    free(b.pick);
    free(table);
    return 0;
}
