/* SPDX-License-Identifier: Apache-2.0
 *
 * Cases of making and looking at tensors: zeros, ones, like another, numbers in a row, clones,
 * dtypes, views without and with dimensions of extent 1, stacks, single values and text.
 */
#include "support.h"

static const dhow_dtype k_types[] = {DHOW_F32, DHOW_F64, DHOW_F16, DHOW_BF16, DHOW_I8,
                                     DHOW_U8,  DHOW_I16, DHOW_U16, DHOW_I32,  DHOW_U32,
                                     DHOW_I64, DHOW_U64, DHOW_BOOL};
enum { TYPES = sizeof k_types / sizeof k_types[0] };

static conform_result expect_all(conform_env *env, dhow_tensor *t, dhow_dtype dtype, double value) {
    static const int64_t shape[] = {3, 5};
    conform_array want = conform_array_new(env, dtype, 2, shape);
    for (int64_t i = 0; i < want.count; i++) want.value[i] = value;
    return conform_expect(env, t, &want, (conform_tolerance){0, 0}, dhow_dtype_name(dtype));
}

static conform_result filled(conform_env *env) {
    for (int k = 0; k < TYPES; k++) {
        dhow_dtype dtype = k_types[k];
        dhow_tensor *t, *turned, *like;
        OWN(TENSOR, &t, dhow_tensor_zeros(env->device, dtype, DHOW_SHAPE(3, 5), &t));
        TRY(expect_all(env, t, dtype, 0));
        OWN(TENSOR, &like, dhow_tensor_ones_like(t, &like));
        TRY(expect_all(env, like, dtype, 1));
        OWN(TENSOR, &t, dhow_tensor_ones(env->device, dtype, DHOW_SHAPE(5, 3), &t));
        OWN(TENSOR, &turned, dhow_tensor_transpose(t, 0, 1, &turned));
        OWN(TENSOR, &like, dhow_tensor_zeros_like(turned, &like));
        TRY(expect_all(env, like, dtype, 0));
        OWN(TENSOR, &like, dhow_tensor_full_like(turned, DHOW_SCALAR(1), &like));
        TRY(expect_all(env, like, dtype, 1));
        OWN(TENSOR, &like, dhow_tensor_empty_like(turned, &like));
        CHECK(dhow_tensor_extent(like, 0) == 3 && dhow_tensor_device(like) == env->device,
              "empty_like");
    }
    return CONFORM_PASS;
}

static conform_result arange(conform_env *env) {
    const int64_t big = (INT64_C(1) << 53) + 1, want[] = {big, big - 3, big - 6, big - 9};
    for (int k = 0; k < TYPES; k++) {
        const int64_t shape[] = {13};
        conform_array a = conform_array_new(env, k_types[k], 1, shape);
        dhow_tensor *t;
        if (k_types[k] == DHOW_BOOL) continue;
        for (int64_t i = 0; i < 13; i++) a.value[i] = (double)(3 + 5 * i);
        OWN(TENSOR, &t,
            dhow_tensor_arange(env->device, k_types[k], DHOW_SCALAR(3), DHOW_SCALAR(64),
                               DHOW_SCALAR(5), &t));
        TRY(conform_expect(env, t, &a, (conform_tolerance){0, 0}, "arange"));
    }
    dhow_tensor *t;
    OWN(TENSOR, &t,
        dhow_tensor_arange(env->device, DHOW_I64, DHOW_SCALAR(big), DHOW_SCALAR(big - 10),
                           DHOW_SCALAR(-3), &t));
    TRY(conform_expect_bytes(env, t, want, sizeof want, "arange downwards"));
    OWN(TENSOR, &t,
        dhow_tensor_arange(env->device, DHOW_F32, DHOW_SCALAR(0), DHOW_SCALAR(1), DHOW_SCALAR(0.3),
                           &t));
    CHECK(dhow_tensor_count(t) == 4, "0 to 1 by 0.3 has %" PRId64, dhow_tensor_count(t));
    OWN(TENSOR, &t,
        dhow_tensor_arange(env->device, DHOW_I32, DHOW_SCALAR(2), DHOW_SCALAR(2), DHOW_SCALAR(1),
                           &t));
    CHECK(dhow_tensor_count(t) == 0, "an empty row");
    const dhow_scalar zero = DHOW_SCALAR(0), nine = DHOW_SCALAR(9), far = DHOW_SCALAR(300);
    FAILS(DHOW_INVALID_ARGUMENT, "step is 0",
          dhow_tensor_arange(env->device, DHOW_F32, zero, nine, zero, &t));
    FAILS(DHOW_INVALID_ARGUMENT, "leads away",
          dhow_tensor_arange(env->device, DHOW_I32, nine, zero, nine, &t));
    FAILS(DHOW_OUT_OF_RANGE, "beyond the range of u8",
          dhow_tensor_arange(env->device, DHOW_U8, zero, far, nine, &t));
    FAILS(DHOW_INVALID_ARGUMENT, "bool",
          dhow_tensor_arange(env->device, DHOW_BOOL, zero, nine, nine, &t));
    return CONFORM_PASS;
}

