/* Measures the products on blocks of images: GFLOP/s for the layer shapes of LeNet and AlexNet, to compare with the CPU's peak.
 *
 *     build/bench_block
 */
#include "kern/block.h"
#include "base/clock.h"
#include <stdio.h>
#include <stdlib.h>

static double seconds_of(void (*work)(void *), void *arg)
{
    double best = 1e30;
    for (int r = 0; r < 5; r++) {
        double begin = yk_now();
        work(arg);
        double s = yk_now() - begin;
        best = s < best ? s : best;
    }
    return best;
}

typedef struct {
    const yk_block_ops *ops;
    yk_block_mul mul;
    yk_block_outer outer;
    size_t m, p, k;
} bench;

static void run_mul(void *arg)
{
    bench *b = arg;
    b->ops->mul(&b->mul, 0, b->m, 0, b->p);
}

static void run_outer(void *arg)
{
    bench *b = arg;
    b->ops->outer(&b->outer, 0, b->m, 0, b->k);
}

/* A convolution of `in` channels of side x side with `out` filters of f x f, no padding. */
static void conv(const char *name, size_t in, size_t side, size_t out, size_t f)
{
    const size_t o = side - f + 1, k = in * f * f, p = o * o;
    float *x = calloc(in * side * side * YK_LANES, sizeof *x), *w = calloc(out * k, sizeof *w);
    float *y = calloc(out * p * YK_LANES, sizeof *y), *d = calloc(out * k, sizeof *d);
    int32_t *a_k = calloc(k, sizeof *a_k), *b_k = calloc(k, sizeof *b_k), *b_p = calloc(p, sizeof *b_p),
            *c_p = calloc(p, sizeof *c_p);
    if (!x || !w || !y || !d || !a_k || !b_k || !b_p || !c_p)
        exit(4);
    for (size_t i = 0; i < k; i++) {
        a_k[i] = (int32_t)i;
        b_k[i] = (int32_t)(((i / (f * f)) * side * side + (i / f % f) * side + i % f) * YK_LANES);
    }
    for (size_t i = 0; i < p; i++) {
        b_p[i] = (int32_t)((i / o * side + i % o) * YK_LANES);
        c_p[i] = (int32_t)(i * YK_LANES);
    }
    bench b = {.m = out, .p = p, .k = k};
    b.mul = (yk_block_mul){.k = k,
                           .a = w,
                           .a_m = (int64_t)k,
                           .a_k = a_k,
                           .b = x,
                           .b_p = b_p,
                           .b_k = b_k,
                           .c = y,
                           .c_m = (int64_t)(p * YK_LANES),
                           .c_p = c_p};
    b.outer = (yk_block_outer){.p = p,
                               .y = y,
                               .y_m = (int64_t)(p * YK_LANES),
                               .y_p = c_p,
                               .x = x,
                               .x_p = b_p,
                               .x_k = b_k,
                               .d = d,
                               .d_m = (int64_t)k};
    double flops = 2.0 * (double)(out * p * k) * YK_LANES;
    printf("%-28s", name);
    for (int isa = 0; isa <= (int)yk_isa_best(); isa++) {
        b.ops = YK_ISA_AT(yk_block, (yk_isa)isa);
        printf("  %s: mul %6.1f, outer %6.1f", yk_isa_name((yk_isa)isa),
               flops / seconds_of(run_mul, &b) * 1e-9, flops / seconds_of(run_outer, &b) * 1e-9);
    }
    printf(" GFLOP/s\n");
    free(x), free(w), free(y), free(d), free(a_k), free(b_k), free(b_p), free(c_p);
}

int main(void)
{
    conv("lenet conv1 1x32 6 5x5", 1, 32, 6, 5);
    conv("lenet conv2 6x14 16 5x5", 6, 14, 16, 5);
    conv("alexnet conv2 64x31 192 5x5", 64, 31, 192, 5);
    conv("alexnet conv3 192x15 384 3x3", 192, 15, 384, 3);
    return 0;
}
