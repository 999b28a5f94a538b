/* SPDX-License-Identifier: Apache-2.0
 *
 * Sixteen numbers at a time in kernels of loops, whatever vectors a processor has. */
#ifdef K_LOOPS
#define R REAL(T)
#ifdef K_OPENCL
#define LANES16 K_CAT(K_LANES16_, R)
#define K_LANES16_f32 float16
#define K_LANES16_f64 double16
#define LOAD16(p) vload16(0, p)
#define STORE16(p, v) vstore16(v, 0, p)
#define NONE16 ((LANES16)(0))
#else
typedef R lanes16 __attribute__((vector_size(16 * sizeof(R)), may_alias, aligned(sizeof(R))));
#define LANES16 lanes16
#define LOAD16(p) (*(const lanes16 *)(p))
#define STORE16(p, v) (*(lanes16 *)(p) = (v))
#define NONE16 ((LANES16){0})
#endif
#if defined(K_C) && K_LANES_f32 == 16
/* The sums of sixteen vectors side by side: pairs are mixed, so that half as many vectors hold parts of twice as many sums. */
#ifdef __clang__
#define MIXED16(a, b, ...) __builtin_shufflevector(a, b, __VA_ARGS__)
#else
typedef i32 places16 __attribute__((vector_size(64)));
#define MIXED16(a, b, ...) __builtin_shuffle(a, b, (places16){__VA_ARGS__})
#endif
#define HALVES16(to, a, b)                                                                     \
    const LANES16 to = MIXED16(a, b, 0, 1, 2, 3, 4, 5, 6, 7, 16, 17, 18, 19, 20, 21, 22, 23) + \
                       MIXED16(a, b, 8, 9, 10, 11, 12, 13, 14, 15, 24, 25, 26, 27, 28, 29, 30, 31);
#define QUARTERS16(to, a, b)                                                                     \
    const LANES16 to = MIXED16(a, b, 0, 1, 2, 3, 8, 9, 10, 11, 16, 17, 18, 19, 24, 25, 26, 27) + \
                       MIXED16(a, b, 4, 5, 6, 7, 12, 13, 14, 15, 20, 21, 22, 23, 28, 29, 30, 31);
#define EIGHTHS16(to, a, b)                                                                      \
    const LANES16 to = MIXED16(a, b, 0, 1, 4, 5, 8, 9, 12, 13, 16, 17, 20, 21, 24, 25, 28, 29) + \
                       MIXED16(a, b, 2, 3, 6, 7, 10, 11, 14, 15, 18, 19, 22, 23, 26, 27, 30, 31);
#define SIXTEENTHS16(to, a, b)                                                                    \
    const LANES16 to = MIXED16(a, b, 0, 2, 4, 6, 8, 10, 12, 14, 16, 18, 20, 22, 24, 26, 28, 30) + \
                       MIXED16(a, b, 1, 3, 5, 7, 9, 11, 13, 15, 17, 19, 21, 23, 25, 27, 29, 31);
#define EIGHT_SUMS16(to, a, b, c, d, e, f, g, h)                                               \
    HALVES16(to##0, a, b)                                                                      \
    HALVES16(to##1, c, d)                                                                      \
    HALVES16(to##2, e, f)                                                                      \
    HALVES16(to##3, g, h)                                                                      \
    QUARTERS16(to##4, to##0, to##1)                                                            \
    QUARTERS16(to##5, to##2, to##3)                                                            \
    EIGHTHS16(to, to##4, to##5)
#endif
#endif
