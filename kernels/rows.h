/* SPDX-License-Identifier: Apache-2.0
 *
 * Softmax and norms of rows that the items of a group keep, for rows.k and operands.k, behind lanes.h. */

#ifdef K_CUDA
#undef KERNEL /* with the registers that two groups on a multiprocessor leave */
#define KERNEL(name, args) extern "C" __global__ void __launch_bounds__(K_WG, 32 / sizeof(idx) / sizeof(R)) name args
#endif

#ifndef K_LOOPS
DEFINE_REDUCE_LANES(SUM, R)
DEFINE_REDUCE_LANES(LATER, R)

#ifdef K_OPENCL /* else values would be in memory, where constants are arguments */
#define INLINED static inline __attribute__((always_inline))
#else
#define INLINED FN
#endif

/* A row that fits is read from memory once and stays in registers, KEPT shares of it in each item. */
#define KEPT (128 / (int)sizeof(R) / SHARE(T))
#define FITS(x)                                                                                         \
    (IS_POSSIBLE(lanes) && (idx)cols + (cols % SHARE(T) == 0 ? SHIFT_OF(x) : SHARE(T) - 1) <= KEPT * SHARE(T) * lanes)
#define AT(k) (((idx)(k) * lanes + LANE(lanes)) * SHARE(T) - (ragged ? shift : 0))
#define EACH_KEPT(k) UNROLL for (int k = 0; k < KEPT; k++) if (AT(k) < cols)

/* Of x scale + mask, where `changed` and `masked` say so. */
INLINED void softmax_lanes(GLOBAL const T *x, GLOBAL const T *mask, GLOBAL T *y, const idx cols, const R scale, const int lanes,
                      const bool logarithm, const bool changed, const bool masked, LOCALPTR R *red, const bool ragged)
{
    R v[KEPT][SHARE(T)], top = -(R)K_INF, sum = 0;
    const idx shift = SHIFT_OF(x);
    EACH_KEPT(k)
    {
        load_piece(x, AT(k), cols, ragged, true, -(R)K_INF, v[k]);
        if (changed) {
            R more[SHARE(T)];
            EACH_OF_SHARE(T, i) more[i] = 0;
            if (masked) load_piece(mask, AT(k), cols, ragged, SHIFT_OF(mask) == shift, 0, more);
            EACH_OF_SHARE(T, i) v[k][i] = v[k][i] * scale + more[i];
            if (ragged && !IS_FULL(AT(k), cols)) {
                EACH_OF_SHARE(T, i) v[k][i] = IS_IN(AT(k) + i, cols) ? v[k][i] : -(R)K_INF;
            }
        }
        EACH_OF_SHARE(T, i) top = K_OP_LATER(v[k][i], top);
    }
    top = REDUCE_LANES(LATER, R, red, top, lanes);
    EACH_KEPT(k) EACH_OF_SHARE(T, i)
    {
        const R power = POWER(v[k][i], top);
        v[k][i] = logarithm ? v[k][i] - top : power;
        sum += power;
    }
    sum = REDUCE_LANES(SUM, R, red, sum, lanes);
    const R last = logarithm ? MATH(T, log)(sum) : LIT(T, 1.0) / sum;
    EACH_KEPT(k)
    {
        EACH_OF_SHARE(T, i) v[k][i] = logarithm ? v[k][i] - last : v[k][i] * last;
        store_piece(y, AT(k), cols, ragged, SHIFT_OF(y) == shift, v[k]);
    }
}

#define AFFINE(v)                                                                                       \
    EACH_OF_SHARE(T, i)                                                                                 \
    {                                                                                                   \
        v[i] *= scale;                                                                                  \
        if (scaled) v[i] *= weight[i];                                                                  \
        if (shifted) v[i] += bias[i];                                                                   \
    }
/* (v - mean) / sqrt(variance + eps) gamma + beta, each of mean, gamma and beta only where it is asked for. v is x, or where
 * `added` says so x + other, which is then written to `total` if that is wanted. */
INLINED void norm_lanes(GLOBAL const T *x, GLOBAL const T *other, GLOBAL const T *gamma, GLOBAL const T *beta, GLOBAL T *total,
                   GLOBAL T *y, const idx cols, const R n, const f32 eps, const int lanes, const bool added, const bool wanted,
                   const bool centred, const bool scaled, const bool shifted, LOCALPTR R *red, const bool ragged)
{
    R v[KEPT][SHARE(T)], sum = 0, squares = 0;
    const idx shift = SHIFT_OF(x);
    int whole_affine = SHIFT_OF(gamma) == shift && SHIFT_OF(beta) == shift, whole_y = SHIFT_OF(y) == shift;
    SETTLE(whole_affine);
    SETTLE(whole_y);
    EACH_KEPT(k)
    {
        load_piece(x, AT(k), cols, ragged, true, 0, v[k]);
        if (added) {
            R more[SHARE(T)];
            load_piece(other, AT(k), cols, ragged, SHIFT_OF(other) == shift, 0, more);
            EACH_OF_SHARE(T, i) v[k][i] += more[i];
            if (wanted) store_piece(total, AT(k), cols, ragged, SHIFT_OF(total) == shift, v[k]);
        }
        EACH_OF_SHARE(T, i) sum += v[k][i];
    }
    const R mean = centred ? REDUCE_LANES(SUM, R, red, sum, lanes) / n : 0;
    EACH_KEPT(k)
    {
        EACH_OF_SHARE(T, i) v[k][i] -= mean;
        if (ragged && !IS_FULL(AT(k), cols)) {
            EACH_OF_SHARE(T, i) v[k][i] = IS_IN(AT(k) + i, cols) ? v[k][i] : 0;
        }
        EACH_OF_SHARE(T, i) squares += v[k][i] * v[k][i];
    }
    squares = REDUCE_LANES(SUM, R, red, squares, lanes);
    const R scale = LIT(T, 1.0) / MATH(T, sqrt)(squares / n + eps);
    EACH_KEPT(k)
    {
        if (!ragged) {
            R weight[SHARE(T)], bias[SHARE(T)];
            if (scaled) load_share(gamma + AT(k), weight);
            if (shifted) load_share(beta + AT(k), bias);
            AFFINE(v[k])
            store_share(y + AT(k), v[k]);
        } else if (IS_FULL(AT(k), cols)) { /* one question for all: rows of odd lengths have many pieces */
            R weight[SHARE(T)], bias[SHARE(T)];
            if (scaled) load_full(gamma + AT(k), whole_affine, weight);
            if (shifted) load_full(beta + AT(k), whole_affine, bias);
            AFFINE(v[k])
            store_full(y + AT(k), whole_y, v[k]);
        } else {
            EACH_OF_SHARE(T, i) if (IS_IN(AT(k) + i, cols)) {
                R z = v[k][i] * scale;
                if (scaled) z *= LOAD(T, gamma, AT(k) + i);
                if (shifted) z += LOAD(T, beta, AT(k) + i);
                STORE(T, y, AT(k) + i, z);
            }
        }
    }
}
#endif
