/* SPDX-License-Identifier: Apache-2.0
 *
 * The kernel dialect: one text for nvcc and NVRTC, for OpenCL C 1.2 and for any C11 compiler.
 *
 *   KERNEL(scale_f32, (IN(f32,x), OUT(f32,y), VAL(i64,n), VAL(f32,factor)))
 *   {
 *       GRID_FOR(i, n) y[i] = factor * x[i];
 *   }
 *
 *   KERNEL(sum_rows_f32, (IN(f32,x), OUT(f32,y), VAL(i64,rows), VAL(i64,n)))
 *   {
 *       REDUCE_SPACE(f32);
 *       GROUP_FOR(r, rows) {
 *           GLOBAL const f32 *row = x + r * n;
 *           REDUCE(SUM, f32, sum, j, n, row[j]);
 *           ONCE y[r] = sum;
 *       }
 *   }
 *
 * The `work` of their launches is n, and rows * n: the elements in all. A kernel's name is none that OpenCL C, CUDA or this
 * file has for itself: step, mix, dot, length, min and the like are refused.
 *
 * Arguments
 *   IN(T,x) OUT(T,x) INOUT(T,x)     buffers: read, written, both; they overlap no other buffer
 *   ALIAS(T,x) ALIAS_OUT(T,y)       read and written buffers that may be exactly the same one
 *   VAL(T,v)                        a value: i32 u32 i64 u64 f32 f64, or `dims`
 *   The element types of buffers are f32 f64 f16 bf16 i8 u8 i16 u16 i32 u32 i64 u64. f16 and bf16 are storage only:
 *   LOAD(T,p,i) and STORE(T,p,i,v) convert, REAL(T) is the type to compute in (f64 for f64, f32 for the other
 *   floats, T for integers), LIT(T,1.5) a literal of it and MATH(T,exp) the function for it. Tensors of bool are u8 here;
 *   inside of a kernel there are bool, true and false.
 *
 * Functions that exist in every language, as MATH(T,name)(x), computed in f32 or f64 as REAL(T) says:
 *   one argument     exp exp2 expm1 log log2 log10 log1p sqrt cbrt sin cos tan asin acos atan sinh cosh tanh
 *                    asinh acosh atanh erf erfc floor ceil round trunc rint fabs
 *   two              pow atan2 fmod fmin fmax hypot copysign
 *   three            fma
 *   For f32 also as expf logf tanhf sqrtf rsqrtf fabsf fmaf. For all types: MAXOF(a,b) MINOF(a,b) CDIV(a,b); for integers
 *   abs(x); for floats isnan(x) isinf(x). sin(x), floor(x) and so on are f32 in OpenCL and f64 on the CPU: write MATH.
 *   Other names, as sinf or powf, are refused: not every compiler has them.
 *
 * Parallelism is written as loops
 *   GRID_FOR (i,n)           independent iterations, spread over the whole launch
 *   GRID_FOR2(i,I,j,J)       the same in two dimensions, j innermost
 *   GROUP_FOR(g,G)           one iteration per group, which may hold LOCAL memory and phases
 *   GROUP_FOR2(a,A,b,B)
 *     ITEM_FOR (j,n)         phase: n iterations shared out among the items of the group
 *     ITEM_FOR2(i,I,j,J)     phase in two dimensions, j innermost
 *     ITEM_FOR_NB, ..2_NB    the same, with no barrier after it
 *     ITEMS2(l,y,H,x,W)      phase: each of the H*W == K_WG items once; l = y*W+x indexes PRIV
 *     ITEM_FOR_ATOMIC(j,n)   phase whose iterations may collide in LOCAL memory through LOCAL_ADD
 *     ONCE                   phase: one item only
 *     REDUCE(op,T,v,j,n,e)   declares T v = op (SUM MAX MIN) of e over j, the same for the whole group
 *   LOCAL(T,a,N) LOCAL2(T,a,M,N) REDUCE_SPACE(T)   at the top of the kernel's body
 *   PRIV(T,v) PRIVN(T,v,N)   values of an item that outlive a phase, used as P(v,l) and PN(v,i,l)
 *
 * Rules: a launch of any size is correct. A phase sees what earlier phases of its group wrote, never what another item
 * writes in the same phase. Code between phases is the same for the whole group and writes no memory. An iteration ends
 * early with `continue`, never with break, return or goto. Bodies keep to what C, C++ and OpenCL C share: GLOBAL or
 * LOCALPTR on every pointer, no variable-length arrays, no designated initialisers, f on every float literal.
 * MAX and MIN exist inside of REDUCE alone, and give NaN when a value is NaN. K_REVERSE runs the phases backwards (a result that changes is a race),
 * K_LINT rejects a phase inside a phase.
 *
 * This file includes nothing, so run-time compilers need nothing besides it.
 */
#ifndef DHOW_KERNEL_K_H_
#define DHOW_KERNEL_K_H_

#if defined(__OPENCL_VERSION__) || defined(__OPENCL_C_VERSION__)
#define K_OPENCL 1
#elif defined(__CUDACC__) || defined(__CUDACC_RTC__)
#define K_CUDA 1
#else
#define K_C 1
#endif

/* Two ways to run. SPMD: one work-item per item, phases end in barriers; for GPUs. LOOP: a group is one thread and a
 * phase a vectorised loop; for C, and for OpenCL on CPUs with -DK_LOOPS and a local size of 1. */
#if defined(K_C) && !defined(K_LOOPS)
#define K_LOOPS 1
#endif
#ifndef K_WG
#define K_WG 256 /* items of a group */
#endif

#define K_CAT_(a, b) a##b
#define K_CAT(a, b) K_CAT_(a, b)
#define K_T(name) K_CAT(name##_, T) /* softmax -> softmax_f16 under -DT=f16; name may be a macro of the compiler's */
#define CDIV(a, b) (((a) + (b)-1) / (b))
#define MAXOF(a, b) ((a) > (b) ? (a) : (b))
#define MINOF(a, b) ((a) < (b) ? (a) : (b))

/* ---- types ------------------------------------------------------------------------------------------------------ */

#ifdef K_OPENCL
#ifdef cl_khr_fp64
#pragma OPENCL EXTENSION cl_khr_fp64 : enable
#define K_F64 1
#endif
typedef char i8;
typedef uchar u8;
typedef short i16;
typedef ushort u16;
typedef int i32;
typedef uint u32;
typedef long i64;
typedef ulong u64;
#else
#define K_F64 1
typedef signed char i8;
typedef unsigned char u8;
typedef short i16;
typedef unsigned short u16;
typedef int i32;
typedef unsigned int u32;
typedef long long i64;
typedef unsigned long long u64;
#endif
typedef float f32;
#ifdef K_F64
typedef double f64;
#endif
typedef u16 f16;
typedef u16 bf16;

#if defined(K_C) && !defined(__cplusplus) && (!defined(__STDC_VERSION__) || __STDC_VERSION__ < 202311L) && !defined(bool)
typedef _Bool bool; /* no macro: it is a part of kernels' names */
#define true 1
#define false 0
#endif

/* i64 where it is free; on GPUs the host asks for it when 2^31 does not suffice. */
#if defined(K_IDX64) || defined(K_C)
typedef i64 idx;
#else
typedef i32 idx;
#endif

/* Shape, strides and offsets (in elements) of up to three operands. */
typedef struct k_dims {
    i64 rank;
    i64 shape[8];
    i64 stride[3][8];
    i64 offset[3];
} dims;

/* n / d for n from 0 to 2^31 - 1. A division takes a GPU some 30 instructions; with indices of 32 bits it is made of the
 * multiplier that the host hands in beside d, 0 for powers of two: ceil(2^(32 + s) / d) - 2^32, where 2^s is the next
 * power from d on. */
#if defined(K_LOOPS) || defined(K_IDX64)
#define OVER(n, d, multiplier) ((n) / (idx)(d))
#else
#define OVER(n, d, multiplier) k_over(n, (u32)(d), (u32)(multiplier))
#endif

#define REAL(T) K_CAT(K_REAL_, T)
#define K_REAL_f32 f32
#define K_REAL_f16 f32
#define K_REAL_bf16 f32
#define K_REAL_f64 f64
#define K_REAL_i8 i8
#define K_REAL_u8 u8
#define K_REAL_i16 i16
#define K_REAL_u16 u16
#define K_REAL_i32 i32
#define K_REAL_u32 u32
#define K_REAL_i64 i64
#define K_REAL_u64 u64

#define LIT(T, x) K_CAT(K_LIT_, REAL(T))(x)
#define K_LIT_f32(x) x##f
#define K_LIT_f64(x) x

/* 1 for types that are computed in as they are stored. */
#define IS_WIDE(T) K_CAT(K_IS_WIDE_, T)
#define K_IS_WIDE_f32 1
#define K_IS_WIDE_f64 1
#define K_IS_WIDE_f16 0
#define K_IS_WIDE_bf16 0
#define K_IS_WIDE_i8 1
#define K_IS_WIDE_u8 1
#define K_IS_WIDE_i16 1
#define K_IS_WIDE_u16 1
#define K_IS_WIDE_u32 1
#define K_IS_WIDE_u64 1
#define K_IS_WIDE_i32 1
#define K_IS_WIDE_i64 1

