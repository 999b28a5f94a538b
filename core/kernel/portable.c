/* SPDX-License-Identifier: Apache-2.0
 *
 * What a portable text means by a name that its compiler refuses: functions of one language have
 * other names in the dialect, see the table in dhow/kernel/k.h. And names that kernels cannot have.
 */
#include <stdio.h>
#include <string.h>

#include "base/memory/size.h"
#include "base/text/text.h"
#include "kernel/module.h"

static const char *const k_functions[] = {
    "exp",   "exp2", "expm1", "log",   "log2", "log10", "log1p",   "sqrt", "cbrt",  "sin",
    "cos",   "tan",  "asin",  "acos",  "atan", "sinh",  "cosh",    "tanh", "asinh", "acosh",
    "atanh", "erf",  "erfc",  "floor", "ceil", "round", "trunc",   "rint", "fabs",  "pow",
    "atan2", "fmod", "fmin",  "fmax",  "fma",  "hypot", "copysign"};

/* What OpenCL C, CUDA's C++ or dhow/kernel/k.h have for themselves: functions, types and keywords.
 */
static const char k_taken[] =
    " abs abs_diff acos acosh acospi add_sat all and any asin asinh asinpi assert "
    "async_work_group_copy atan atan2 atan2pi atanh atanpi atomic_add atomic_and "
    "atomic_cmpxchg atomic_dec atomic_inc atomic_max atomic_min atomic_or atomic_sub "
    "atomic_xchg atomic_xor auto barrier bf16 bitselect bool break case catch cbrt ceil char "
    "clamp class clock clock64 clz const constant constexpr continue copysign cos cosh cospi "
    "cross cyl_bessel_i0 cyl_bessel_i1 default degrees delete dim3 dims distance do dot double "
    "else enum erf erfc erfcinv erfcx erfinv event_t exp exp10 exp2 expm1 export extern f16 "
    "f32 f64 fabs false fast_distance fast_length fast_normalize fdim fdivide fdividef float "
    "floor fma fmax fmin fmod for fract free frexp friend global goto hadd half hypot i16 i32 "
    "i64 i8 idx if ilogb inline int isequal isfinite isgreater isgreaterequal isinf isless "
    "islessequal islessgreater isnan isnormal isnotequal isordered isunordered j0 j1 jn kernel "
    "labs ldexp length lgamma lgamma_r llabs llmax llmin llrint llround local log log10 log1p "
    "log2 logb long lrint lround mad mad24 mad_hi mad_sat main malloc max maxmag mem_fence "
    "memcpy memset min minmag mix modf mul24 mul_hi namespace nan nearbyint new nextafter norm "
    "norm3d norm4d normalize normcdf normcdfinv not operator or popcount pow pown powr "
    "prefetch printf private protected public radians rcbrt read_mem_fence read_only "
    "read_write register remainder remquo restrict return rhadd rhypot rint rnorm rnorm3d "
    "rnorm4d rootn rotate round rsqrt sampler_t scalbln scalbn select short shuffle shuffle2 "
    "sign signbit signed sin sincos sincospi sinh sinpi size_t sizeof smoothstep sqrt static "
    "step struct sub_sat switch tan tanh tanpi template tgamma this throw true trunc try "
    "typedef typename u16 u32 u64 u8 uchar uint ullmax ullmin ulong umax umin union unsigned "
    "upsample ushort using vec_step virtual void volatile wait_group_events while "
    "write_mem_fence write_only xor y0 y1 yn ";

dhow_status dhowi_portable_name(const char *module, const char *kernel) {
    char word[32];
    (void)snprintf(word, sizeof word, " %.28s ", kernel);
    if (strlen(kernel) > 28 || strstr(k_taken, word) == NULL) return DHOW_OK;
    return dhowi_fail(
        DHOW_INVALID_ARGUMENT,
        "%s: a kernel cannot be named '%s': OpenCL C or CUDA has that name for itself "
        "and would not compile it; call it 'my_%s' or otherwise",
        module, kernel, kernel);
}

static bool is_word(char c) {
    return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') || c == '_';
}

/* Compilers quote names with ', or in UTF-8. */
static bool is_quote(char c) { return c == '\'' || c == '"' || (unsigned char)c == 0x98; }

static bool is(const char *word, size_t length, const char *name) {
    return strlen(name) == length && memcmp(word, name, length) == 0;
}

/* "sinf" or "sin" is MATH(f32,sin). */
static bool explain(const char *word, size_t length, char *out, size_t capacity) {
    if (is(word, length, "MAX") || is(word, length, "MIN")) {
        (void)snprintf(out, capacity, "%.3s exists inside of REDUCE only: write %.3sOF(a, b)", word,
                       word);
        return true;
    }
    for (size_t i = 0; i < DHOWI_COUNT(k_functions); i++) {
        const size_t own = strlen(k_functions[i]);
        if (memcmp(word, k_functions[i], DHOWI_MIN(own, length)) != 0) continue;
        if (length != own && !(length == own + 1 && word[own] == 'f')) continue;
        (void)snprintf(out, capacity, "not every compiler has %.*s(): write MATH(f32, %s)",
                       (int)length, word, k_functions[i]);
        return true;
    }
    return false;
}

dhow_status dhowi_portable_hint(dhow_status status) {
    char message[1024], hint[160];
    (void)dhowi_copy_text(message, sizeof message, dhow_last_error());
    for (const char *p = message; *p != '\0';) {
        size_t length = 0;
        while (is_word(p[length])) length++;
        if (length > 0 && p > message && is_quote(p[-1]) && explain(p, length, hint, sizeof hint))
            return dhowi_fail(status, "%.840s; %s", message, hint);
        p += length > 0 ? length : 1;
    }
    return status;
}
