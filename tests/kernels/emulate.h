/* SPDX-License-Identifier: Apache-2.0
 *
 * Just enough of CUDA for g++ to compile a kernel text in its GPU form: put in front of it with
 * -include. A group's items run as fibers of one thread (emulate.c); shared memory is static, since
 * one group runs at a time. Half-precision conversions are inline assembly of the GPU, so f16
 * compiles and means nothing here.
 */
#ifndef EMULATE_H_
#define EMULATE_H_

#include <cmath>
#include <cstring>

#define __CUDACC__ 1
#define __global__
#define __device__
#define __constant__ static const
#define __forceinline__ inline
#define __shared__ static
#define __launch_bounds__(...)
#define __align__(bytes) __attribute__((aligned(bytes)))
#define asm(...) ((void)0)

struct emulate_index {
    int x;
};
extern "C" {
extern emulate_index threadIdx, blockIdx, gridDim;
void emulate_barrier(void);
/* The 8 bytes that item (this one xor lane_mask) has brought. */
unsigned long long emulate_exchange(unsigned long long bits, int lane_mask);
}

#define __syncthreads() emulate_barrier()
template <typename V>
static inline V __shfl_xor_sync(unsigned, V value, int lane_mask) {
    unsigned long long bits = 0;
    memcpy(&bits, &value, sizeof value);
    bits = emulate_exchange(bits, lane_mask);
    memcpy(&value, &bits, sizeof value);
    return value;
}
template <typename To, typename From>
static inline To emulate_cast(From from) {
    To to;
    static_assert(sizeof to == sizeof from, "sizes");
    memcpy(&to, &from, sizeof to);
    return to;
}
#define __umulhi(a, b) ((unsigned)((unsigned long long)(a) * (b) >> 32))
#define __clz(v) ((v) == 0 ? 32 : __builtin_clz((unsigned)(v)))
#define __float_as_uint(v) emulate_cast<unsigned>((float)(v))
#define __uint_as_float(v) emulate_cast<float>((unsigned)(v))
#define __int_as_float(v) emulate_cast<float>((int)(v))
#define __longlong_as_double(v) emulate_cast<double>((long long)(v))
#define __double_as_longlong(v) emulate_cast<long long>((double)(v))
template <typename V, typename W>
static inline V atomicAdd(V *p, W value) {
    const V old = *p;
    *p += (V)value;
    return old;
}
static inline float rsqrtf(float x) { return 1.0f / sqrtf(x); }

#endif /* EMULATE_H_ */