static conform_result copies(conform_env *env) {
    static const int64_t shape[] = {4, 7};
    for (int k = 0; k < TYPES; k++) {
        conform_array a = conform_array_random(env, k_types[k], 2, shape, 0, 1, (uint64_t)k + 1);
        conform_array whole = conform_array_new(env, DHOW_I32, 2, shape);
        for (int64_t i = 0; i < a.count; i++) whole.value[i] = trunc(a.value[i]);
        for (conform_layout at = LAYOUT_PLAIN; at < LAYOUT_COUNT; at++) {
            dhow_tensor *t, *copy, *same;
            TRY(conform_upload(env, &a, at, &t));
            OWN(TENSOR, &copy, dhow_tensor_clone(NULL, t, &copy));
            CHECK(copy != t, "a clone is another tensor");
            OWN(TENSOR, &same, dhow_tensor_to_dtype(NULL, t, k_types[k], &same));
            CHECK(same == t, "to_dtype of its own dtype");
            OK(dhow_fill(NULL, t, 0));
            TRY(conform_expect(env, copy, &a, (conform_tolerance){0, 0}, "clone"));
            if (!conform_computes(env, k_types[k])) continue;
            OWN(TENSOR, &same, dhow_tensor_to_dtype(NULL, copy, DHOW_I32, &same));
            TRY(conform_expect(env, same, &whole, (conform_tolerance){0, 0}, "to_dtype"));
        }
    }
    return CONFORM_PASS;
}

static bool has_shape(dhow_tensor *t, int32_t rank, const int64_t *shape) {
    dhow_tensor_info info = DHOW_INIT(dhow_tensor_info);
    return dhow_tensor_get_info(t, &info) == DHOW_OK && info.rank == rank &&
           memcmp(info.shape, shape, (size_t)rank * sizeof *shape) == 0;
}