/* For f32 alone, in #if, which takes what is not defined for 0. */
#define IS_F32(T) K_CAT(K_IS_F32_, T)
#define K_IS_F32_f32 1

/* 1 for f32 f16 bf16 f64, for #if in templated kernels. */
#define IS_FLOAT(T) K_CAT(K_IS_FLOAT_, T)
#define K_IS_FLOAT_f32 1
#define K_IS_FLOAT_f16 1
#define K_IS_FLOAT_bf16 1
#define K_IS_FLOAT_f64 1
#define K_IS_FLOAT_i8 0
#define K_IS_FLOAT_u8 0
#define K_IS_FLOAT_i16 0
#define K_IS_FLOAT_u16 0
#define K_IS_FLOAT_i32 0
#define K_IS_FLOAT_u32 0
#define K_IS_FLOAT_i64 0
#define K_IS_FLOAT_u64 0

/* ---- the three compilers ---------------------------------------------------------------------------------------- */

#if defined(K_OPENCL)

#define GLOBAL __global
#define CONSTANT __constant
#define RESTRICT restrict
#define FN static inline
#define FN_SHARED static inline
#define LID ((int)get_local_id(0))
#define GROUP_ID ((idx)get_group_id(0))
#define N_GROUPS ((idx)get_num_groups(0))
#define K_BARRIER() barrier(CLK_LOCAL_MEM_FENCE | CLK_GLOBAL_MEM_FENCE)
#define K_MUL_HIGH(a, b) mul_hi(a, b)
#define K_LEADING_ZEROS(u) ((int)clz(u))
#define K_ALIGNED(bytes) __attribute__((aligned(bytes)))
#define UNROLL _Pragma("unroll")
#define ROLLED
#define K_INF INFINITY
#define ATOMIC_ADD(p, v) atomic_add(p, v)
#define K_F2U(f) as_uint((f32)(f))
#define K_U2F(u) as_float((u32)(u))
#define sqrtf(x) sqrt((f32)(x))
#define rsqrtf(x) rsqrt((f32)(x))
#define fmaf(a, b, c) fma((f32)(a), (f32)(b), (f32)(c))
#ifdef K_F64
#define K_INF64 ((f64)INFINITY)
#define K_D2U(d) as_ulong((f64)(d))
#define K_U2D(u) as_double((u64)(u))
#endif
#ifdef K_LOOPS /* a group is one work-item: its local memory can be private, which no device limit applies to */
#define K_GROUPSIZE 1
#define fabsf(x) K_U2F(K_F2U(x) & 0x7fffffffu) /* a call would keep loops from being vectorised */
#define LOCALPTR
#define K_ALIGN __attribute__((aligned(64)))
#define LOCAL(T, n, N) T n[N] K_ALIGN
#define LOCAL2(T, n, M, N) T n[M][N] K_ALIGN
#define k_group ((i64)get_group_id(0))
#define k_groups ((i64)get_num_groups(0))
#define K_SIMD _Pragma("clang loop vectorize(assume_safety)")
#define K_SIMD_REDUCE(op, v) _Pragma("clang loop vectorize(enable)")
#define K_SIMD_RANGE(low, high) _Pragma("clang loop vectorize(enable)")
#else
#define K_GROUPSIZE K_WG
#define LOCALPTR __local
#define LOCAL(T, n, N) __local T n[N]
#define LOCAL2(T, n, M, N) __local T n[M][N]
#define fabsf(x) fabs((f32)(x))
#define expf(x) exp((f32)(x))
#define logf(x) log((f32)(x))
#define tanhf(x) tanh((f32)(x))
#define erfcf(x) erfc((f32)(x))
#define LOADH(p, i) vload_half((size_t)(i), (const __global half *)(p))
#define STOREH(p, i, v) vstore_half_rte((f32)(v), (size_t)(i), (__global half *)(p))
#endif
/* A buffer is two parameters, its base and a byte offset, so that any offset works without sub-buffers. The host
 * inserts K_HEAD(name) at the top of each body and defines K_HEAD_<name> to declare the typed pointers. */
#define K_HEAD(name) K_CAT(K_HEAD_, name)
#if defined(K_LOOPS) && defined(__clang__)
/* A loop that does not vectorise is slower and still right: no news for whoever runs the program. */
#pragma clang diagnostic ignored "-Wpass-failed"
#endif
#define K_BUFFER(x) __global uchar *x##_p, ulong x##_o
#define IN(T, x) K_BUFFER(x)
#define OUT(T, x) K_BUFFER(x)
#define INOUT(T, x) K_BUFFER(x)
#define ALIAS(T, x) K_BUFFER(x)
#define ALIAS_OUT(T, x) K_BUFFER(x)
#define VAL(T, x) T x
#define KERNEL(name, args) __kernel __attribute__((reqd_work_group_size(K_GROUPSIZE, 1, 1))) void name args

#elif defined(K_CUDA)

#define GLOBAL
#define LOCALPTR
#define CONSTANT __constant__
#define RESTRICT __restrict__
#define FN static __device__ __forceinline__
#define FN_SHARED static __device__ __forceinline__
#define LOCAL(T, n, N) __shared__ T n[N]
#define LOCAL2(T, n, M, N) __shared__ T n[M][N]
#define LID ((int)threadIdx.x)
#define GROUP_ID ((idx)blockIdx.x)
#define N_GROUPS ((idx)gridDim.x)
#define K_BARRIER() __syncthreads()
#define K_MUL_HIGH(a, b) __umulhi(a, b)
#define K_LEADING_ZEROS(u) __clz((int)(u))
#define K_ALIGNED(bytes) __align__(bytes)
#define UNROLL _Pragma("unroll")
#define ROLLED _Pragma("unroll 1")
#define K_INF __int_as_float(0x7f800000)
#define K_INF64 __longlong_as_double(0x7ff0000000000000LL)
#define ATOMIC_ADD(p, v) atomicAdd(p, v)
#define K_F2U(f) __float_as_uint(f)
#define K_U2F(u) __uint_as_float(u)
FN f32 k_half_load(u16 h)
{
    f32 f;
    asm("cvt.f32.f16 %0,%1;" : "=f"(f) : "h"(h));
    return f;
}
FN u16 k_half_store(f32 f)
{
    u16 h;
    asm("cvt.rn.f16.f32 %0,%1;" : "=h"(h) : "f"(f));
    return h;
}
#define LOADH(p, i) k_half_load((p)[i])
#define STOREH(p, i, v) ((p)[i] = k_half_store(v))
/* 16 bytes at once, the widest access there is: how many bytes are on their way decides the bandwidth.
 *   PACK(T)          PACK_COUNT(T) elements, as .e[k] or as .wide
 *   PACK_AT(p, i)    the i-th pack of p, which must be PACKABLE: lie on a multiple of 16 bytes */
typedef struct __align__(16) {
    u32 words[4];
} k_wide;
#define PACK(T) union { k_wide wide; T e[16 / sizeof(T)]; }
#define PACK_COUNT(T) ((int)(16 / sizeof(T)))
#define PACK_AT(p, i) (((k_wide *)(p))[i])
#define PACKABLE(p) (((u64)(p)&15) == 0)
#define IN(T, x) const T *__restrict__ x
#define OUT(T, x) T *__restrict__ x
#define INOUT(T, x) T *__restrict__ x
#define ALIAS(T, x) const T *x
#define ALIAS_OUT(T, x) T *x
#define VAL(T, x) T x
#define KERNEL(name, args) extern "C" __global__ void __launch_bounds__(K_WG) name args

#else /* C */

#define GLOBAL
#define LOCALPTR
#define CONSTANT static const
#define RESTRICT __restrict
#define FN static inline __attribute__((always_inline, unused))
#define FN_SHARED static __attribute__((noinline, unused)) /* one copy for all kernels of a unit: code size */
#define K_ALIGN __attribute__((aligned(64)))
#define LOCAL(T, n, N) T n[N] K_ALIGN
#define LOCAL2(T, n, M, N) T n[M][N] K_ALIGN
#define K_PRAGMA_(x) _Pragma(#x)
#define K_PRAGMA(x) K_PRAGMA_(x)
#ifdef __clang__
#define UNROLL _Pragma("unroll")
#else
#define UNROLL _Pragma("GCC unroll 128")
#endif
#define ROLLED
#ifdef K_REVERSE
#define K_SIMD
#else
#define K_SIMD K_PRAGMA(omp simd)
#endif
#define K_SIMD_REDUCE(op, v) K_PRAGMA(omp simd reduction(K_CLAUSE_##op : v))
#define K_SIMD_RANGE(low, high) K_PRAGMA(omp simd reduction(min : low) reduction(max : high))
#define K_CLAUSE_SUM +
#define K_CLAUSE_MAX max
#define K_CLAUSE_MIN min
#define K_INF (__builtin_inff())
#define K_INF64 (__builtin_inf())
#define ATOMIC_ADD(p, v) __atomic_fetch_add(p, v, __ATOMIC_RELAXED)
#define sqrtf(x) __builtin_sqrtf(x)
#define rsqrtf(x) (1.0f / __builtin_sqrtf(x))
#define fabsf(x) __builtin_fabsf(x)
#define fmaf(a, b, c) ((a) * (b) + (c)) /* contracted where the processor can; never a library call */
typedef union {
    f32 f;
    u32 u;
} k_bits32;
typedef union {
    f64 f;
    u64 u;
} k_bits64;
FN u32 K_F2U(f32 f)
{
    k_bits32 b;
    b.f = f;
    return b.u;
}
FN f32 K_U2F(u32 u)
{
    k_bits32 b;
    b.u = u;
    return b.f;
}
FN u64 K_D2U(f64 f)
{
    k_bits64 b;
    b.f = f;
    return b.u;
}
FN f64 K_U2D(u64 u)
{
    k_bits64 b;
    b.u = u;
    return b.f;
}

