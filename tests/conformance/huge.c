/* SPDX-License-Identifier: Apache-2.0
 *
 * Cases of more than 4 GiB, where a size or an index of 32 bits would wrap. They take twice that
 * much memory of the device, and run only where they are asked for.
 */
#include "support.h"

#define BYTES ((INT64_C(4) << 30) + (1 << 20) + 7)

static conform_result large(conform_env *env, dhow_tensor **out) {
    dhow_status status = dhow_tensor_create(env->device, DHOW_U8, DHOW_SHAPE(BYTES), out);
    if (status == DHOW_OUT_OF_MEMORY) return conform_unsupported(env, "%s", dhow_last_error());
    OWN(TENSOR, out, status);
    return CONFORM_PASS;
}

/* The start, what wraps to it, both sides of 4 GiB, the end. */
static const int64_t k_places[] = {0, (1 << 20) + 7 - 4096, (INT64_C(2) << 30) - 2048,
                                   (INT64_C(4) << 30) - 2048, BYTES - 4096};
enum { PLACES = sizeof k_places / sizeof k_places[0], PART = 4096 };

static conform_result part(conform_env *env, dhow_tensor *t, int place, dhow_tensor **out) {
    OWN(TENSOR, out, dhow_tensor_slice(t, 0, k_places[place], k_places[place] + PART, 1, out));
    return CONFORM_PASS;
}

static conform_result copies(conform_env *env) {
    unsigned char data[PART];
    dhow_tensor *from, *to, *view;
    TRY(large(env, &from));
    TRY(large(env, &to));
    OK(dhow_fill(NULL, from, 1));
    OK(dhow_fill(NULL, to, 2));
    for (int i = 0; i < PLACES; i++) {
        conform_pattern(data, PART, (uint64_t)i + 1);
        TRY(part(env, from, i, &view));
        OK(dhow_tensor_write(view, data, PART));
    }
    OK(dhow_copy(from, to));
    for (int i = 0; i < PLACES; i++) {
        conform_pattern(data, PART, (uint64_t)i + 1);
        TRY(part(env, to, i, &view));
        TRY(conform_expect_bytes(env, view, data, PART, "a part of the copy"));
    }
    return CONFORM_PASS;
}

static conform_result fills_and_computes(conform_env *env) {
    unsigned char want[PART];
    dhow_tensor *t, *view;
    TRY(large(env, &t));
    OK(dhow_fill(NULL, t, 21));
    OK(dhow_add(NULL, t, t, t));
    memset(want, 42, sizeof want);
    for (int i = 0; i < PLACES; i++) {
        TRY(part(env, t, i, &view));
        TRY(conform_expect_bytes(env, view, want, PART, "the sum"));
    }
    return CONFORM_PASS;
}

const conform_case conform_huge_cases[] = {
    CASE("huge/copy", copies, "huge,copy"),
    CASE("huge/compute", fills_and_computes, "huge,kernel"),
};
CASES_END(conform_huge);