static conform_result views(conform_env *env) {
    dhow_tensor *t, *v, *turned, *part;
    OWN(TENSOR, &t, dhow_tensor_zeros(env->device, DHOW_F32, DHOW_SHAPE(1, 3, 1, 4), &t));
    OWN(TENSOR, &v, dhow_tensor_squeeze(t, DHOW_ALL_DIMS, &v));
    CHECK(has_shape(v, DHOW_SHAPE(3, 4)), "squeeze");
    OWN(TENSOR, &v, dhow_tensor_squeeze(t, -2, &v));
    CHECK(has_shape(v, DHOW_SHAPE(1, 3, 4)), "squeeze of -2");
    OWN(TENSOR, &v, dhow_tensor_squeeze(t, 1, &v));
    CHECK(has_shape(v, DHOW_SHAPE(1, 3, 1, 4)), "squeeze of an extent of 3");
    OWN(TENSOR, &v, dhow_tensor_unsqueeze(t, -1, &v));
    CHECK(has_shape(v, DHOW_SHAPE(1, 3, 1, 4, 1)), "unsqueeze of -1");
    OWN(TENSOR, &v, dhow_tensor_unsqueeze(t, 1, &v));
    CHECK(has_shape(v, DHOW_SHAPE(1, 1, 3, 1, 4)), "unsqueeze of 1");
    OWN(TENSOR, &v, dhow_tensor_flatten(t, 0, -1, &v));
    CHECK(has_shape(v, DHOW_SHAPE(12)), "flatten");
    OWN(TENSOR, &v, dhow_tensor_flatten(t, 1, 2, &v));
    CHECK(has_shape(v, DHOW_SHAPE(1, 3, 4)), "flatten of 1 and 2");
    FAILS(DHOW_OUT_OF_RANGE, "dhow_tensor_squeeze", dhow_tensor_squeeze(t, 4, &v));
    FAILS(DHOW_OUT_OF_RANGE, "dhow_tensor_unsqueeze", dhow_tensor_unsqueeze(t, 5, &v));
    FAILS(DHOW_INVALID_ARGUMENT, "before the first", dhow_tensor_flatten(t, 2, 1, &v));
    OWN(TENSOR, &turned, dhow_tensor_transpose(t, 1, 3, &turned));
    FAILS(DHOW_INVALID_ARGUMENT, "dhow_tensor_contiguous", dhow_tensor_flatten(turned, 0, -1, &v));
    OWN(TENSOR, &part, dhow_tensor_select(t, 0, 0, &part));
    OK(dhow_fill(NULL, part, 7)); /* a view writes through */
    OWN(TENSOR, &v, dhow_tensor_flatten(t, 0, -1, &v));
    OWN(TENSOR, &v, dhow_tensor_select(v, 0, 11, &v));
    double got;
    OK(dhow_tensor_item(v, &got));
    CHECK(got == 7, "the last element is %g", got);
    OWN(TENSOR, &v, dhow_tensor_flatten(v, 0, 0, &v));
    CHECK(has_shape(v, DHOW_SHAPE(1)), "flatten of a number");
    return CONFORM_PASS;
}

static conform_result stacks(conform_env *env) {
    static const int64_t shape[] = {3, 4};
    conform_array a = conform_array_random(env, DHOW_F32, 2, shape, -9, 9, 1);
    conform_array b = conform_array_random(env, DHOW_F32, 2, shape, -9, 9, 2);
    dhow_tensor *in[2], *y;
    TRY(conform_upload(env, &a, LAYOUT_TRANSPOSED, &in[0]));
    TRY(conform_upload(env, &b, LAYOUT_STEPPED, &in[1]));
    for (int32_t dim = 0; dim < 3; dim++) {
        int64_t extents[3] = {3, 4, 4}, at = 0;
        if (dim < 2) extents[1] = dim == 0 ? 3 : 2;
        extents[dim] = 2;
        conform_array want = conform_array_new(env, DHOW_F32, 3, extents);
        for (int64_t i = 0; i < extents[0]; i++) {
            for (int64_t j = 0; j < extents[1]; j++) {
                for (int64_t k = 0; k < extents[2]; k++) {
                    const int64_t index[] = {i, j, k};
                    const int64_t row = dim == 0 ? j : i, column = dim == 2 ? j : k;
                    want.value[at++] = (index[dim] == 0 ? a : b).value[row * 4 + column];
                }
            }
        }
        TRY(conform_blank(env, &want, LAYOUT_PLAIN, &y));
        OK(dhow_stack(NULL, in, 2, dim - 3, y));
        TRY(conform_expect(env, y, &want, (conform_tolerance){0, 0}, "stack"));
    }
    FAILS(DHOW_INVALID_ARGUMENT, "no layer", dhow_stack(NULL, in, 2, 1, y));
    OWN(TENSOR, &y, dhow_tensor_create(env->device, DHOW_F32, DHOW_SHAPE(3, 3, 4), &y));
    FAILS(DHOW_INVALID_ARGUMENT, "there are 2 tensors", dhow_stack(NULL, in, 2, 0, y));
    return CONFORM_PASS;
}