#endif

#ifndef K_LOOPS
/* n elements as one access, of a size that is a power of two and at most 16 bytes. A pack must lie on a multiple of its
 * size, which LIES_ON asks of an address. */
#define ELEMENTS(T, n) struct K_ALIGNED((n) * sizeof(T)) { T e[n]; }
#define LIES_ON(p, bytes) (((u64)(p) & ((u64)(bytes) - 1)) == 0)
FN idx k_over(const idx n, const u32 d, const u32 multiplier)
{
    return (idx)((K_MUL_HIGH((u32)n, multiplier) + (u32)n) >> (32 - K_LEADING_ZEROS(d - 1)));
}
#endif

/* ---- functions of the LOOP model: free of branches, so that every compiler vectorises them ----------------------- */

#ifdef K_LOOPS
/* e^x where it and 1/e^x have an exponent. Terms of polynomials are summed in pairs, here and below, since a processor
 * waits for each product of a chain. */
FN f32 k_exp_near(f32 x)
{
    f32 t = x * 1.44269504f + 12582912.0f;
    const u32 n = K_F2U(t);
    t -= 12582912.0f;
    f32 r = x - t * 0.693359375f;
    r -= t * -2.12194440e-4f;
    const f32 s = r * r;
    f32 p = 1.9875691500e-4f * r + 1.3981999507e-3f;
    p = p * s + (8.3334519073e-3f * r + 4.1665795894e-2f);
    p = p * s + (1.6666665459e-1f * r + 5.0000001201e-1f);
    p = p * s + (r + 1.0f);
    return K_U2F(K_F2U(p) + (n << 23));
}
/* 1.4 ulp. The range comes last: gcc turns an early clamp into code for the clamped constant that takes microcode
 * assists for denormals. NaN needs its own select, since its bits went through integer arithmetic. */
FN f32 k_expf(f32 x)
{
    f32 y = k_exp_near(x);
    y = x > 88.72f ? K_INF : y;
    y = x < -87.3f ? 0.0f : y;
    return x != x ? x : y;
}

/* |x|, at most a number; bits of floats that have no sign are ordered as they are, with NaN above all. */
FN f32 k_abs_up_to(const f32 x, const f32 most)
{
    const u32 a = K_F2U(x) & 0x7fffffffu, m = K_F2U(most);
    return K_U2F(a < m ? a : m);
}
FN f32 k_with_sign_of(const f32 x, const f32 y)
{
    return K_U2F(K_F2U(y) | (K_F2U(x) & 0x80000000u));
}
FN f32 k_tanhf(f32 x) /* 1.4 ulp */
{
    const f32 a = k_abs_up_to(x, 10.0f), b = fabsf(x), z = a * a;
    f32 p = -5.70498872745e-3f * z + 2.06390887954e-2f; /* below 0.625 */
    p = p * (z * z) + (-5.37397155531e-2f * z + 1.33314422036e-1f);
    p = p * z - 3.33332819422e-1f;
    p = p * z * b + b;
    const f32 t = 1.0f - 2.0f / (k_exp_near(a + a) + 1.0f);
    return k_with_sign_of(x, b >= 0.625f ? t : p); /* NaN is p */
}

FN f32 k_logf(f32 x)
{
    const f32 scaled = x < 1.17549435e-38f ? x * 8388608.0f : x; /* lifts denormals */
    const u32 u = K_F2U(scaled) - 0x3f3504f3u;                   /* mantissa in [sqrt(1/2), sqrt(2)) */
    const f32 e = (f32)((i32)u >> 23) - (x < 1.17549435e-38f ? 23.0f : 0.0f);
    const f32 m = K_U2F((u & 0x007fffffu) + 0x3f3504f3u) - 1.0f, z = m * m;
    f32 p = 7.0376836292e-2f;
    p = p * m - 1.1514610310e-1f;
    p = p * m + 1.1676998740e-1f;
    p = p * m - 1.2420140846e-1f;
    p = p * m + 1.4249322787e-1f;
    p = p * m - 1.6668057665e-1f;
    p = p * m + 2.0000714765e-1f;
    p = p * m - 2.4999993993e-1f;
    p = p * m + 3.3333331174e-1f;
    f32 y = p * m * z + e * -2.12194440e-4f;
    y = m + (y - 0.5f * z) + e * 0.693359375f;
    y = x == K_INF ? x : y;
    y = x == 0 ? -K_INF : y;
    return x >= 0 ? y : K_U2F(0x7fc00000u);
}

/* IEEE half by integers: right under flush-to-zero too, and vectorised at every instruction set. */
FN f32 k_half_load(u16 h)
{
    const u32 sign = (u32)(h & 0x8000u) << 16, e = (u32)(h & 0x7fffu), normal = (e << 13) + 0x38000000u;
    const u32 tiny = K_F2U(K_U2F(e | 0x3f000000u) - 0.5f);
    u32 r = e < 0x400u ? tiny : normal;
    r = e >= 0x7c00u ? normal + 0x38000000u : r;
    return K_U2F(r | sign);
}
FN u16 k_half_store(f32 f) /* rounds to nearest even */
{
    const u32 u = K_F2U(f), sign = (u >> 16) & 0x8000u, a = u & 0x7fffffffu;
    const u32 normal = (a + 0xfffu + ((a >> 13) & 1u) - 0x38000000u) >> 13;
    const u32 tiny = K_F2U(K_U2F(a) + 0.5f) - 0x3f000000u;
    u32 r = a < 0x38800000u ? tiny : normal;
    r = a >= 0x477ff000u ? 0x7c00u : r;
    r = a > 0x7f800000u ? 0x7e00u : r;
    return (u16)(sign | r);
}
#define LOADH(p, i) k_half_load((p)[i])
#define STOREH(p, i, v) ((p)[i] = k_half_store(v))
#define expf(x) k_expf(x)
#define logf(x) k_logf(x)
#define tanhf(x) k_tanhf(x)
#endif

/* x P(X < x) for a normal X: with t = 1/(1 + |x|/sqrt 8), P(X < -|x|) = t 2^y, where y is a polynomial in t less
 * x^2/2 log2 e, so the small tail keeps its digits. */
#ifdef K_LOOPS
#ifdef __AVX512F__ /* a guess by exponent, a cubic and a quadratic Newton step take half the time of a division there */
FN f32 k_reciprocal(const f32 d)
{
    f32 t = K_U2F(0x7ef311c7u - K_F2U(d));
    f32 e = 1.0f - d * t;
    t = t + t * (e * e + e);
    e = 1.0f - d * t;
    return t + t * e;
}
#else
#define k_reciprocal(d) (1.0f / (d))
#endif
FN f32 k_power_of_two(const f32 y)
{
    const f32 whole = y + 12582912.0f, r = y - (whole - 12582912.0f), s = r * r;
    f32 w = 1.33908634e-3f * r + 9.67603192e-3f;
    w = w * s + (5.55035711e-2f * r + 0.240221075f);
    w = w * s + (0.693147188f * r + 1.00000008f);
    return K_U2F(K_F2U(w) + (K_F2U(whole) << 23));
}
#define K_NEAR(a, near, far) ((a) > 12.7f ? (far) : (near)) /* where powers have an exponent */
#elif defined(K_CUDA)
FN f32 k_reciprocal(f32 d)
{
    asm("rcp.approx.ftz.f32 %0,%0;" : "+f"(d));
    return d;
}
FN f32 k_power_of_two(f32 y)
{
    asm("ex2.approx.ftz.f32 %0,%0;" : "+f"(y));
    return y;
}
#else
#define k_reciprocal(d) (1.0f / (d))
#define k_power_of_two(y) exp2(y)
#endif
#ifndef K_NEAR
#define K_NEAR(a, near, far) (near)
#endif
FN f32 k_tail_exponent(const f32 t)
{
#ifdef K_LOOPS
    const f32 s = t * t, s2 = s * s;
    f32 y = (2.14747446f * t - 1.63775315f) * s + (0.402321582f * t - 0.26875686f);
    y = (0.246517298f * t - 1.18611495f) * s2 + y;
    return y * s2 + ((0.139630057f * t + 0.539700616f) * s + (1.4427292f * t - 2.82574822f));
#else /* fewer instructions, and other threads to wait for */
    f32 y = 0.246517298f;
    y = y * t - 1.18611495f;
    y = y * t + 2.14747446f;
    y = y * t - 1.63775315f;
    y = y * t + 0.402321582f;
    y = y * t - 0.26875686f;
    y = y * t + 0.139630057f;
    y = y * t + 0.539700616f;
    y = y * t + 1.4427292f;
    return y * t - 2.82574822f;
#endif
}
FN f32 k_geluf(f32 x)
{
    const f32 a = fabsf(x), z = K_NEAR(a, a, 12.7f), t = k_reciprocal(1.0f + 0.353553391f * z);
    const f32 y = k_tail_exponent(t) - (z * 0.72134752f) * z;
    const f32 tail = t * k_power_of_two(y), q = K_NEAR(a, tail, 0.0f);
    return x * (x < 0 ? q : 1.0f - q);
}
#if defined(K_CUDA) && !(__CUDA_ARCH__ >= 800) /* kernels with many registers would spill some */
#define K_GELU_f32(x) ((x) * (0.5f * erfcf((x) * -0.70710678f)))
#else
#define K_GELU_f32(x) k_geluf(x)
#endif

