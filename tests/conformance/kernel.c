/* SPDX-License-Identifier: Apache-2.0
 *
 * Cases of kernels: built-in ones by name, a user's own text, and what a launch refuses.
 */
#include "support.h"

static const char k_text[] =
    "KERNEL(axpy, (IN(f32,x), INOUT(f32,y), VAL(f32,a), VAL(i64,n)))\n"
    "{ GRID_FOR(i, n) y[i] += a * x[i]; }\n"
    "KERNEL(twice, (ALIAS(i32,x), ALIAS_OUT(i32,y), VAL(i64,n)))\n"
    "{ GRID_FOR(i, n) y[i] = 2 * x[i]; }\n"
    "KERNEL(pick, (IN(f32,x), OUT(f32,y), VAL(dims,d), VAL(i64,n)))\n"
    "{ GRID_FOR(i, n) { idx r = i / (idx)d.shape[1], c = i - r * (idx)d.shape[1];\n"
    "    y[i] = x[(idx)d.offset[0] + r * (idx)d.stride[0][0] + c * (idx)d.stride[0][1]]; } }\n"
    "KERNEL(rowsum, (IN(f32,x), OUT(f32,y), VAL(i64,rows), VAL(i64,cols)))\n"
    "{\n"
    "    REDUCE_SPACE(f32);\n"
    "    GROUP_FOR(r, rows) {\n"
    "        GLOBAL const f32 *row = x + r * cols;\n"
    "        REDUCE(SUM, f32, s, j, cols, row[j]);\n"
    "        ITEM_FOR(j, 1) y[r] = s;\n"
    "    }\n"
    "}\n";

static conform_result build(conform_env *env, const char *text, dhow_module **out) {
    dhow_status status = dhow_module_build(
        env->device, &DHOW_INIT(dhow_module_source, .text = text, .name = "own.k"), out);
    if (status == DHOW_UNSUPPORTED) return conform_unsupported(env, "%s", dhow_last_error());
    OWN(MODULE, out, status);
    return CONFORM_PASS;
}

static conform_result own_kernel(conform_env *env, const char *name, dhow_kernel **out) {
    dhow_module *m;
    TRY(build(env, k_text, &m));
    OWN(KERNEL, out, dhow_module_kernel(m, name, out));
    return CONFORM_PASS;
}

static conform_result numbers(conform_env *env, int64_t n, dhow_tensor **out) {
    float *data = conform_memory(env, (size_t)n * sizeof *data);
    for (int64_t i = 0; i < n; i++) data[i] = (float)i;
    OWN(TENSOR, out, dhow_tensor_from_data(env->device, DHOW_F32, 1, &n, data, out));
    return CONFORM_PASS;
}

static conform_result own_text(conform_env *env) {
    dhow_kernel *k;
    dhow_tensor *x, *y;
    static const int64_t sizes[] = {1, 2, 63, 64, 65, 1000, 100003};
    TRY(own_kernel(env, "axpy", &k));
    CHECK(
        strcmp(dhow_kernel_signature(k), "(IN(f32,x), INOUT(f32,y), VAL(f32,a), VAL(i64,n))") == 0,
        "signature %s", dhow_kernel_signature(k));
    for (size_t s = 0; s < sizeof sizes / sizeof sizes[0]; s++) {
        int64_t n = sizes[s];
        float *got = conform_memory(env, (size_t)n * sizeof *got);
        TRY(numbers(env, n, &x));
        OWN(TENSOR, &y, dhow_tensor_full(env->device, DHOW_F32, 1, &n, 1, &y));
        OK(dhow_launch(NULL, k, n, x, y, 2.0f, n));
        OK(dhow_launch(NULL, k, 1, x, y, 1.0, n)); /* the size of a launch changes no result */
        OK(dhow_tensor_read(y, got, (uint64_t)n * sizeof *got));
        for (int64_t i = 0; i < n; i++) {
            CHECK(got[i] == 3 * (float)i + 1, "%" PRId64 ": element %" PRId64 " is %g", n, i,
                  (double)got[i]);
        }
    }
    return CONFORM_PASS;
}

