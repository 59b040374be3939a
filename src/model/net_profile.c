/* Where the time of a network goes: layer by layer, forward and backward, beside what the processor can do at best.
 *
 * Thread 0 of a worker reads the clock after each layer and the barrier that ends it, so that a layer's time holds the waiting for
 * its slowest thread. Only passes that make gradients are counted, not evaluations.
 */
#include "model/net.h"

#include "base/clock.h"
#include "base/mem.h"
#include "watch/trace.h"
#include <stdio.h>

uint64_t yk__profile_add(yk__profile *p, int slot, uint64_t since)
{
    const uint64_t now = yk_now_ns();
    p->slot[slot].ns += now - since;
    yk_trace_slice(p->track, p->name[slot], since, now - since);
    return now;
}

void yk__profile_count(yk__profile *p, int slot, size_t blocks)
{
    p->slot[slot].calls++;
    p->slot[slot].blocks += blocks;
}

void yk__profile_trace(yk__profile *p, const yk__net *net, struct yk_trace_track *track)
{
    p->track = track;
    snprintf(p->name[0], sizeof p->name[0], "images in"); /* "input" is the phase of waiting for them */
    snprintf(p->name[yk__slot_loss(net)], sizeof p->name[0], "softmax, loss");
    for (int i = 0; i < net->nlayers; i++) {
        snprintf(p->name[yk__slot_forward(i)], sizeof p->name[0], "%.60s", net->layer[i].text);
        snprintf(p->name[yk__slot_backward(net, i)], sizeof p->name[0], "%.60s, backward",
                 net->layer[i].text);
    }
}

/* Bytes of an image's activations beside a layer, and of its weights. */
static void bytes_of(const yk__layer *l, bool back, double *image, double *call)
{
    const double in = 4.0 * (double)yk__edge_size(&l->in_edge),
                 out = 4.0 * (double)yk__edge_size(&l->out_edge);
    const double weights = 4.0 * (double)(l->weights + l->biases);
    *image = back ? in + out + (l->first ? 0.0 : in) : in + out; /* x, dy, and dx written */
    *call = back ? 3.0 * weights : weights; /* weights read, their gradient read and written */
}

static void fill(const yk__profile *p, int slot, const char *text, const char *pass, const yk__edge *e,
                 double flops, double image, double call, yk_profile_line *out)
{
    const double images = (double)p->slot[slot].blocks * YK_LANES, calls = (double)p->slot[slot].calls;
    *out = (yk_profile_line){.pass = pass,
                             .rank = e->height == 1 && e->width == 1 ? 1 : 3,
                             .shape = {e->channels, e->height, e->width},
                             .calls = p->slot[slot].calls,
                             .seconds = (double)p->slot[slot].ns * 1e-9,
                             .flops = flops * images,
                             .bytes = image * images + call * calls};
    snprintf(out->text, sizeof out->text, "%s", text);
}

int yk__profile_lines(const yk__profile *p, const yk__net *net, yk_profile_line *out, int most)
{
    const yk__edge *first = &net->edge[0], *last = &net->edge[net->nedges - 1];
    int n = 0;
    if (most < 2 + 2 * net->nlayers)
        return 0;
    fill(p, 0, "input", "forward", first, 0.0, 5.0 * (double)yk__edge_size(first), 0.0, &out[n++]);
    fill(p, yk__slot_loss(net), "softmax, loss", "forward", last, 0.0, 8.0 * (double)yk__edge_size(last), 0.0,
         &out[n++]);
    for (int i = 0; i < net->nlayers; i++) {
        const yk__layer *l = &net->layer[i];
        double image, call;
        bytes_of(l, false, &image, &call);
        fill(p, yk__slot_forward(i), l->text, "forward", &l->out_edge, l->flops, image, call, &out[n++]);
        bytes_of(l, true, &image, &call);
        fill(p, yk__slot_backward(net, i), l->text, "backward", &l->out_edge, yk__flops_back(l), image, call,
             &out[n++]);
    }
    return n;
}

/* FLOP/s of one thread on products that stay in the first cache: the best of a few shapes, for a few milliseconds each. */
enum { PEAK_M = 96, PEAK_K = 256, PEAK_P = 48, PEAK_NS = 8000000 };

static double rate_of(const yk_block_ops *ops, yk_block_mul *w, size_t k, size_t p)
{
    double best = 0.0;
    w->k = k;
    for (uint64_t begin = yk_now_ns(), now = begin; now - begin < PEAK_NS;) {
        const uint64_t from = now;
        for (int i = 0; i < 4; i++)
            ops->mul(w, 0, PEAK_M, 0, p);
        now = yk_now_ns();
        const double rate = 4.0 * 2.0 * (double)(PEAK_M * k * p * YK_LANES) / ((double)(now - from) * 1e-9);
        best = rate > best ? rate : best;
    }
    return best;
}

double yk__net_peak(void)
{
    static const struct {
        size_t k, p;
    } shapes[] = {{32, 12}, {64, 12}, {128, 12}, {64, 48}, {256, 24}, {256, 48}};
    float *a = yk_alloc(PEAK_M * PEAK_K, sizeof *a, "a measurement"),
          *b = yk_alloc(PEAK_K * PEAK_P * YK_LANES, sizeof *b, "a measurement"),
          *c = yk_alloc(PEAK_M * PEAK_P * YK_LANES, sizeof *c, "a measurement");
    int32_t a_k[PEAK_K], b_k[PEAK_K], p[PEAK_P];
    double best = 0.0;
    for (int32_t i = 0; i < PEAK_K; i++) {
        a_k[i] = i;
        b_k[i] = i * PEAK_P * YK_LANES;
    }
    for (int32_t i = 0; i < PEAK_P; i++)
        p[i] = i * YK_LANES;
    yk_block_mul w = {.a = a,
                      .a_m = PEAK_K,
                      .a_k = a_k,
                      .b = b,
                      .b_p = p,
                      .b_k = b_k,
                      .c = c,
                      .c_m = PEAK_P * YK_LANES,
                      .c_p = p};
    for (size_t i = 0; a && b && c && i < sizeof shapes / sizeof *shapes; i++) {
        const double rate = rate_of(yk_block(), &w, shapes[i].k, shapes[i].p);
        best = rate > best ? rate : best;
    }
    yk_free(a);
    yk_free(b);
    yk_free(c);
    return best; /* 0: not known */
}