#define K_GELU_f64(x) ((x) * (0.5 * K_MATH_erfc_f64((x) * -0.70710678118654752)))

/* ---- storage types ---------------------------------------------------------------------------------------------- */

FN f32 k_bf16_load(u16 b)
{
    return K_U2F((u32)b << 16);
}
#ifdef K_CUDA
FN void k_bf16_values(u32 pair, f32 x[2]) /* else compilers do it again wherever a value is asked for */
{
    asm("shl.b32 %0,%1,16;" : "=f"(x[0]) : "r"(pair));
    asm("and.b32 %0,%1,0xffff0000;" : "=f"(x[1]) : "r"(pair));
}
#endif
FN u16 k_bf16_store(f32 f) /* rounds to nearest even, keeps NaN */
{
#if defined(K_CUDA) && __CUDA_ARCH__ >= 800
    u16 b;
    asm("cvt.rn.bf16.f32 %0,%1;" : "=h"(b) : "f"(f));
    return b;
#else
    const u32 u = K_F2U(f), r = (u + 0x7fffu + ((u >> 16) & 1u)) >> 16;
    return (u16)((u & 0x7fffffffu) > 0x7f800000u ? 0x7fc0u : r);
#endif
}
#define LOAD(T, p, i) K_CAT(K_LOAD_, T)(p, i)
#define STORE(T, p, i, v) K_CAT(K_STORE_, T)(p, i, v)
#define K_PLAIN_LOAD(p, i) ((p)[i])
#define K_LOAD_f32 K_PLAIN_LOAD
#define K_LOAD_f64 K_PLAIN_LOAD
#define K_LOAD_i8 K_PLAIN_LOAD
#define K_LOAD_u8 K_PLAIN_LOAD
#define K_LOAD_i16 K_PLAIN_LOAD
#define K_LOAD_u16 K_PLAIN_LOAD
#define K_LOAD_i32 K_PLAIN_LOAD
#define K_LOAD_u32 K_PLAIN_LOAD
#define K_LOAD_i64 K_PLAIN_LOAD
#define K_LOAD_u64 K_PLAIN_LOAD
#define K_LOAD_f16(p, i) LOADH(p, i)
#define K_LOAD_bf16(p, i) k_bf16_load((p)[i])
#define K_STORE_f32(p, i, v) ((p)[i] = (f32)(v))
#define K_STORE_f64(p, i, v) ((p)[i] = (f64)(v))
#define K_STORE_i8(p, i, v) ((p)[i] = (i8)(v))
#define K_STORE_u8(p, i, v) ((p)[i] = (u8)(v))
#define K_STORE_i16(p, i, v) ((p)[i] = (i16)(v))
#define K_STORE_u16(p, i, v) ((p)[i] = (u16)(v))
#define K_STORE_i32(p, i, v) ((p)[i] = (i32)(v))
#define K_STORE_u32(p, i, v) ((p)[i] = (u32)(v))
#define K_STORE_i64(p, i, v) ((p)[i] = (i64)(v))
#define K_STORE_u64(p, i, v) ((p)[i] = (u64)(v))
#define K_STORE_f16(p, i, v) STOREH(p, i, v)
#define K_STORE_bf16(p, i, v) ((p)[i] = k_bf16_store(v))

/* ---- functions by type: MATH(T,exp)(x), and the activations as ACTIVATION(T,gelu)(x) ----------------------------- */

/* Pasted at once, since OpenCL compilers define exp and its kin as macros. */
#define MATH(T, name) K_CAT(K_MATH_##name##_, REAL(T))
#define K_MATH_exp_f32 expf
#define K_MATH_log_f32 logf
#define K_MATH_tanh_f32 tanhf
#define K_MATH_sqrt_f32 sqrtf
#define K_MATH_fabs_f32 fabsf
#ifdef K_C
#define K_MATH_exp_f64 __builtin_exp
#define K_MATH_log_f64 __builtin_log
#define K_MATH_tanh_f64 __builtin_tanh
#define K_MATH_sqrt_f64 __builtin_sqrt
#define K_MATH_fabs_f64 __builtin_fabs
#define K_LIB_f32(name) __builtin_##name##f
#define K_LIB_f64(name) __builtin_##name
#else
#define K_MATH_exp_f64 exp
#define K_MATH_log_f64 log
#define K_MATH_tanh_f64 tanh
#define K_MATH_sqrt_f64 sqrt
#define K_MATH_fabs_f64 fabs
#ifdef K_CUDA
#define K_LIB_f32(name) name##f
#else
#define K_LIB_f32(name) name
#endif
#define K_LIB_f64(name) name
#endif
/* The rest of the functions are functions here, so that their arguments are converted in every language. */
#define K_FUNCTIONS(X1, X2, X3, R)                                                                                    \
    X1(exp2, R) X1(expm1, R) X1(log2, R) X1(log10, R) X1(log1p, R) X1(cbrt, R) X1(sin, R) X1(cos, R) X1(tan, R)       \
    X1(asin, R) X1(acos, R) X1(atan, R) X1(sinh, R) X1(cosh, R) X1(asinh, R) X1(acosh, R) X1(atanh, R) X1(erf, R)     \
    X1(erfc, R) X1(floor, R) X1(ceil, R) X1(round, R) X1(trunc, R) X1(rint, R) X2(pow, R) X2(atan2, R) X2(fmod, R)    \
    X2(fmin, R) X2(fmax, R) X2(hypot, R) X2(copysign, R) X3(fma, R)
#define K_FUNCTION1(name, R) FN R K_MATH_##name##_##R(R x) { return K_LIB_##R(name)(x); }
#define K_FUNCTION2(name, R) FN R K_MATH_##name##_##R(R x, R y) { return K_LIB_##R(name)(x, y); }
#define K_FUNCTION3(name, R) FN R K_MATH_##name##_##R(R x, R y, R z) { return K_LIB_##R(name)(x, y, z); }
#ifdef K_C /* one compiler's own functions are no others' */
#pragma GCC diagnostic error "-Wimplicit-function-declaration"
#define K_PLAIN1(name, R) R name(R);
#define K_PLAIN2(name, R) R name(R, R);
#define K_PLAIN3(name, R) R name(R, R, R);
K_FUNCTIONS(K_PLAIN1, K_PLAIN2, K_PLAIN3, double)
double exp(double), log(double), tanh(double), sqrt(double), fabs(double);
int abs(int), isnan(double), isinf(double);
#endif
K_FUNCTIONS(K_FUNCTION1, K_FUNCTION2, K_FUNCTION3, f32)
#ifdef K_F64
K_FUNCTIONS(K_FUNCTION1, K_FUNCTION2, K_FUNCTION3, f64)
#endif
#define ACTIVATION(T, name) K_CAT(k_##name##_, REAL(T)) /* relu gelu gelu_tanh sigmoid silu tanh */
#define ACTIVATE(T, v, activation) K_CAT(k_activate_, REAL(T))(v, activation)

#define K_ACTIVATIONS(R)                                                                                              \
    FN R k_relu_##R(R x)                                                                                              \
    {                                                                                                                 \
        return x < 0 ? 0 : x;                                                                                         \
    }                                                                                                                 \
    FN R k_gelu_##R(R x)                                                                                              \
    {                                                                                                                 \
        return K_GELU_##R(x);                                                                                         \
    }                                                                                                                 \
    FN R k_sigmoid_##R(R x)                                                                                           \
    {                                                                                                                 \
        return LIT(R, 1.0) / (LIT(R, 1.0) + MATH(R, exp)(-x));                                                        \
    }                                                                                                                 \
    FN R k_silu_##R(R x)                                                                                              \
    {                                                                                                                 \
        return x / (LIT(R, 1.0) + MATH(R, exp)(-x));                                                                  \
    }                                                                                                                 \
    FN R k_tanh_##R(R x)                                                                                              \
    {                                                                                                                 \
        return MATH(R, tanh)(x);                                                                                      \
    }                                                                                                                 \
    FN R k_gelu_tanh_##R(R x) /* x/2 (1 + tanh(u)) = x sigmoid(2u), which keeps the small tail */                     \
    {                                                                                                                 \
        const R u2 = x * (LIT(R, 1.5957691216057308) + LIT(R, 0.071354816272600248) * x * x);                        \
        return x / (LIT(R, 1.0) + MATH(R, exp)(-u2));                                                                 \
    }                                                                                                                 \
    FN R k_activate_##R(R x, i32 activation) /* DHOW_ACTIVATION_* */                                                  \
    {                                                                                                                 \
        return activation == 0   ? x                                                                                  \
               : activation == 1 ? k_relu_##R(x)                                                                      \
               : activation == 2 ? k_gelu_##R(x)                                                                      \
               : activation == 3 ? k_gelu_tanh_##R(x)                                                                 \
               : activation == 4 ? k_sigmoid_##R(x)                                                                   \
               : activation == 5 ? k_tanh_##R(x)                                                                      \
                                 : k_silu_##R(x);                                                                     \
    }