static conform_result own_text_in_place(conform_env *env) {
    dhow_kernel *k;
    dhow_tensor *t;
    int32_t got[300];
    TRY(own_kernel(env, "twice", &k));
    OWN(TENSOR, &t, dhow_tensor_full(env->device, DHOW_I32, DHOW_SHAPE(300), 21, &t));
    OK(dhow_launch(NULL, k, 300, t, t, 300));
    OK(dhow_tensor_read(t, got, sizeof got));
    for (int i = 0; i < 300; i++) CHECK(got[i] == 42, "element %d is %d", i, got[i]);
    return CONFORM_PASS;
}

static conform_result own_text_with_dims(conform_env *env) {
    dhow_kernel *k;
    dhow_tensor *x, *y;
    float got[6];
    const dhow_dims dims = {
        .rank = 2, .shape = {3, 2}, .stride = {{1, 10}}, .offset = {4}}; /* a transposed corner */
    TRY(own_kernel(env, "pick", &k));
    TRY(numbers(env, 40, &x));
    OWN(TENSOR, &y, dhow_tensor_create(env->device, DHOW_F32, DHOW_SHAPE(6), &y));
    OK(dhow_launch(NULL, k, 6, x, y, &dims, 6));
    OK(dhow_tensor_read(y, got, sizeof got));
    for (int i = 0; i < 6; i++) {
        CHECK(got[i] == (float)(4 + i / 2 + i % 2 * 10), "element %d is %g", i, (double)got[i]);
    }
    return CONFORM_PASS;
}

static conform_result own_text_on_offset_views(conform_env *env) {
    dhow_kernel *k;
    dhow_tensor *x, *y, *from, *to;
    float got[50], want[50];
    TRY(own_kernel(env, "axpy", &k));
    TRY(numbers(env, 50, &x));
    TRY(numbers(env, 50, &y));
    OWN(TENSOR, &from, dhow_tensor_slice(x, 0, 3, 20, 1, &from));
    OWN(TENSOR, &to, dhow_tensor_slice(y, 0, 31, 48, 1, &to));
    FAILS(DHOW_INVALID_ARGUMENT, "axpy: argument 3 'a' is f32, given i32",
          dhow_launch(NULL, k, 17, from, to, 10, 17));
    OK(dhow_launch(NULL, k, 17, from, to, 10.0f, 17));
    OK(dhow_tensor_read(y, got, sizeof got));
    for (int i = 0; i < 50; i++) {
        want[i] = (float)i + (i >= 31 && i < 48 ? 10 * (float)(i - 28) : 0);
        CHECK(got[i] == want[i], "element %d is %g, not %g", i, (double)got[i], (double)want[i]);
    }
    return CONFORM_PASS;
}

static conform_result own_text_with_phases(conform_env *env) {
    dhow_kernel *k;
    dhow_tensor *x, *y;
    float got[7];
    TRY(own_kernel(env, "rowsum", &k));
    TRY(numbers(env, 7 * 333, &x));
    OWN(TENSOR, &y, dhow_tensor_create(env->device, DHOW_F32, DHOW_SHAPE(7), &y));
    OK(dhow_launch(NULL, k, 7 * 333, x, y, 7, 333));
    OK(dhow_tensor_read(y, got, sizeof got));
    for (int r = 0; r < 7; r++) {
        float want = 333.0f * (333.0f * (float)r) + 333.0f * 332.0f / 2;
        CHECK(got[r] == want, "row %d is %g, not %g", r, (double)got[r], (double)want);
    }
    return CONFORM_PASS;
}

