/* The optimizers. Only their rules (rules.simd.c) and tests name them; other code knows their traits (optim.h).
 *
 * With G the mean gradient (plus l2 w), per weight:
 *
 *     sgd       w -= lr G
 *     momentum  v = mu v + G;                     w -= lr v
 *     nesterov  v = mu v + G;                     w -= lr (G + mu v)                        (Sutskever et al. 2013)
 *     adagrad   s += G^2;                         w -= lr G / (sqrt(s) + eps)               (Duchi et al. 2011)
 *     rowwise-adagrad  the same, but s += the mean of G^2 over the vector of a key: one step size for all of it. Its
 *               elements have equal s
 *     adam      m, v: moving means of G and G^2;  w -= lr m^ / (sqrt(v^) + eps)             (Kingma, Ba 2015)
 *     adamw     the same with decoupled decay: w -= lr l2 w first; l2 w is not part of G    (Loshchilov, Hutter 2019)
 *     ftrl      z += G - w (sqrt(n + G^2) - sqrt(n)) / lr;  n += G^2
 *               w = 0 where |z| <= l1, else -(z - sign(z) l1) / ((beta + sqrt(n)) / lr + l2)  (McMahan et al. 2013)
 */
#ifndef YK_OPTIM_KINDS_H
#define YK_OPTIM_KINDS_H

/* The values of yk_optim_kind. Checkpoints do not contain them. */
typedef enum {
    YK_SGD,
    YK_MOMENTUM,
    YK_ADAGRAD,
    YK_ADAM,
    YK_FTRL,
    YK_ROWWISE,
    YK_NESTEROV,
    YK_ADAMW,
    YK_OPTIM_KINDS
} yk_optimizer;

#endif