K_ACTIVATIONS(f32)
#ifdef K_F64
K_ACTIVATIONS(f64)
#endif

/* ---- SPMD model ------------------------------------------------------------------------------------------------- */

/* NaN wins: a reduction that met one says so. */
#define K_OP_SUM(a, b) ((a) + (b))
#define K_OP_MAX(a, b) ((a) > (b) || (a) != (a) ? (a) : (b))
#define K_OP_MIN(a, b) ((a) < (b) || (a) != (a) ? (a) : (b))
#define K_ID_SUM_f32 0.0f
#define K_ID_MAX_f32 (-K_INF)
#define K_ID_MIN_f32 K_INF
#define K_ID_SUM_f64 0.0
#define K_ID_MAX_f64 (-K_INF64)
#define K_ID_MIN_f64 K_INF64
#define K_ID_SUM_i32 0
#define K_ID_MAX_i32 ((i32)0x80000000)
#define K_ID_MIN_i32 0x7fffffff
#define K_ID_SUM_i64 0
#define K_ID_MAX_i64 ((i64)0x8000000000000000)
#define K_ID_MIN_i64 ((i64)0x7fffffffffffffff)
#define K_ID_MAX_u8 0
#define K_ID_MAX_i8 ((i8)-128)

#ifndef K_LOOPS
/* SHARE(T) elements of a row, which an item takes at once: 16 bytes in the type to compute in. SHARE_ACCESS(T) defines, for
 * the one T of a unit, load_share(p, x) and store_share(p, v) for p on a multiple of the share's size (LIES_ON_SHARE), and
 * spread_share(p, moves, x), which takes the element at p for all of them where the row does not move. */
#define SHARE(T) ((int)(16 / MAXOF(sizeof(REAL(T)), 4)))
#define EACH_OF_SHARE(T, l) UNROLL for (int l = 0; l < SHARE(T); l++)
#define LIES_ON_SHARE(T, p) LIES_ON(p, SHARE(T) * sizeof(T))
#define SHARE_ACCESS(T)                                                                \
    K_CAT(K_SHARE_, IS_WIDE(T))(T)                                                     \
    FN void spread_share(GLOBAL const T *p, const int moves, REAL(T) x[SHARE(T)])      \
    {                                                                                  \
        if (moves) {                                                                   \
            load_share(p, x);                                                          \
        } else {                                                                       \
            const REAL(T) only = LOAD(T, p, 0);                                        \
            EACH_OF_SHARE(T, l) x[l] = only;                                           \
        }                                                                              \
    }
#define K_SHARE_1(T)                                                                   \
    typedef ELEMENTS(T, SHARE(T)) k_share;                                             \
    FN void load_share(GLOBAL const T *p, REAL(T) x[SHARE(T)])                         \
    {                                                                                  \
        const k_share from = *(GLOBAL const k_share *)p;                               \
        EACH_OF_SHARE(T, l) x[l] = LOAD(T, from.e, l);                                 \
    }                                                                                  \
    FN void store_share(GLOBAL T *p, const REAL(T) v[SHARE(T)])                        \
    {                                                                                  \
        k_share to;                                                                    \
        EACH_OF_SHARE(T, l) STORE(T, to.e, l, v[l]);                                   \
        *(GLOBAL k_share *)p = to;                                                     \
    }
