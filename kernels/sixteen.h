/* SPDX-License-Identifier: Apache-2.0
 *
 * Sixteen numbers at a time in kernels of loops, whatever vectors a processor has; R is their type. */
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
