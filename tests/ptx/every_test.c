/* SPDX-License-Identifier: Apache-2.0
 *
 * Kernels that exist for each of many types, all of them, with indices of 32 and of 64 bits.
 */
#include <criterion/criterion.h>
#include <stdio.h>
#include <string.h>

#include "support.h"

/* Made values are positive and small, so that signed and unsigned ones have the same bits. */
static const struct type {
    const char *name;
    element element;
    double tolerance;
} k_types[] = {{"f32", F32, 1e-6}, {"f64", F64, 1e-14}, {"f16", F16, 1e-3}, {"bf16", BF16, 1e-2},
               {"i8", U8, 0},      {"u8", U8, 0},       {"i16", U16, 0},    {"u16", U16, 0},
               {"i32", I32, 0},    {"u32", U32, 0},     {"i64", I64, 0},    {"u64", U64, 0}};
enum { TYPES = sizeof k_types / sizeof *k_types };

static element element_of(const char *name) {
    for (size_t t = 0; t < TYPES; t++)
        if (strcmp(k_types[t].name, name) == 0) return k_types[t].element;
    cr_assert_str_eq(name, "bool");
    return U8;
}

Test(ptx_every, cast_gives_what_the_cpu_gives) {
    for (size_t i = 0; i < 2 * TYPES; i++) {
        ptx_module *m = ptx_load("cast", k_types[i / 2].name, i % 2 ? 64 : 32, NULL);
        for (size_t k = 0; k < ptx_kernel_count(m); k++) {
            const char *name = ptx_kernel_name(ptx_kernel_at(m, k));
            const element to = element_of(strrchr(name, '_') + 1);
            for (size_t shift = 0; shift < 2; shift++)
                AS_CPU(m, name, 2, 0, IN(x, k_types[i / 2].element, 1027, shift),
                       OUT(y, to, 1027, shift), INT64(n, 1027));
        }
        ptx_free(m);
    }
}

/* The bits of a number as the kernel takes it: floating-point types compute in f32, f64 in f64. */
static long long number(const struct type *type, int value) {
    const float single = (float)value;
    const double wide = value;
    long long bits = value;
    if (type->element == F64) memcpy(&bits, &wide, sizeof wide);
    if (type->element == F32 || type->element == F16 || type->element == BF16) {
        bits = 0;
        memcpy(&bits, &single, sizeof single);
    }
    return bits;
}

Test(ptx_every, scalar_form_gives_what_the_cpu_gives) {
    for (size_t i = 0; i < 2 * TYPES; i++) {
        const struct type *type = &k_types[i / 2];
        char name[64];
        (void)snprintf(name, sizeof name, "scalar_%s", type->name);
        ptx_module *m = ptx_load("scalar", type->name, i % 2 ? 64 : 32, NULL);
        for (int form = 0; form <= 10; form++)
            for (size_t shift = 0; shift < 2; shift++)
                AS_CPU(m, name, 2, 10 * type->tolerance, IN(x, type->element, 515, shift),
                       OUT(y, type->element, 515, shift), INT64(n, 515), INT32(form, form),
                       INT64(first, number(type, 3)), INT64(second, number(type, 2)));
        ptx_free(m);
    }
}

Test(ptx_every, key_sorts_as_the_cpu_s) {
    for (size_t i = 0; i < 2 * TYPES; i++) {
        const struct type *type = &k_types[i / 2];
        const int wide = strstr(type->name, "64") != NULL;
        char name[64];
        (void)snprintf(name, sizeof name, "sort_keys_%s", type->name);
        ptx_module *m = ptx_load("keys", type->name, i % 2 ? 64 : 32, NULL);
        for (int falling = 0; falling < 2; falling++)
            AS_CPU(m, name, 2, 0, IN(x, type->element, 3 * 40 * 2, 0),
                   OUT(key, wide ? U64 : U32, 3 * 40 * 2, 0), INT64(outer, 3), INT64(n, 40),
                   INT64(inner, 2), INT32(falling, falling));
        ptx_free(m);
    }
}