#define K_SHARE_0(T) K_CAT(K_NARROW_SHARE_, T)(T)
#ifdef K_CUDA /* in pairs: since compute capability 8.0 an instruction rounds two */
#if __CUDA_ARCH__ >= 800
#define K_DEFINE_PAIR(T, store)                                                        \
    FN u32 k_##T##_pair(f32 low, f32 high)                                             \
    {                                                                                  \
        u32 pair;                                                                      \
        asm("cvt.rn." #T "x2.f32 %0,%1,%2;" : "=r"(pair) : "f"(high), "f"(low));       \
        return pair;                                                                   \
    }
#else
#define K_DEFINE_PAIR(T, store)                                                        \
    FN u32 k_##T##_pair(f32 low, f32 high)                                             \
    {                                                                                  \
        return (u32)store(low) | (u32)store(high) << 16;                               \
    }
#endif
#define K_STORE_PAIRS(T)                                                               \
    FN void store_share(T *p, const f32 v[4])                                          \
    {                                                                                  \
        k_two_pairs to;                                                                \
        to.pair[0] = k_##T##_pair(v[0], v[1]);                                         \
        to.pair[1] = k_##T##_pair(v[2], v[3]);                                         \
        *(k_two_pairs *)p = to;                                                        \
    }
typedef struct __align__(8) {
    u32 pair[2];
} k_two_pairs;
#define K_NARROW_SHARE_f16(T)                                                          \
    typedef ELEMENTS(f16, 4) k_share;                                                  \
    K_DEFINE_PAIR(f16, k_half_store)                                                   \
    K_STORE_PAIRS(f16)                                                                 \
    FN void load_share(const f16 *p, f32 x[4])                                         \
    {                                                                                  \
        const k_share from = *(const k_share *)p;                                      \
        UNROLL for (int l = 0; l < 4; l++) x[l] = k_half_load(from.e[l]);              \
    }
#define K_NARROW_SHARE_bf16(T)                                                         \
    K_DEFINE_PAIR(bf16, k_bf16_store)                                                  \
    K_STORE_PAIRS(bf16)                                                                \
    FN void load_share(const bf16 *p, f32 x[4])                                        \
    {                                                                                  \
        const k_two_pairs from = *(const k_two_pairs *)p;                              \
        UNROLL for (int l = 0; l < 2; l++) k_bf16_values(from.pair[l], x + 2 * l);     \
    }
#else
#define K_NARROW_SHARE_bf16(T) K_SHARE_1(T)
/* LOADH reads global memory alone */
#define K_NARROW_SHARE_f16(T)                                                          \
    FN void load_share(GLOBAL const T *p, f32 x[4])                                    \
    {                                                                                  \
        const float4 v = vloada_half4(0, (GLOBAL const half *)p);                      \
        x[0] = v.x, x[1] = v.y, x[2] = v.z, x[3] = v.w;                                \
    }                                                                                  \
    FN void store_share(GLOBAL T *p, const f32 v[4])                                   \
    {                                                                                  \
        vstorea_half4_rte((float4)(v[0], v[1], v[2], v[3]), 0, (GLOBAL half *)p);      \
    }
#endif
#define GRID_FOR(i, n) for (idx i = GROUP_ID * K_WG + LID; i < (idx)(n); i += N_GROUPS * K_WG)
#define GRID_FOR2(i, I, j, J)                    \
    GRID_FOR(k_t, (idx)(I) * (idx)(J))           \
    for (idx i = k_t / (idx)(J), j = k_t - i * (idx)(J), k_o = 1; k_o; k_o = 0)
#define GROUP_FOR(g, G) for (idx g = GROUP_ID; g < (idx)(G); g += N_GROUPS)
#define GROUP_FOR2(a, A, b, B)                   \
    GROUP_FOR(k_t, (idx)(A) * (idx)(B))          \
    for (idx a = k_t / (idx)(B), b = k_t - a * (idx)(B), k_u = 1; k_u; k_u = 0)
#define K_PHASE for (int k_b = 1; k_b; k_b = 0, K_BARRIER())
#define ITEM_FOR_NB(j, n) for (idx j = LID; j < (idx)(n); j += K_WG)
#define ITEM_FOR2_NB(i, I, j, J)                 \
    ITEM_FOR_NB(k_l, (idx)(I) * (idx)(J))        \
    for (idx i = k_l / (idx)(J), j = k_l % (idx)(J), k_o = 1; k_o; k_o = 0)
#define ITEM_FOR(j, n) K_PHASE ITEM_FOR_NB(j, n)
#define ITEM_FOR2(i, I, j, J) K_PHASE ITEM_FOR2_NB(i, I, j, J)
#define ITEM_FOR_ATOMIC ITEM_FOR
#define LOCAL_ADD(p, v) ATOMIC_ADD(p, v)
#define ITEMS2(l, y, H, x, W) K_PHASE for (int l = LID, y = l / (W), x = l % (W), k_o = 1; k_o; k_o = 0)
#define ONCE K_PHASE if (LID == 0)
#define PRIV(T, v) T v[1]
#define PRIVN(T, v, N) T v[N]
#define P(v, l) v[0]
#define PN(v, i, l) v[i]
#ifdef K_CUDA /* shuffles within a warp of 32, then one value of each warp */
#define REDUCE_SPACE(T) __shared__ T k_red[K_WG / 32]
#define K_DEFINE_REDUCE(op, T)                                   \
    FN T k_reduce_##op##_##T(T *red, T v)                        \
    {                                                            \
        UNROLL for (int s = 16; s; s >>= 1)                      \
        {                                                        \
            const T o = __shfl_xor_sync(0xffffffffu, v, s);      \
            v = K_OP_##op(v, o);                                 \
        }                                                        \
        if ((LID & 31) == 0) red[LID >> 5] = v;                  \
        __syncthreads();                                         \
        v = red[0];                                              \
        UNROLL for (int s = 1; s < K_WG / 32; s++)               \
        {                                                        \
            v = K_OP_##op(v, red[s]);                            \
        }                                                        \
        __syncthreads();                                         \
        return v;                                                \
    }
#else /* OpenCL 1.2 knows no sub-groups: a tree in local memory */
#define REDUCE_SPACE(T) __local T k_red[K_WG]
#define K_DEFINE_REDUCE(op, T)                                                 \
    FN T k_reduce_##op##_##T(__local T *red, T v)                              \
    {                                                                          \
        red[LID] = v;                                                          \
        K_BARRIER();                                                           \
        for (int s = K_WG / 2; s; s >>= 1) {                                   \
            if (LID < s) red[LID] = K_OP_##op(red[LID], red[LID + s]);         \
            K_BARRIER();                                                       \
        }                                                                      \
        v = red[0];                                                            \
        K_BARRIER();                                                           \
        return v;                                                              \
    }
#endif
#define K_DEFINE_REDUCES(T) K_DEFINE_REDUCE(SUM, T) K_DEFINE_REDUCE(MAX, T) K_DEFINE_REDUCE(MIN, T)
K_DEFINE_REDUCES(f32)
K_DEFINE_REDUCES(i32)
K_DEFINE_REDUCES(i64)
#ifdef K_F64
K_DEFINE_REDUCES(f64)
#endif
/* The space may be declared for a larger type than is reduced in it. */
#define REDUCE(op, T, v, j, n, e) K_REDUCE(op, T, v, j, n, e)
#define REDUCE_LONG REDUCE
#define K_REDUCE(op, T, v, j, n, e)           \
    T v = K_ID_##op##_##T;                    \
    ITEM_FOR_NB(j, n)                         \
    {                                         \
        const T k_e = (e);                    \
        v = K_OP_##op(v, k_e);                \
    }                                         \
    v = k_reduce_##op##_##T((LOCALPTR T *)k_red, v)
/* Of one value per item; `red` is the REDUCE_SPACE, which is named k_red. */
#define REDUCE_ITEMS(op, T, red, v) K_REDUCE_ITEMS(op, T, red, v)
#define K_REDUCE_ITEMS(op, T, red, v) k_reduce_##op##_##T(red, v)
#endif

/* ---- LOOP model ------------------------------------------------------------------------------------------------- */

#ifdef K_LOOPS
/* Where the g-th of G parts of n begins, on a multiple of a. */
FN_SHARED i64 k_cut(i64 n, i64 g, i64 G, i64 a)
{
    return g >= G ? n : (n / G * g + n % G * g / G) / a * a;
}
#if defined(K_OPENCL) /* the bound is hoisted by hand */
#define K_LOOP(j, lo, hi) for (idx j = (lo), k_h = (idx)(hi); j < k_h; j++)
#elif defined(K_REVERSE)
#define K_LOOP(j, lo, hi) for (idx j = (idx)(hi)-1; j >= (idx)(lo); j--)
#else
#define K_LOOP(j, lo, hi) for (idx j = (lo); j < (idx)(hi); j++)
#endif
#ifdef K_LINT /* a phase inside a phase, which on a GPU is a barrier that not all items reach, does not compile */
static char k_token __attribute__((unused));
#define K_ENTER                                                                                                \
    for (int k_in = (int)sizeof(char[sizeof(k_token) == 1 ? 1 : -1]), k_token = 0; k_in; k_in = 0, (void)k_token)
#else
#define K_ENTER
#endif
#define GRID_FOR(i, n) K_SIMD K_LOOP(i, k_cut(n, k_group, k_groups, 64), k_cut(n, k_group + 1, k_groups, 64))
#define GROUP_FOR(g, G)                                                                                        \
    for (idx g = (idx)k_cut(G, k_group, k_groups, 1), k_e = (idx)k_cut(G, k_group + 1, k_groups, 1); g < k_e; g++)
#define GROUP_FOR2(a, A, b, B)                   \
    GROUP_FOR(k_t, (idx)(A) * (idx)(B))          \
    for (idx a = k_t / (idx)(B), b = k_t - a * (idx)(B), k_u = 1; k_u; k_u = 0)
#define GRID_FOR2(i, I, j, J) GROUP_FOR(i, I) K_SIMD K_LOOP(j, 0, J)
#define ITEM_FOR(j, n) K_ENTER K_SIMD K_LOOP(j, 0, n)
#define ITEM_FOR2(i, I, j, J) K_ENTER K_LOOP(i, 0, I) K_SIMD K_LOOP(j, 0, J)
#define ITEM_FOR_NB ITEM_FOR
#define ITEM_FOR2_NB ITEM_FOR2
#define ITEM_FOR_ATOMIC(j, n) K_ENTER K_LOOP(j, 0, n) /* not vectorised: lanes would collide */
#define LOCAL_ADD(p, v) (*(p) += (v))
#define ITEMS2(l, y, H, x, W)                                     \
    K_ENTER K_LOOP(y, 0, H) K_SIMD K_LOOP(x, 0, W)                \
    for (idx l = y * (W) + x, k_o = 1; k_o; k_o = 0)
#define ONCE
#define PRIV(T, v) LOCAL(T, v, K_WG)
#define PRIVN(T, v, N) LOCAL2(T, v, N, K_WG)
#define P(v, l) v[l]
#define PN(v, i, l) v[i][l]

/* Compilers vectorise a maximum of floats only when told that there is no NaN, so it is taken of integers in the same
 * order, above which NaN stands (below for a minimum). */
FN i32 k_key_f32(f32 x, i32 nan)
{
    const i32 u = (i32)K_F2U(x);
    return x != x ? nan : u ^ ((u >> 31) & 0x7fffffff);
}
FN f32 k_unkey_f32(i32 k)
{
    return K_U2F((u32)(k ^ ((k >> 31) & 0x7fffffff)));
}
#ifdef K_F64
FN i64 k_key_f64(f64 x, i64 nan)
{
    const i64 u = (i64)K_D2U(x);
    return x != x ? nan : u ^ ((u >> 63) & 0x7fffffffffffffff);
}
FN f64 k_unkey_f64(i64 k)
{
    return K_U2D((u64)(k ^ ((k >> 63) & 0x7fffffffffffffff)));
}
#endif
#define k_key_i32(x, nan) (x)
#define k_key_i64(x, nan) (x)
#define k_unkey_i32(k) (k)
#define k_unkey_i64(k) (k)
#define K_KEY_f32 i32
#define K_KEY_f64 i64
#define K_KEY_i32 i32
#define K_KEY_i64 i64

#define REDUCE_SPACE(T)
#define REDUCE(op, T, v, j, n, e) K_REDUCE(op, T, v, j, n, e)
#define K_REDUCE(op, T, v, j, n, e) K_REDUCE_##op(T, v, j, n, e)
/* In parts, whose rounding errors do not add up as those of one long sum do. */
#define K_PART 4096
#define K_REDUCE_SUM(T, v, j, n, e)                                                                   \
    T v = 0;                                                                                          \
    for (idx k_at = 0; k_at < (idx)(n); k_at += K_PART) {                                             \
        const idx k_end = (idx)(n) - k_at < K_PART ? (idx)(n) : k_at + K_PART;                        \
        T k_part = 0;                                                                                 \
        K_SIMD_REDUCE(SUM, k_part) for (idx j = k_at; j < k_end; j++) k_part += (e);                  \
        v += k_part;                                                                                  \
    }
/* The same of several vectors side by side, where each addition would wait for the one before it: rows of cheap e. */
#if defined(__clang__) && defined(K_C) && !defined(K_REVERSE) && !defined(__OPTIMIZE_SIZE__)
#define REDUCE_LONG(op, T, v, j, n, e) K_REDUCE_LONG_##op(T, v, j, n, e)
#define K_REDUCE_LONG_SUM(T, v, j, n, e)                                                              \
    T v = 0;                                                                                          \
    for (idx k_at = 0; k_at < (idx)(n); k_at += K_PART) {                                             \
        const idx k_end = (idx)(n) - k_at < K_PART ? (idx)(n) : k_at + K_PART;                        \
        const idx k_many = k_at + (k_end - k_at) / 64 * 64;                                           \
        T k_part = 0, k_rest = 0;                                                                     \
        K_PRAGMA(clang loop vectorize(enable) interleave_count(4))                                    \
        for (idx j = k_at; j < k_many; j++) k_part += (e);                                            \
        K_SIMD_REDUCE(SUM, k_rest) for (idx j = k_many; j < k_end; j++) k_rest += (e);                \
        v += k_part + k_rest;                                                                         \
    }
#else
#define REDUCE_LONG REDUCE
#endif
#define K_REDUCE_MAX(T, v, j, n, e) K_REDUCE_KEY(MAX, >, K_ID_MAX_##T, T, v, j, n, e)
#define K_REDUCE_MIN(T, v, j, n, e) K_REDUCE_KEY(MIN, <, K_ID_MIN_##T, T, v, j, n, e)
#define K_REDUCE_KEY(op, cmp, id, T, v, j, n, e)                                              \
    K_KEY_##T k_##v = k_key_##T(id, 0);                                                       \
    K_SIMD_REDUCE(op, k_##v) for (idx j = 0; j < (idx)(n); j++)                               \
    {                                                                                         \
        const K_KEY_##T k_x = k_key_##T((e), K_NAN_##op##_##T);                               \
        k_##v = k_x cmp k_##v ? k_x : k_##v;                                                  \
    }                                                                                         \
    const T v = k_unkey_##T(k_##v)
#define K_NAN_MAX_f32 0x7fc00000
#define K_NAN_MIN_f32 ((i32)0x803fffff)
#define K_NAN_MAX_f64 0x7ff8000000000000
#define K_NAN_MIN_f64 ((i64)0x8007ffffffffffff)
#define K_NAN_MAX_i32 0
#define K_NAN_MIN_i32 0
#define K_NAN_MAX_i64 0
#define K_NAN_MIN_i64 0
#endif

/* ---- vectors and rows, LOOP model only --------------------------------------------------------------------------- */

#ifdef K_LOOPS
/* VEC(R) holds LANES(R) values of f32 or f64; scalars widen in arithmetic. VLOAD and VSTORE take aligned LOCAL memory. */
#define VEC(R) K_CAT(k_vec_, R)
#define LANES(R) K_CAT(K_LANES_, R)
#define VLOAD(R, p) K_CAT(K_VLOAD_, R)(p)
#define VSTORE(R, p, v) K_CAT(K_VSTORE_, R)(p, v)
#ifdef K_OPENCL
#if defined(__AVX__) && !defined(__AVX512F__) /* twice as wide, the 16 registers would not hold a tile */
#define K_LANES_f32 8
#define K_LANES_f64 4
#else
#define K_LANES_f32 16
#define K_LANES_f64 8
#endif
typedef K_CAT(float, K_LANES_f32) k_vec_f32;
typedef K_CAT(int, K_LANES_f32) k_vec_i32;
#define K_VLOAD_f32(p) K_CAT(vload, K_LANES_f32)(0, p)
#define K_VLOAD_i32(p) K_CAT(vload, K_LANES_f32)(0, p)
#define K_VSTORE_f32(p, v) K_CAT(vstore, K_LANES_f32)(v, 0, p)
#ifdef K_F64
typedef K_CAT(double, K_LANES_f64) k_vec_f64;
#define K_VLOAD_f64(p) K_CAT(vload, K_LANES_f64)(0, p)
#define K_VSTORE_f64(p, v) K_CAT(vstore, K_LANES_f64)(v, 0, p)
#endif
#else
#if defined(__AVX512F__)
#define K_LANES_f32 16
#elif defined(__AVX__)
#define K_LANES_f32 8
#else
#define K_LANES_f32 4
#endif
#define K_LANES_f64 (K_LANES_f32 / 2)
typedef f32 k_vec_f32 __attribute__((vector_size(4 * K_LANES_f32), may_alias));
typedef f64 k_vec_f64 __attribute__((vector_size(4 * K_LANES_f32), may_alias));
#define K_VLOAD_f32(p) (*(const k_vec_f32 *)(p))
#define K_VLOAD_f64(p) (*(const k_vec_f64 *)(p))
#define K_VSTORE_f32(p, v) (*(k_vec_f32 *)(p) = (v))
#define K_VSTORE_f64(p, v) (*(k_vec_f64 *)(p) = (v))
#endif

/* Rows to and from LOCAL memory in the type to compute in: k_load_row_T(to, from, stride, n), k_store_row_T(to, stride,
 * from, n). One shared copy per unit, so that a kernel of a narrow type need not hold the conversions itself. */
#define ROW_ACCESS(T) K_ROW_ACCESS(T, REAL(T))
#define K_ROW_ACCESS(T, R) K_ROW_ACCESS_(T, R)
#define K_ROW_ACCESS_(T, R)                                                                               \
    FN_SHARED void k_load_row_##T(LOCALPTR R *RESTRICT to, GLOBAL const T *from, idx stride, idx n)       \
    {                                                                                                     \
        if (stride == 1) {                                                                                \
            K_LOAD_DENSE_##T(to, from, n);                                                                \
        } else if (stride == 0 && n > 0) { /* of an operand that is spread over the row */                \
            const R v = LOAD(T, from, 0);                                                                 \
            K_SIMD K_LOOP(j, 0, n) to[j] = v;                                                             \
        } else {                                                                                          \
            for (idx j = 0; j < n; j++) to[j] = LOAD(T, from, j * stride);                                \
        }                                                                                                 \
    }                                                                                                     \
    FN_SHARED void k_store_row_##T(GLOBAL T *to, idx stride, LOCALPTR const R *RESTRICT from, idx n)      \
    {                                                                                                     \
        if (stride == 1) {                                                                                \
            K_STORE_DENSE_##T(to, from, n);                                                               \
        } else {                                                                                          \
            for (idx j = 0; j < n; j++) STORE(T, to, j * stride, from[j]);                                \
        }                                                                                                 \
    }
#define LOAD_ROW(T, to, from, stride, n) K_CAT(k_load_row_, T)(to, from, stride, n)
#define STORE_ROW(T, to, stride, from, n) K_CAT(k_store_row_, T)(to, stride, from, n)
#define K_LOAD_DENSE(T, to, from, n) K_SIMD K_LOOP(j, 0, n) to[j] = LOAD(T, from, j)
#define K_STORE_DENSE(T, to, from, n) K_SIMD K_LOOP(j, 0, n) STORE(T, to, j, from[j])
#define K_LOAD_DENSE_f32(to, from, n) K_LOAD_DENSE(f32, to, from, n)
#define K_LOAD_DENSE_f64(to, from, n) K_LOAD_DENSE(f64, to, from, n)
#define K_LOAD_DENSE_bf16(to, from, n) K_LOAD_DENSE(bf16, to, from, n)
#define K_LOAD_DENSE_i8(to, from, n) K_LOAD_DENSE(i8, to, from, n)
#define K_LOAD_DENSE_u8(to, from, n) K_LOAD_DENSE(u8, to, from, n)
#define K_LOAD_DENSE_i16(to, from, n) K_LOAD_DENSE(i16, to, from, n)
#define K_LOAD_DENSE_u16(to, from, n) K_LOAD_DENSE(u16, to, from, n)
#define K_LOAD_DENSE_u32(to, from, n) K_LOAD_DENSE(u32, to, from, n)
#define K_LOAD_DENSE_u64(to, from, n) K_LOAD_DENSE(u64, to, from, n)
#define K_LOAD_DENSE_i32(to, from, n) K_LOAD_DENSE(i32, to, from, n)
#define K_LOAD_DENSE_i64(to, from, n) K_LOAD_DENSE(i64, to, from, n)
#define K_STORE_DENSE_f32(to, from, n) K_STORE_DENSE(f32, to, from, n)
#define K_STORE_DENSE_f64(to, from, n) K_STORE_DENSE(f64, to, from, n)
#define K_STORE_DENSE_bf16(to, from, n) K_STORE_DENSE(bf16, to, from, n)
#define K_STORE_DENSE_i8(to, from, n) K_STORE_DENSE(i8, to, from, n)
#define K_STORE_DENSE_u8(to, from, n) K_STORE_DENSE(u8, to, from, n)
#define K_STORE_DENSE_i16(to, from, n) K_STORE_DENSE(i16, to, from, n)
#define K_STORE_DENSE_u16(to, from, n) K_STORE_DENSE(u16, to, from, n)
#define K_STORE_DENSE_u32(to, from, n) K_STORE_DENSE(u32, to, from, n)
#define K_STORE_DENSE_u64(to, from, n) K_STORE_DENSE(u64, to, from, n)
#define K_STORE_DENSE_i32(to, from, n) K_STORE_DENSE(i32, to, from, n)
#define K_STORE_DENSE_i64(to, from, n) K_STORE_DENSE(i64, to, from, n)
#if defined(K_C) && defined(__F16C__) /* the processor converts eight at a time; k_half_* are for the rest */
typedef short k_half8 __attribute__((vector_size(16), may_alias, aligned(2)));
typedef f32 k_float8 __attribute__((vector_size(32), may_alias, aligned(4)));
typedef short k_short8 __attribute__((vector_size(16)));
typedef f32 k_f32x8 __attribute__((vector_size(32)));
#define K_LOAD_DENSE_f16(to, from, n)                                                                         \
    idx k_i = 0;                                                                                              \
    for (; k_i + 8 <= n; k_i += 8) {                                                                          \
        *(k_float8 *)(to + k_i) = __builtin_ia32_vcvtph2ps256((k_short8) * (const k_half8 *)(from + k_i));    \
    }                                                                                                         \
    for (; k_i < n; k_i++) to[k_i] = LOADH(from, k_i)
#define K_STORE_DENSE_f16(to, from, n)                                                                        \
    idx k_i = 0;                                                                                              \
    for (; k_i + 8 <= n; k_i += 8) {                                                                          \
        *(k_half8 *)(to + k_i) = __builtin_ia32_vcvtps2ph256((k_f32x8) * (const k_float8 *)(from + k_i), 0);  \
    }                                                                                                         \
    for (; k_i < n; k_i++) STOREH(to, k_i, from[k_i])
#else
#define K_LOAD_DENSE_f16(to, from, n) K_LOAD_DENSE(f16, to, from, n)
#define K_STORE_DENSE_f16(to, from, n) K_STORE_DENSE(f16, to, from, n)
#endif

/* n rounded up to a multiple of 16, for LOCAL rows with room for that: without a remainder a loop is half the code. */
#define PADDED_FOR(j, n)                                          \
    for (idx k_b = 0; k_b < (idx)(n); k_b += 16)                  \
    K_SIMD for (idx j = k_b; j < k_b + 16; j++)

/* Applies an activation to a row with room for a multiple of 16: one vectorised loop each. */
#define K_ACTIVATE_LOOP(R, name) PADDED_FOR(j, n) row[j] = k_##name##_##R(row[j])
#define K_ACTIVATE_ROW(R)                                                              \
    FN_SHARED void k_activate_row_##R(LOCALPTR R *row, const idx n, const i32 activation) \
    {                                                                                  \
        if (activation == 1) {                                                         \
            K_ACTIVATE_LOOP(R, relu);                                                  \
        } else if (activation == 2) {                                                  \
            K_ACTIVATE_LOOP(R, gelu);                                                  \
        } else if (activation == 3) {                                                  \
            K_ACTIVATE_LOOP(R, gelu_tanh);                                             \
        } else if (activation == 4) {                                                  \
            K_ACTIVATE_LOOP(R, sigmoid);                                               \
        } else if (activation == 5) {                                                  \
            K_ACTIVATE_LOOP(R, tanh);                                                  \
        } else if (activation == 6) {                                                  \
            K_ACTIVATE_LOOP(R, silu);                                                  \
        }                                                                              \
    }
K_ACTIVATE_ROW(f32)
#ifdef K_F64
K_ACTIVATE_ROW(f64)
#endif
#define ACTIVATE_ROW(T, row, n, activation) K_CAT(k_activate_row_, REAL(T))(row, n, activation)
#endif

/* ---- C entry points and signatures ------------------------------------------------------------------------------ */

#ifdef K_C
/* What a table or dlsym("<name>__<isa>") yields. argv holds a pointer to each argument's value. */
typedef struct k_info {
    const char *name, *sig; /* sig: "(IN(f32,x), OUT(f32,y), VAL(i64,n))" */
    void (*run)(i64 group, i64 groups, void *const *argv);
} k_info;

/* The argument list is walked by pasting a prefix to each kind, so here IN, OUT ... are no macros. */
#define K_COUNT_(a, b, c, d, e, f, g, h, i, j, k, l, m, n, o, p, q, r, s, t, u, v, w, x, y, z, A, B, C, D, E, F, N, ...) N
#define K_COUNT(...)                                                                                                   \
    K_COUNT_(__VA_ARGS__, 32, 31, 30, 29, 28, 27, 26, 25, 24, 23, 22, 21, 20, 19, 18, 17, 16, 15, 14, 13, 12, 11, 10, \
             9, 8, 7, 6, 5, 4, 3, 2, 1, 0)
#define K_M1(F, i, a) F(i, a)
#define K_M2(F, i, a, ...) F(i, a) K_M1(F, i + 1, __VA_ARGS__)
#define K_M3(F, i, a, ...) F(i, a) K_M2(F, i + 1, __VA_ARGS__)
#define K_M4(F, i, a, ...) F(i, a) K_M3(F, i + 1, __VA_ARGS__)
#define K_M5(F, i, a, ...) F(i, a) K_M4(F, i + 1, __VA_ARGS__)
#define K_M6(F, i, a, ...) F(i, a) K_M5(F, i + 1, __VA_ARGS__)
#define K_M7(F, i, a, ...) F(i, a) K_M6(F, i + 1, __VA_ARGS__)
#define K_M8(F, i, a, ...) F(i, a) K_M7(F, i + 1, __VA_ARGS__)
#define K_M9(F, i, a, ...) F(i, a) K_M8(F, i + 1, __VA_ARGS__)
#define K_M10(F, i, a, ...) F(i, a) K_M9(F, i + 1, __VA_ARGS__)
#define K_M11(F, i, a, ...) F(i, a) K_M10(F, i + 1, __VA_ARGS__)
#define K_M12(F, i, a, ...) F(i, a) K_M11(F, i + 1, __VA_ARGS__)
#define K_M13(F, i, a, ...) F(i, a) K_M12(F, i + 1, __VA_ARGS__)
#define K_M14(F, i, a, ...) F(i, a) K_M13(F, i + 1, __VA_ARGS__)
#define K_M15(F, i, a, ...) F(i, a) K_M14(F, i + 1, __VA_ARGS__)
#define K_M16(F, i, a, ...) F(i, a) K_M15(F, i + 1, __VA_ARGS__)
#define K_M17(F, i, a, ...) F(i, a) K_M16(F, i + 1, __VA_ARGS__)
#define K_M18(F, i, a, ...) F(i, a) K_M17(F, i + 1, __VA_ARGS__)
#define K_M19(F, i, a, ...) F(i, a) K_M18(F, i + 1, __VA_ARGS__)
#define K_M20(F, i, a, ...) F(i, a) K_M19(F, i + 1, __VA_ARGS__)
#define K_M21(F, i, a, ...) F(i, a) K_M20(F, i + 1, __VA_ARGS__)
#define K_M22(F, i, a, ...) F(i, a) K_M21(F, i + 1, __VA_ARGS__)
#define K_M23(F, i, a, ...) F(i, a) K_M22(F, i + 1, __VA_ARGS__)
#define K_M24(F, i, a, ...) F(i, a) K_M23(F, i + 1, __VA_ARGS__)
#define K_M25(F, i, a, ...) F(i, a) K_M24(F, i + 1, __VA_ARGS__)
#define K_M26(F, i, a, ...) F(i, a) K_M25(F, i + 1, __VA_ARGS__)
#define K_M27(F, i, a, ...) F(i, a) K_M26(F, i + 1, __VA_ARGS__)
#define K_M28(F, i, a, ...) F(i, a) K_M27(F, i + 1, __VA_ARGS__)
#define K_M29(F, i, a, ...) F(i, a) K_M28(F, i + 1, __VA_ARGS__)
#define K_M30(F, i, a, ...) F(i, a) K_M29(F, i + 1, __VA_ARGS__)
#define K_M31(F, i, a, ...) F(i, a) K_M30(F, i + 1, __VA_ARGS__)
#define K_M32(F, i, a, ...) F(i, a) K_M31(F, i + 1, __VA_ARGS__)
#define K_EACH(F, ...) K_CAT(K_M, K_COUNT(__VA_ARGS__))(F, 0, __VA_ARGS__)

#define K_DECLARE(i, a) , K_DECLARE_##a
#define K_DECLARE_IN(T, x) const T *RESTRICT x
#define K_DECLARE_OUT(T, x) T *RESTRICT x
#define K_DECLARE_INOUT(T, x) T *RESTRICT x
#define K_DECLARE_ALIAS(T, x) const T *x
#define K_DECLARE_ALIAS_OUT(T, x) T *x
#define K_DECLARE_VAL(T, x) const T x
#define K_PULL(i, a) , K_PULL_##a k_argv[i]
#define K_PULL_IN(T, x) *(const T *const *)
#define K_PULL_OUT(T, x) *(T *const *)
#define K_PULL_INOUT(T, x) *(T *const *)
#define K_PULL_ALIAS(T, x) *(const T *const *)
#define K_PULL_ALIAS_OUT(T, x) *(T *const *)
#define K_PULL_VAL(T, x) *(const T *)
#define K_DECLARES(...) K_EACH(K_DECLARE, __VA_ARGS__)
#define K_PULLS(...) K_EACH(K_PULL, __VA_ARGS__)

/* The signature is text with its types expanded, so the kinds are spelt back as strings. */
#define K_STR(...) K_STR_(__VA_ARGS__)
#define K_STR_(...) #__VA_ARGS__

#ifndef K_ISA
#define K_ISA base /* the build compiles each unit once per instruction set: -DK_ISA=v3 ... */
#endif
#ifdef K_LIST /* cc -E -P -DK_LIST lists kernels and signatures for the build */
#define KERNEL(name, args) @K name K_STR(args)
#else
#define KERNEL(name, args) K_KERNEL(name, K_CAT(name, K_CAT(__, K_ISA)), args, K_STR(name), K_STR(args))
#define K_KERNEL(name, sym, args, text, sig) K_KERNEL_(name, sym, args, text, sig)
#define K_KERNEL_(name, sym, args, text, sig)                                                                \
    static inline __attribute__((always_inline)) void k_body_##name(const i64 k_group,                       \
                                                                    const i64 k_groups K_DECLARES args);     \
    static void sym##__run(i64 k_g, i64 k_G, void *const *k_argv)                                            \
    {                                                                                                        \
        k_body_##name(k_g, k_G K_PULLS args);                                                                \
    }                                                                                                        \
    const k_info sym = {text, sig, sym##__run};                                                              \
    static inline __attribute__((always_inline)) void k_body_##name(const i64 k_group,                       \
                                                                    const i64 k_groups K_DECLARES args)
#endif
#endif

#endif /* DHOW_KERNEL_K_H_ */