/* As kernels/matmul.k does: one body for processors, one for GPUs. */
static conform_result own_text_in_two_forms(conform_env *env) {
    static const char text[] =
        "#ifdef K_LOOPS\n"
        "KERNEL(two, (OUT(i32,y), VAL(i64,n)))\n{ GRID_FOR(i, n) y[i] = (i32)i + 1; }\n"
        "#else\n"
        "KERNEL(two, (OUT(i32,y), VAL(i64,n)))\n{ GRID_FOR(i, n) y[i] = 1 + (i32)i; }\n"
        "#endif\n";
    dhow_module *m, *bad;
    dhow_kernel *k;
    dhow_tensor *y;
    int32_t got[70];
    TRY(build(env, text, &m));
    OWN(KERNEL, &k, dhow_module_kernel(m, "two", &k));
    OWN(TENSOR, &y, dhow_tensor_create(env->device, DHOW_I32, DHOW_SHAPE(70), &y));
    OK(dhow_launch(NULL, k, 70, y, 70));
    OK(dhow_tensor_read(y, got, sizeof got));
    CHECK(got[0] == 1 && got[69] == 70, "%d and %d", got[0], got[69]);
    FAILS(DHOW_INVALID_ARGUMENT, "kernel f has two argument lists",
          dhow_module_build(env->device,
                            &DHOW_INIT(dhow_module_source, .text = "KERNEL(f, (OUT(i32,y)))\n{}\n"
                                                                   "KERNEL(f, (OUT(f32,y)))\n{}\n"),
                            &bad));
    return CONFORM_PASS;
}

static conform_result own_text_with_bool(conform_env *env) {
    static const char text[] =
        "KERNEL(odd, (IN(u8,x), OUT(u8,y), VAL(i64,n)))\n{\n"
        "    GRID_FOR(i, n) {\n"
        "        const bool odd = (i & 1) != 0, given = x[i];\n"
        "        y[i] = odd == true && given != false;\n"
        "    }\n}\n";
    const uint8_t x[] = {1, 1, 0, 0, 1, 1}, want[] = {0, 1, 0, 0, 0, 1};
    dhow_module *m;
    dhow_kernel *k;
    dhow_tensor *tx, *ty;
    TRY(build(env, text, &m));
    OWN(KERNEL, &k, dhow_module_kernel(m, "odd", &k));
    OWN(TENSOR, &tx, dhow_tensor_from_data(env->device, DHOW_BOOL, DHOW_SHAPE(6), x, &tx));
    OWN(TENSOR, &ty, dhow_tensor_create(env->device, DHOW_BOOL, DHOW_SHAPE(6), &ty));
    OK(dhow_launch(NULL, k, 6, tx, ty, 6));
    return conform_expect_bytes(env, ty, want, sizeof want, "a kernel with bool");
}

/* x MATH(name) and the C library's; the second argument is 2 - x, the third 0.5. */
#define FUNCTIONS(X1, X2, X3)                                                                   \
    X1(exp)                                                                                     \
    X1(exp2)                                                                                    \
    X1(expm1)                                                                                   \
    X1(log) X1(log2) X1(log10) X1(log1p) X1(sqrt) X1(cbrt) X1(sin) X1(cos) X1(tan) X1(asin)     \
        X1(acos) X1(atan) X1(sinh) X1(cosh) X1(tanh) X1(asinh) X1(atanh) X1(erf) X1(erfc)       \
            X1(floor) X1(ceil) X1(round) X1(trunc) X1(rint) X1(fabs) X2(pow) X2(atan2) X2(fmod) \
                X2(fmin) X2(fmax) X2(hypot) X2(copysign) X3(fma)

