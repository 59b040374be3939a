/* Reference implementation of block.h in plain C. */
#include "references.h"

static void mul(const yk_block_mul *w, size_t m_begin, size_t m_end, size_t p_begin, size_t p_end)
{
    for (size_t m = m_begin; m < m_end; m++)
        for (size_t p = p_begin; p < p_end; p++)
            for (int lane = 0; lane < YK_LANES; lane++) {
                float *c = w->c + (int64_t)m * w->c_m + w->c_p[p] + lane;
                double sum = w->add ? (double)*c : w->bias ? (double)w->bias[m] : 0.0;
                for (size_t k = 0; k < w->k; k++)
                    sum += (double)w->a[(int64_t)m * w->a_m + w->a_k[k]] *
                           (double)w->b[w->b_p[p] + w->b_k[k] + lane];
                *c = (float)sum;
            }
}

static void outer(const yk_block_outer *w, size_t m_begin, size_t m_end, size_t k_begin, size_t k_end)
{
    for (size_t m = m_begin; m < m_end; m++)
        for (size_t k = k_begin; k < k_end; k++) {
            double sum = 0.0;
            for (size_t p = 0; p < w->p; p++)
                for (int lane = 0; lane < YK_LANES; lane++)
                    sum += (double)w->y[(int64_t)m * w->y_m + w->y_p[p] + lane] *
                           (double)w->x[w->x_p[p] + w->x_k[k] + lane];
            w->d[(int64_t)m * w->d_m + (int64_t)k] += (float)sum;
        }
}

static void sum(const yk_block_outer *w, size_t m_begin, size_t m_end, float *s)
{
    for (size_t m = m_begin; m < m_end; m++) {
        double all = 0.0;
        for (size_t p = 0; p < w->p; p++)
            for (int lane = 0; lane < YK_LANES; lane++)
                all += (double)w->y[(int64_t)m * w->y_m + w->y_p[p] + lane];
        s[m] += (float)all;
    }
}

const yk_block_ops yk_block_ref = {mul, outer, sum};