static conform_result items(conform_env *env) {
    const int64_t big = -(INT64_C(1) << 53) - 1;
    dhow_tensor *t;
    double real;
    int64_t whole;
    for (int k = 0; k < TYPES; k++) {
        const double value = k_types[k] == DHOW_BOOL ? 1 : 3;
        OWN(TENSOR, &t, dhow_tensor_full(env->device, k_types[k], 0, NULL, value, &t));
        OK(dhow_tensor_item(t, &real));
        CHECK(real == value, "%s: %g", dhow_dtype_name(k_types[k]), real);
    }
    static const double halves[] = {-0.5, 65504, 0x1p-24, -INFINITY};
    for (int i = 0; i < 4; i++) {
        OWN(TENSOR, &t, dhow_tensor_full(env->device, DHOW_F16, 0, NULL, halves[i], &t));
        OK(dhow_tensor_item(t, &real));
        CHECK(real == halves[i], "%g instead of %g", real, halves[i]);
        FAILS(DHOW_INVALID_ARGUMENT, "f16", dhow_tensor_item_i64(t, &whole));
    }
    OWN(TENSOR, &t,
        dhow_tensor_full_scalar(env->device, DHOW_I64, DHOW_SHAPE(1, 1), DHOW_SCALAR(big), &t));
    OK(dhow_tensor_item_i64(t, &whole));
    CHECK(whole == big, "%" PRId64, whole);
    OWN(TENSOR, &t, dhow_tensor_full(env->device, DHOW_I8, DHOW_SHAPE(1), -128, &t));
    OK(dhow_tensor_item_i64(t, &whole));
    CHECK(whole == -128, "%" PRId64, whole);
    OWN(TENSOR, &t,
        dhow_tensor_full_scalar(env->device, DHOW_U64, DHOW_SHAPE(1), DHOW_SCALAR(UINT64_MAX), &t));
    FAILS(DHOW_OUT_OF_RANGE, "i64", dhow_tensor_item_i64(t, &whole));
    OWN(TENSOR, &t, dhow_tensor_zeros(env->device, DHOW_F32, DHOW_SHAPE(2), &t));
    FAILS(DHOW_INVALID_ARGUMENT, "one element", dhow_tensor_item(t, &real));
    return CONFORM_PASS;
}

/* ---- text ---- */

typedef struct text {
    char buffer[8192];
    size_t length;
} text;

static void keep(void *user, const char *piece, uint64_t bytes) {
    text *t = user;
    if (t->length + bytes >= sizeof t->buffer) return;
    memcpy(t->buffer + t->length, piece, bytes + 1);
    t->length += bytes;
}

/* The text up to the device's name is `want`. */
static conform_result expect_text(conform_env *env, dhow_tensor *t, const char *want) {
    text got = {.length = 0};
    char end[128];
    OK(dhow_tensor_print(t, keep, &got));
    (void)snprintf(end, sizeof end, " on %s)\n", dhow_device_name(env->device));
    CHECK(got.length == strlen(want) + strlen(end) &&
              strncmp(got.buffer, want, strlen(want)) == 0 &&
              strcmp(got.buffer + strlen(want), end) == 0,
          "printed\n%s", got.buffer);
    return CONFORM_PASS;
}

