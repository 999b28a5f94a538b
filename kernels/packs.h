/* SPDX-License-Identifier: Apache-2.0
 *
 * Packs, which an item of elementwise kernels takes at once on GPUs: a share, or 16 bytes of narrow floats. */
#define R REAL(T)
/* Fewer instructions: of numbers that are not negative, and what is negative is large. */
#ifdef K_IDX64
#define UNSIGNED u64
#else
#define UNSIGNED u32
#endif
#define PER(a, b) ((idx)((UNSIGNED)(a) / (UNSIGNED)(b)))
#define IS_INSIDE(i, n) ((UNSIGNED)(i) < (UNSIGNED)(n))
#ifndef K_LOOPS
SHARE_ACCESS(T)
#if IS_FLOAT(T) && !IS_WIDE(T)
#define WIDTH 8
#else
#define WIDTH SHARE(T)
#endif
#define EACH_OF_PACK(l) UNROLL for (int l = 0; l < WIDTH; l++)
#define LIES_ON_PACK(p) LIES_ON(p, WIDTH * sizeof(T))
/* What an item holds of an operand: as it is in memory where that takes fewer registers. */
#if defined(K_CUDA) && IS_FLOAT(T) && !IS_WIDE(T)
typedef T bits;
typedef k_wide held;
#define BITS(p, i) (p)[i]
#define HOLD(x, l, b) (x).words[(l) / 2] = (l) % 2 ? (x).words[(l) / 2] | (u32)(b) << 16 : (u32)(b)
#define PAIR_f16 k_f16_pair
#define PAIR_bf16 k_bf16_pair
#define VALUES(pair, low, high) K_CAT(VALUES_, T)(pair, low, high)
#define VALUES_f16(pair, low, high)                                                          \
    u16 h[2];                                                                                \
    asm("mov.b32 {%0,%1},%2;" : "=h"(h[0]), "=h"(h[1]) : "r"(pair));                         \
    low = k_half_load(h[0]), high = k_half_load(h[1]);
#define VALUES_bf16(pair, low, high)                                                         \
    f32 h[2];                                                                                \
    k_bf16_values(pair, h);                                                                  \
    low = h[0], high = h[1];
FN void load_pack(const T *p, held *x)
{
    *x = PACK_AT(p, 0);
}
FN void hold(const bits b[WIDTH], held *x)
{
    UNROLL for (int j = 0; j < 4; j++) asm("mov.b32 %0,{%1,%2};" : "=r"(x->words[j]) : "h"(b[2 * j]), "h"(b[2 * j + 1]));
}
FN void store_pack(T *p, const R v[WIDTH])
{
    k_wide to;
    UNROLL for (int j = 0; j < 4; j++) to.words[j] = K_CAT(PAIR_, T)(v[2 * j], v[2 * j + 1]);
    PACK_AT(p, 0) = to;
}
FN void values_of(const held *x, R v[WIDTH])
{
    UNROLL for (int j = 0; j < 4; j++) {
        VALUES(x->words[j], v[2 * j], v[2 * j + 1])
    }
}
#else
typedef R bits;
typedef struct { R e[WIDTH]; } held;
#define BITS(p, i) LOAD(T, p, i)
#define HOLD(x, l, b) (x).e[l] = (b)
FN void load_pack(GLOBAL const T *p, held *x)
{
    UNROLL for (int l = 0; l < WIDTH; l += SHARE(T)) load_share(p + l, x->e + l);
}
FN void hold(const bits b[WIDTH], held *x)
{
    EACH_OF_PACK(l) x->e[l] = b[l];
}
FN void store_pack(GLOBAL T *p, const R v[WIDTH])
{
    UNROLL for (int l = 0; l < WIDTH; l += SHARE(T)) store_share(p + l, v + l);
}
FN void values_of(const held *x, R v[WIDTH])
{
    EACH_OF_PACK(l) v[l] = x->e[l];
}
#endif
FN void load_values(GLOBAL const T *p, R v[WIDTH])
{
    held x;
    load_pack(p, &x);
    values_of(&x, v);
}

/* An operand's elements of a pack. It is what `kind` says: 2 made of packs, 1 a row that begins anywhere, 0 one element for
 * a row. `left` of them are in the row where the first is, at `at`; with `meeting` others may be in the next, the last at
 * `last`. */
FN void load_operand(GLOBAL const T *p, const int kind, const idx at, const int meeting, const idx last, const int left,
                     held *x)
{
    bits b[WIDTH];
    if (kind == 2) {
        load_pack(p + at, x);
        return;
    }
    if (kind == 1) {
        EACH_OF_PACK(l) b[l] = BITS(p, l < left ? at + l : last + l - (WIDTH - 1));
    } else {
        b[0] = BITS(p, at);
        EACH_OF_PACK(l) b[l] = b[0];
        if (meeting) {
            const bits next = BITS(p, last);
            EACH_OF_PACK(l) b[l] = l < left ? b[l] : next;
        }
    }
    hold(b, x);
}
#endif