static conform_result functions(conform_env *env) {
#define TEXT1(f) "y[k++ * n + i] = MATH(f32, " #f ")(v);\n"
#define TEXT2(f) "y[k++ * n + i] = MATH(f32, " #f ")(v, 2 - v);\n"
#define TEXT3(f) "y[k++ * n + i] = MATH(f32, " #f ")(v, 2 - v, 0.5f);\n"
    static const char text[] =
        "KERNEL(every, (IN(f32,x), OUT(f32,y), VAL(i64,n)))\n"
        "{ GRID_FOR(i, n) { const f32 v = x[i]; idx k = 0;\n" FUNCTIONS(TEXT1, TEXT2,
                                                                        TEXT3) "} }\n";
#define NAME(f) #f,
    static const char *const names[] = {FUNCTIONS(NAME, NAME, NAME)};
    enum { N = 5, COUNT = sizeof names / sizeof names[0] };
    static const float in[N] = {0.03f, 0.25f, 0.5f, 0.77f, 0.98f};
    double want[COUNT * N];
    float got[COUNT * N];
    for (int i = 0; i < N; i++) {
        const double v = (double)in[i];
        int k = 0;
#define WANT1(f) want[k++ * N + i] = f(v);
#define WANT2(f) want[k++ * N + i] = f(v, 2 - v);
#define WANT3(f) want[k++ * N + i] = f(v, 2 - v, 0.5);
        FUNCTIONS(WANT1, WANT2, WANT3)
    }
    dhow_module *m;
    dhow_kernel *kernel;
    dhow_tensor *x, *y;
    TRY(build(env, text, &m));
    OWN(KERNEL, &kernel, dhow_module_kernel(m, "every", &kernel));
    OWN(TENSOR, &x, dhow_tensor_from_data(env->device, DHOW_F32, DHOW_SHAPE(N), in, &x));
    OWN(TENSOR, &y, dhow_tensor_create(env->device, DHOW_F32, DHOW_SHAPE(COUNT * N), &y));
    OK(dhow_launch(NULL, kernel, N, x, y, N));
    OK(dhow_tensor_read(y, got, sizeof got));
    for (int i = 0; i < COUNT * N; i++)
        CHECK(fabs((double)got[i] - want[i]) <= 1e-5 * (1 + fabs(want[i])), "%s(%g) is %g, not %g",
              names[i / N], (double)in[i % N], (double)got[i], want[i]);
    return CONFORM_PASS;
}

static conform_result module_errors(conform_env *env) {
    dhow_module *m, *bad;
    dhow_kernel *k;
    TRY(build(env, k_text, &m));
    FAILS(DHOW_NOT_FOUND, "own.k has no kernel 'nothing'; it has axpy, twice, pick, rowsum",
          dhow_module_kernel(m, "nothing", &k));
    FAILS(
        DHOW_INVALID_ARGUMENT, "own.k",
        dhow_module_build(env->device,
                          &DHOW_INIT(dhow_module_source, .text = "int x;", .name = "own.k"), &bad));
    FAILS(DHOW_COMPILE_ERROR, "broken.k",
          dhow_module_build(env->device,
                            &DHOW_INIT(dhow_module_source,
                                       .text = "KERNEL(f, (OUT(f32,y), VAL(i64,n)))\n"
                                               "{ GRID_FOR(i, n) y[i] = undeclared_word; }\n",
                                       .name = "broken.k"),
                            &bad));
    CHECK(strstr(dhow_module_log(), "undeclared_word") != NULL, "the log says '%s'",
          dhow_module_log());
    FAILS(DHOW_INVALID_ARGUMENT, "either source->text or source->image",
          dhow_module_build(env->device, &DHOW_INIT(dhow_module_source, .name = "none"), &bad));
    return CONFORM_PASS;
}

static conform_result kernels_keep_their_module(conform_env *env) {
    dhow_module *m;
    dhow_kernel *k;
    dhow_tensor *t;
    TRY(build(env, k_text, &m));
    OK(dhow_module_kernel(m, "twice", &k));
    conform_disown(env, m);
    dhow_module_release(m);
    OWN(TENSOR, &t, dhow_tensor_full(env->device, DHOW_I32, DHOW_SHAPE(3000), 1, &t));
    for (int i = 0; i < 10; i++) OK(dhow_launch(NULL, k, 3000, t, t, 3000));
    dhow_kernel_release(k); /* while it runs */
    int32_t got[3000];
    OK(dhow_tensor_read(t, got, sizeof got));
    CHECK(got[0] == 1024 && got[2999] == 1024, "%d and %d", got[0], got[2999]);
    return CONFORM_PASS;
}

/* ---- built-in ones ---- */

static conform_result builtin(conform_env *env, const char *name, dhow_kernel **out) {
    dhow_status status = dhow_kernel_get(env->device, name, out);
    if (status == DHOW_UNSUPPORTED) return conform_unsupported(env, "%s", dhow_last_error());
    OWN(KERNEL, out, status);
    return CONFORM_PASS;
}