static conform_result prints(conform_env *env) {
    static const float values[] = {0.5f, -1.25f, 3, 4}, wide[] = {1e-5f, 1, 1e6f, NAN};
    static const int8_t bytes[] = {1, -128, 7, 0, 5, 6};
    static const uint8_t flags[] = {1, 0};
    dhow_tensor *t, *v;
    OWN(TENSOR, &t, dhow_tensor_from_data(env->device, DHOW_F32, DHOW_SHAPE(2, 2), values, &t));
    TRY(expect_text(env, t, "tensor([[ 0.5000, -1.2500],\n        [ 3.0000,  4.0000]], f32[2, 2]"));
    OWN(TENSOR, &v, dhow_tensor_select(t, 0, 1, &v));
    TRY(expect_text(env, v, "tensor([3., 4.], f32[2]"));
    OWN(TENSOR, &v, dhow_tensor_select(v, 0, 0, &v));
    TRY(expect_text(env, v, "tensor(3., f32[]"));
    OWN(TENSOR, &t, dhow_tensor_from_data(env->device, DHOW_F32, DHOW_SHAPE(4), wide, &t));
    TRY(expect_text(env, t, "tensor([1.0000e-05, 1.0000e+00, 1.0000e+06,        nan], f32[4]"));
    OWN(TENSOR, &t, dhow_tensor_from_data(env->device, DHOW_I8, DHOW_SHAPE(1, 2, 3), bytes, &t));
    TRY(expect_text(env, t,
                    "tensor([[[   1, -128,    7],\n         [   0,    5,    6]]], i8[1, 2, 3]"));
    OWN(TENSOR, &t, dhow_tensor_from_data(env->device, DHOW_BOOL, DHOW_SHAPE(2), flags, &t));
    TRY(expect_text(env, t, "tensor([ true, false], bool[2]"));
    OWN(TENSOR, &t, dhow_tensor_zeros(env->device, DHOW_F32, DHOW_SHAPE(2, 0), &t));
    return expect_text(env, t, "tensor([], f32[2, 0]");
}

static conform_result prints_large(conform_env *env) {
    dhow_tensor *t, *v;
    const dhow_scalar zero = DHOW_SCALAR(0), one = DHOW_SCALAR(1), end = DHOW_SCALAR(10000);
    OWN(TENSOR, &t, dhow_tensor_arange(env->device, DHOW_I32, zero, end, one, &t));
    TRY(expect_text(env, t, "tensor([   0,    1,    2, ..., 9997, 9998, 9999], i32[10000]"));
    OWN(TENSOR, &v, dhow_tensor_reshape(t, DHOW_SHAPE(5000, 2), &v));
    TRY(expect_text(env, v,
                    "tensor([[   0,    1],\n        [   2,    3],\n        [   4,    5],\n"
                    "        ...,\n        [9994, 9995],\n        [9996, 9997],\n"
                    "        [9998, 9999]], i32[5000, 2]"));
    OWN(TENSOR, &v, dhow_tensor_transpose(v, 0, 1, &v));
    TRY(expect_text(env, v,
                    "tensor([[   0,    2,    4, ..., 9994, 9996, 9998],\n"
                    "        [   1,    3,    5, ..., 9995, 9997, 9999]], i32[2, 5000]"));
    OWN(TENSOR, &v, dhow_tensor_narrow(t, 0, 0, 20, &v));
    return expect_text(env, v,
                       "tensor([ 0,  1,  2,  3,  4,  5,  6,  7,  8,  9, 10, 11, 12, 13, 14, 15, "
                       "16, 17,\n        18, 19], i32[20]");
}

const conform_case conform_create_cases[] = {
    CASE("create/filled", filled, "tensor"),
    CASE("create/arange", arange, "tensor"),
    CASE("create/copies", copies, "tensor,copy"),
    CASE("create/views", views, "tensor"),
    CASE("create/stacks", stacks, "tensor,copy"),
    CASE("create/items", items, "tensor"),
    CASE("create/prints", prints, "tensor"),
    CASE("create/prints_large", prints_large, "tensor,copy"),
};
CASES_END(conform_create);
