/* SPDX-License-Identifier: Apache-2.0
 *
 * Pooling of f32 on processors: what each column of an image holds first, as far down as windows reach, then of these columns
 * what each window sees. With pool_planes.h or pool_blocks.h, which go behind it.
 */
#ifdef K_LOOPS
#define POOL_LANES LANES(f32)
#define POOL_HELD 2048 /* values of columns that are held at once */

#ifdef K_OPENCL
typedef k_vec_f32 pool_vector;
#define POOL_LOAD(p) VLOAD(f32, p)
#define POOL_STORE(p, v) VSTORE(f32, p, v)
#define POOL_PICK(mask, a, b) select(b, a, mask)
#define POOL_SPREAD(v) ((pool_vector)(v))
#else
typedef f32 pool_vector __attribute__((vector_size(4 * POOL_LANES), may_alias, aligned(4)));
typedef i32 pool_mask __attribute__((vector_size(4 * POOL_LANES)));
#define POOL_LOAD(p) (*(const pool_vector *)(p))
#define POOL_STORE(p, v) (*(pool_vector *)(p) = (v))
#define POOL_PICK(mask, a, b) ((pool_vector)(((mask) & (pool_mask)(a)) | (~(mask) & (pool_mask)(b))))
#define POOL_SPREAD(v) ((pool_vector){0} + (v))
#endif
#define POOL_START(largest) POOL_SPREAD(largest ? K_ID_MAX_f32 : 0.0f)
#define POOL_LARGER(v, sum) POOL_PICK((v) != (v), v, POOL_PICK((v) > (sum), v, sum)) /* keeps a NaN */
#define POOL_JOIN(largest, v, sum) if (largest) sum = POOL_LARGER(v, sum); else sum += v

/* Of the rows or columns of an image those that a window of k of them sees, from `at` on, which may be before the first. */
#define POOL_SEEN(at, k, n) MAXOF(MINOF((at) + (k), n) - MAXOF(at, 0), 0)
#endif