static conform_result builtin_by_name(conform_env *env) {
    dhow_kernel *k;
    dhow_tensor *a, *y;
    float got[100];
    TRY(builtin(env, "add_f32", &k));
    CHECK(strcmp(dhow_kernel_signature(k),
                 "(ALIAS(f32,a), ALIAS(f32,b), ALIAS_OUT(f32,y), VAL(i64,n))") == 0,
          "signature %s", dhow_kernel_signature(k));
    TRY(numbers(env, 100, &a));
    OWN(TENSOR, &y, dhow_tensor_create(env->device, DHOW_F32, DHOW_SHAPE(100), &y));
    OK(dhow_launch(NULL, k, 100, (const dhow_tensor *)a, a, y, 100u));
    OK(dhow_launch(NULL, k, 0, y, a, y, INT64_C(100)));
    OK(dhow_tensor_read(y, got, sizeof got));
    for (int i = 0; i < 100; i++) CHECK(got[i] == 3 * (float)i, "%d: %g", i, (double)got[i]);
    FAILS(DHOW_NOT_FOUND, "there is no built-in kernel 'frobnicate_f32'",
          dhow_kernel_get(env->device, "frobnicate_f32", &k));
    return CONFORM_PASS;
}

static conform_result refuses_wrong_arguments(conform_env *env) {
    dhow_kernel *k, *rows;
    dhow_tensor *x, *y, *half, *view, *low, *high;
    char name[160];
    TRY(builtin(env, "relu_f32", &k));
    TRY(builtin(env, "softmax_f32", &rows));
    TRY(numbers(env, 64, &x));
    TRY(numbers(env, 64, &y));
    OWN(TENSOR, &half, dhow_tensor_create(env->device, DHOW_F16, DHOW_SHAPE(64), &half));
    OWN(TENSOR, &view, dhow_tensor_slice(x, 0, 0, 64, 2, &view));
    FAILS(DHOW_INVALID_ARGUMENT,
          "relu_f32: 2 arguments given, 3 expected: (ALIAS(f32,x), ALIAS_OUT(f32,y), VAL(i64,n))",
          dhow_launch(NULL, k, 64, x, y));
    FAILS(DHOW_INVALID_ARGUMENT, "relu_f32: argument 3 'n' is i64, given f32",
          dhow_launch(NULL, k, 64, x, y, 64.0f));
    FAILS(DHOW_INVALID_ARGUMENT, "relu_f32: argument 3 'n' is i64, given a tensor",
          dhow_launch(NULL, k, 64, x, y, x));
    FAILS(DHOW_INVALID_ARGUMENT, "relu_f32: argument 1 'x' is a tensor of f32, given i32",
          dhow_launch(NULL, k, 64, 64, y, 64));
    (void)snprintf(name, sizeof name, "relu_f32: argument 2 'y' holds f32, given f16[64] on %s",
                   dhow_device_name(env->device));
    FAILS(DHOW_INVALID_ARGUMENT, name, dhow_launch(NULL, k, 64, x, half, 64));
    FAILS(DHOW_INVALID_ARGUMENT,
          "relu_f32: argument 1 'x' is a strided view; pass dhow_tensor_contiguous() of it",
          dhow_launch(NULL, k, 32, view, y, 32));
    FAILS(DHOW_INVALID_ARGUMENT, "relu_f32: argument 2 'y' is written, given a const tensor",
          dhow_launch(NULL, k, 64, x, (const dhow_tensor *)y, 64));
    FAILS(DHOW_INVALID_ARGUMENT, "relu_f32: work is -1; 0 or more is allowed",
          dhow_launch(NULL, k, -1, x, y, 64));
    FAILS(DHOW_INVALID_ARGUMENT, "relu_f32: argument 1 'x' is NULL, a tensor is needed",
          dhow_launch(NULL, k, 64, (dhow_tensor *)NULL, y, 64));
    FAILS(DHOW_OUT_OF_RANGE, "relu_f32: argument 3 'n' is i64",
          dhow_launch(NULL, k, 64, x, y, UINT64_MAX));
    OWN(TENSOR, &low, dhow_tensor_slice(x, 0, 0, 40, 1, &low));
    OWN(TENSOR, &high, dhow_tensor_slice(x, 0, 10, 50, 1, &high));
    FAILS(DHOW_INVALID_ARGUMENT,
          "relu_f32: argument 2 'y' is written and overlaps argument 1 'x'; exactly the same "
          "tensor would be allowed",
          dhow_launch(NULL, k, 40, low, high, 40));
    FAILS(DHOW_INVALID_ARGUMENT,
          "softmax_f32: argument 2 'y' is written and overlaps argument 1 'x'",
          dhow_launch(NULL, rows, 64, x, x, 1, 64, 0));
    const uint32_t one[3] = {1, 1, 1};
    FAILS(DHOW_INVALID_ARGUMENT, "relu_f32: a portable kernel takes its work; use dhow_launch()",
          dhow_launch_grid(NULL, k, one, one, 0, x, y, 64));
    return CONFORM_PASS;
}

