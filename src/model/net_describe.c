/* Descriptions of a network: its layers with their costs (--dry-run); the time of each layer, forward and backward, and the peak
 * performance of the processor for comparison (--profile).
 *
 * Thread 0 of a worker reads the clock after the barrier that follows each layer, so that the time of a layer includes waiting
 * for the slowest thread. Only training passes are measured, not evaluations.
 */
#include "model/net.h"

#include "base/clock.h"
#include "base/mem.h"
#include "watch/trace.h"
#include <stdio.h>

/* ---- layers ---- */

static int rank_of(const yk__edge *e)
{
    return e->height == 1 && e->width == 1 ? 1 : 3;
}

/* The gradients of the weights and of the input each cost as much as the forward product. */
static double flops_back(const yk__layer *l)
{
    return l->no_input_gradient ? l->flops : 2.0 * l->flops;
}

static yk_layer_line line_of(const yk__edge *e, const char *text, size_t bytes)
{
    yk_layer_line line = {.rank = rank_of(e), .shape = {e->channels, e->height, e->width}, .bytes = bytes};
    snprintf(line.text, sizeof line.text, "%s", text);
    return line;
}

int yk__net_describe(const yk__net *net, size_t blocks, yk_layer_line *out)
{
    int n = 0;
    out[n++] = line_of(&net->edge[0], "input", yk__edge_bytes(&net->edge[0], blocks));
    for (int i = 0; i < net->nlayers; i++, n++) {
        const yk__layer *l = &net->layer[i];
        out[n] = line_of(&l->out_edge, l->text, l->in == l->out ? 0 : yk__edge_bytes(&l->out_edge, blocks));
        out[n].params = l->weights + l->biases;
        out[n].flops = l->flops;
        out[n].flops_back = flops_back(l);
        if (l->ops->flat_output) { /* the layout is the same, but users expect one dimension */
            out[n].rank = 1;
            out[n].shape[0] = yk__edge_size(&l->out_edge);
        }
    }
    return n;
}

/* ---- time ---- */

uint64_t yk__profile_add(yk__profile *p, int slot, uint64_t since, size_t blocks)
{
    const uint64_t now = yk_now_ns();
    p->slot[slot].ns += now - since;
    p->slot[slot].calls += blocks > 0; /* 0: more time for the last call */
    p->slot[slot].blocks += blocks;
    yk_trace_slice(p->track, p->name[slot], since, now - since);
    return now;
}

static const char *loss_of(const yk__net *net)
{
    return net->is_branch ? "logistic loss" : "softmax, loss";
}

void yk__profile_trace(yk__profile *p, const yk__net *net, struct yk_trace_track *track)
{
    p->track = track;
    /* "input" is the phase of waiting for data */
    snprintf(p->name[YK__SLOT_INPUT], sizeof p->name[0], "%s", net->is_branch ? "embed" : "load images");
    snprintf(p->name[YK__SLOT_LOSS], sizeof p->name[0], "%s", loss_of(net));
    for (int i = 0; i < net->nlayers; i++) {
        snprintf(p->name[i], sizeof p->name[0], "%.60s", net->layer[i].text);
        snprintf(p->name[YK__SLOT_BACKWARD + i], sizeof p->name[0], "%.60s, backward", net->layer[i].text);
    }
}

/* image, call: bytes that are read and written per image, and once per call. Returns the next line. */
static yk_profile_line *fill(const yk__profile *p, int slot, const char *text, const char *pass,
                             const yk__edge *e, double flops, double image, double call, yk_profile_line *out)
{
    const double images = (double)p->slot[slot].blocks * YK_LANES, calls = (double)p->slot[slot].calls;
    *out = (yk_profile_line){.pass = pass,
                             .rank = rank_of(e),
                             .shape = {e->channels, e->height, e->width},
                             .calls = p->slot[slot].calls,
                             .seconds = (double)p->slot[slot].ns * 1e-9,
                             .flops = flops * images,
                             .bytes = image * images + call * calls};
    snprintf(out->text, sizeof out->text, "%s", text);
    return out + 1;
}

int yk__profile_lines(const yk__profile *p, const yk__net *net, yk_profile_line *out)
{
    const yk__edge *first = &net->edge[0], *last = &net->edge[net->nedges - 1];
    yk_profile_line *to = fill(p, YK__SLOT_INPUT, net->is_branch ? "embed" : "input", "forward", first, 0.0,
                               5.0 * (double)yk__edge_size(first), 0.0, out);
    to = fill(p, YK__SLOT_LOSS, loss_of(net), "forward", last, 0.0, 8.0 * (double)yk__edge_size(last), 0.0,
              to);
    for (int i = 0; i < net->nlayers; i++) {
        const yk__layer *l = &net->layer[i];
        const double x = 4.0 * (double)yk__edge_size(&l->in_edge),
                     y = 4.0 * (double)yk__edge_size(&l->out_edge), dx = l->no_input_gradient ? 0.0 : x,
                     weights = 4.0 * (double)(l->weights + l->biases);
        to = fill(p, i, l->text, "forward", &l->out_edge, l->flops, x + y, weights, to);
        to = fill(p, YK__SLOT_BACKWARD + i, l->text, "backward", &l->out_edge, flops_back(l), x + y + dx,
                  3.0 * weights, to); /* reads weights, reads and writes their gradient */
    }
    return (int)(to - out);
}

/* Peak FLOP/s of one thread, on products that fit into the L1 cache: the best of a few shapes, a few milliseconds each. */
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

double yk_net_peak(void)
{
    static const struct {
        size_t k, p;
    } shapes[] = {{32, 12}, {64, 12}, {128, 12}, {64, 48}, {256, 24}, {256, 48}};
    float *a = yk_alloc(PEAK_M * PEAK_K, sizeof *a, "measuring peak FLOP/s"),
          *b = yk_alloc(PEAK_K * PEAK_P * YK_LANES, sizeof *b, "measuring peak FLOP/s"),
          *c = yk_alloc(PEAK_M * PEAK_P * YK_LANES, sizeof *c, "measuring peak FLOP/s");
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
    return best; /* 0: unknown (out of memory) */
}