static conform_result refuses_frozen_and_foreign_tensors(conform_env *env) {
    dhow_kernel *k;
    dhow_tensor *x, *y;
    uint64_t handle, offset;
    TRY(builtin(env, "relu_f32", &k));
    TRY(numbers(env, 64, &x));
    TRY(numbers(env, 64, &y));
    OK(dhow_tensor_freeze(y));
    FAILS(DHOW_INVALID_ARGUMENT, "relu_f32: argument 2 'y' is frozen, its values must not change",
          dhow_launch(NULL, k, 64, x, y, 64));
    FAILS(DHOW_INVALID_ARGUMENT, "y is frozen", dhow_fill(NULL, y, 1));
    FAILS(DHOW_INVALID_ARGUMENT, "the output is frozen", dhow_relu(NULL, x, y));
    FAILS(DHOW_INVALID_ARGUMENT, "dst is frozen", dhow_copy(x, y));
    FAILS(DHOW_INVALID_ARGUMENT, "dhow_model_set_parameter()", dhow_copy(x, y));
    OK(dhow_launch(NULL, k, 64, y, x, 64)); /* reading is allowed */
    OK(dhow_tensor_native(x, &handle, &offset));
    CHECK(handle != 0 && offset == 0, "offset %" PRIu64, offset);
    FAILS(DHOW_INVALID_ARGUMENT, "is exported by dhow_tensor_native()",
          dhow_launch(NULL, k, 64, x, x, 64));
    OK(dhow_tensor_native_done(x, NULL));
    OK(dhow_launch(NULL, k, 64, x, x, 64));
    OK(dhow_tensor_native(x, &handle, &offset));
    dhow_stream *s;
    OK(dhow_stream_default(env->device, &s));
    OK(dhow_tensor_native_done(x, s));
    OK(dhow_fill(NULL, x, 1));
    return CONFORM_PASS;
}

const conform_case conform_kernel_cases[] = {
    CASE("kernel/text", own_text, "kernel,compiler"),
    CASE("kernel/text_inplace", own_text_in_place, "kernel,compiler"),
    CASE("kernel/text_dims", own_text_with_dims, "kernel,compiler"),
    CASE("kernel/text_offset", own_text_on_offset_views, "kernel,compiler"),
    CASE("kernel/text_phases", own_text_with_phases, "kernel,compiler"),
    CASE("kernel/text_forms", own_text_in_two_forms, "kernel,compiler"),
    CASE("kernel/text_bool", own_text_with_bool, "kernel,compiler"),
    CASE("kernel/text_functions", functions, "kernel,compiler"),
    CASE("kernel/text_errors", module_errors, "kernel,compiler,error"),
    CASE("kernel/lifetime", kernels_keep_their_module, "kernel,compiler"),
    CASE("kernel/builtin", builtin_by_name, "kernel"),
    CASE("kernel/arguments", refuses_wrong_arguments, "kernel,error"),
    CASE("kernel/frozen", refuses_frozen_and_foreign_tensors, "kernel,error"),
};
CASES_END(conform_kernel);
