/* SPDX-License-Identifier: Apache-2.0
 *
 * Cases of kernels as slots: finding and building them, and what a launch may rely on.
 */
#include "slots.h"

/* y = a + b over n floats; three blocks with a guard behind. */
typedef struct sum {
    void *stream, *kernel;
    uint64_t a, b, y;
    float *host_a, *host_b, *host_y;
    int64_t n;
} sum;

enum { MOST = 70000, GUARD_FLOATS = 16 };

static conform_result make_sum(conform_env *env, sum *s, int64_t n) {
    const uint64_t bytes = (uint64_t)(n + GUARD_FLOATS) * 4;
    s->n = n;
    TRY(slot_stream(env, &s->stream));
    TRY(slot_kernel(env, "add_f32", &s->kernel));
    TRY(slot_memory(env, bytes, &s->a));
    TRY(slot_memory(env, bytes, &s->b));
    TRY(slot_memory(env, bytes, &s->y));
    s->host_a = conform_memory(env, bytes);
    s->host_b = conform_memory(env, bytes);
    s->host_y = conform_memory(env, bytes);
    for (int64_t i = 0; i < n + GUARD_FLOATS; i++) {
        s->host_a[i] = (float)(i % 1000);
        s->host_b[i] = (float)(3 * (i % 777));
        s->host_y[i] = -1;
    }
    TRY(slot_write(env, s->stream, s->a, 0, s->host_a, bytes));
    TRY(slot_write(env, s->stream, s->b, 0, s->host_b, bytes));
    return slot_write(env, s->stream, s->y, 0, s->host_y, bytes);
}

/* Overwrites what a call was given, which it needs no more. The memory is the case's and lives on,
 * so that the compiler cannot leave the writing out. */
static void spoil(void *memory, size_t bytes) { memset(memory, 0xff, bytes); }

static conform_result launch_sum(conform_env *env, const sum *s, uint64_t work) {
    const dhow_geometry geometry = {.work = work};
    dhow_arg *args = conform_memory(env, 4 * sizeof *args);
    args[0] = slot_buffer(s->a, 0, DHOW_ACCESS_READ);
    args[1] = slot_buffer(s->b, 0, DHOW_ACCESS_READ);
    args[2] = slot_buffer(s->y, 0, DHOW_ACCESS_WRITE);
    args[3] = slot_i64(s->n);
    SLOT(API->launch(s->stream, s->kernel, &geometry, args, 4, ERR));
    spoil(args, 4 * sizeof *args);
    return CONFORM_PASS;
}

static conform_result expect_sum(conform_env *env, sum *s, const char *what) {
    TRY(slot_read(env, s->stream, s->y, 0, s->host_y, (uint64_t)(s->n + GUARD_FLOATS) * 4));
    for (int64_t i = 0; i < s->n + GUARD_FLOATS; i++) {
        const float want = i < s->n ? s->host_a[i] + s->host_b[i] : -1;
        CHECK(s->host_y[i] == want, "%s: element %" PRId64 " of %" PRId64 " is %g, not %g", what, i,
              s->n, (double)s->host_y[i], (double)want);
    }
    return CONFORM_PASS;
}

static conform_result adds_any_size(conform_env *env) {
    static const int64_t sizes[] = {1, 2, 3, 5, 7, 31, 63, 64, 65, 127, 255, 257, 1001, 65537};
    for (size_t i = 0; i < sizeof sizes / sizeof sizes[0]; i++) {
        sum s;
        TRY(make_sum(env, &s, sizes[i]));
        TRY(launch_sum(env, &s, (uint64_t)sizes[i]));
        TRY(expect_sum(env, &s, "add_f32"));
        conform_slots_release(env->slots);
        conform_release_all(env);
    }
    return CONFORM_PASS;
}

/* The size of a launch is advice. */
static conform_result takes_any_work(conform_env *env) {
    static const uint64_t works[] = {1, 2, 999, 1000, 1001, 1 << 20};
    for (size_t i = 0; i < sizeof works / sizeof works[0]; i++) {
        sum s;
        char what[64];
        TRY(make_sum(env, &s, 1000));
        TRY(launch_sum(env, &s, works[i]));
        (void)snprintf(what, sizeof what, "launched for %" PRIu64 " elements", works[i]);
        TRY(expect_sum(env, &s, what));
        conform_slots_release(env->slots);
        conform_release_all(env);
    }
    return CONFORM_PASS;
}

static conform_result launch_view(conform_env *env, void *stream, void *kernel, uint64_t x,
                                  uint64_t y) {
    const dhow_geometry geometry = {.work = 35};
    dhow_dims *dims = conform_memory(env, sizeof *dims);
    *dims = (dhow_dims){.rank = 2, /* a transposed corner of 8 columns */
                        .shape = {5, 7},
                        .stride = {{1, 8}, {7, 1}, {2576980378, 613566757}}, /* OVER() of k.h */
                        .offset = {2, 0}};
    const dhow_arg args[] = {
        slot_buffer(x, 0, DHOW_ACCESS_READ),
        slot_buffer(y, 0, DHOW_ACCESS_WRITE),
        {.kind = DHOW_ARG_DIMS, .bytes = (uint32_t)sizeof *dims, .u.dims = dims}};
    SLOT(API->launch(stream, kernel, &geometry, args, 3, ERR));
    dims->shape[0] = 1; /* fewer, so that a kernel that looks stays inside */
    dims->shape[1] = 1;
    return CONFORM_PASS;
}

/* dims are passed by value: what they point to may be gone before the kernel runs. */
static conform_result copies_its_arguments(conform_env *env) {
    void *stream, *kernel, *gate;
    uint64_t x, y;
    uint32_t in[64], out[35];
    TRY(slot_stream(env, &stream));
    TRY(slot_kernel(env, "copy_dims_u32", &kernel));
    TRY(slot_memory(env, sizeof in, &x));
    TRY(slot_memory(env, sizeof out, &y));
    for (uint32_t i = 0; i < 64; i++) in[i] = i * 11;
    memset(out, 0xEE, sizeof out);
    TRY(slot_write(env, stream, x, 0, in, sizeof in));
    TRY(slot_write(env, stream, y, 0, out, sizeof out));
    conform_result gated = slot_gate(env, &gate);
    if (gated == CONFORM_FAIL) return gated;
    env->message[0] = '\0';
    if (gated == CONFORM_PASS) SLOT(API->stream_wait(stream, gate, ERR));
    TRY(launch_view(env, stream, kernel, x, y));
    if (gated == CONFORM_PASS) TRY(slot_gate_open(env, gate));
    TRY(slot_read(env, stream, y, 0, out, sizeof out));
    for (uint32_t r = 0; r < 5; r++) {
        for (uint32_t c = 0; c < 7; c++)
            CHECK(out[r * 7 + c] == in[2 + r + c * 8],
                  "[%u][%u] is %u, not %u: the dims were read after launch had returned", r, c,
                  out[r * 7 + c], in[2 + r + c * 8]);
    }
    return CONFORM_PASS;
}

/* Every kernel takes offsets that are multiples of offset_align. */
static conform_result takes_offsets(conform_env *env) {
    enum { ROWS = 3, COLS = 5 };
    const uint64_t align = env->slots->desc.offset_align;
    void *stream, *kernel;
    uint64_t x, y;
    float in[ROWS * COLS], out[ROWS * COLS];
    TRY(slot_stream(env, &stream));
    TRY(slot_kernel(env, "softmax_f32", &kernel));
    for (uint64_t step = 1; step <= 3; step++) {
        const uint64_t from = (step * align + 3) / 4 * 4, to = 2 * from; /* floats have 4 bytes */
        TRY(slot_memory(env, from + sizeof in, &x));
        TRY(slot_memory(env, to + sizeof out, &y));
        for (int i = 0; i < ROWS * COLS; i++) in[i] = (float)(i * 7 % 5);
        TRY(slot_write(env, stream, x, from, in, sizeof in));
        const dhow_geometry geometry = {.work = ROWS * COLS};
        const dhow_arg args[] = {slot_buffer(x, from, DHOW_ACCESS_READ),
                                 slot_buffer(y, to, DHOW_ACCESS_WRITE), slot_i64(ROWS),
                                 slot_i64(COLS), slot_i32(0)};
        int32_t code = API->launch(stream, kernel, &geometry, args, 5, ERR);
        CHECK(code == DHOW_OK,
              "softmax_f32 at offset %" PRIu64 ", offset_align is %" PRIu64 ": %s: %.300s", from,
              align, slot_status(code), env->slots->err.message);
        TRY(slot_read(env, stream, y, to, out, sizeof out));
        for (int r = 0; r < ROWS; r++) {
            double total = 0;
            for (int c = 0; c < COLS; c++) total += exp((double)in[r * COLS + c]);
            for (int c = 0; c < COLS; c++) {
                const double want = exp((double)in[r * COLS + c]) / total;
                CHECK(fabs((double)out[r * COLS + c] - want) < 1e-5,
                      "softmax_f32 at offset %" PRIu64 ": %g instead of %g", from,
                      (double)out[r * COLS + c], want);
            }
        }
    }
    return CONFORM_PASS;
}

enum { M = 3, N = 5, K = 4 };

/* c = a b, without a bias: a[M][k] and b[k][N] begin at byte `at` of their memory. */
static conform_result launch_product(conform_env *env, void *stream, uint64_t a, uint64_t b,
                                     uint64_t at, uint64_t c, int64_t k) {
    void *kernel;
    TRY(slot_kernel(env, "matmul_f32", &kernel));
    const dhow_geometry geometry = {.work = M * N * K};
    const dhow_arg args[] = {slot_buffer(a, at, DHOW_ACCESS_READ),
                             slot_buffer(b, at, DHOW_ACCESS_READ),
                             slot_buffer(0, 0, DHOW_ACCESS_READ),
                             slot_buffer(c, 0, DHOW_ACCESS_WRITE),
                             slot_i64(M),
                             slot_i64(N),
                             slot_i64(k),
                             slot_i64(1),
                             slot_i64(k),
                             slot_i64(1),
                             slot_i64(N),
                             slot_i64(1),
                             slot_i64(0),
                             slot_i64(0),
                             slot_i32(0),
                             slot_i32(DHOW_ACTIVATION_NONE)};
    SLOT(API->launch(stream, kernel, &geometry, args, 16, ERR));
    return CONFORM_PASS;
}

/* A buffer with handle 0 is one that the kernel does not look at. */
static conform_result takes_no_buffer(conform_env *env) {
    void *stream;
    uint64_t a, b, c;
    float in_a[M * K], in_b[K * N], out[M * N];
    TRY(slot_stream(env, &stream));
    TRY(slot_memory(env, sizeof in_a, &a));
    TRY(slot_memory(env, sizeof in_b, &b));
    TRY(slot_memory(env, sizeof out, &c));
    for (int i = 0; i < M * K; i++) in_a[i] = (float)(i - 5);
    for (int i = 0; i < K * N; i++) in_b[i] = (float)(i % 7);
    TRY(slot_write(env, stream, a, 0, in_a, sizeof in_a));
    TRY(slot_write(env, stream, b, 0, in_b, sizeof in_b));
    TRY(launch_product(env, stream, a, b, 0, c, K));
    TRY(slot_read(env, stream, c, 0, out, sizeof out));
    for (int i = 0; i < M * N; i++) {
        float want = 0;
        for (int k = 0; k < K; k++) want += in_a[i / N * K + k] * in_b[k * N + i % N];
        CHECK(out[i] == want, "element %d is %g, not %g", i, (double)out[i], (double)want);
    }
    return CONFORM_PASS;
}

/* A buffer of no bytes has a handle all the same, and may begin where its memory ends. */
static conform_result takes_empty_buffers(conform_env *env) {
    void *stream;
    uint64_t a, b, c;
    float out[M * N];
    const uint64_t bytes = 4096; /* no more is allowed for offset_align */
    TRY(slot_stream(env, &stream));
    TRY(slot_memory(env, bytes, &a));
    TRY(slot_memory(env, bytes, &b));
    TRY(slot_memory(env, sizeof out, &c));
    for (uint64_t at = 0; at <= bytes; at += bytes) {
        memset(out, 0xEE, sizeof out);
        TRY(slot_write(env, stream, c, 0, out, sizeof out));
        TRY(launch_product(env, stream, a, b, at, c, 0));
        TRY(slot_read(env, stream, c, 0, out, sizeof out));
        for (int i = 0; i < M * N; i++)
            CHECK(out[i] == 0, "element %d of a sum of nothing is %g", i, (double)out[i]);
    }
    return CONFORM_PASS;
}

/* A value of 8 bytes arrives whole: x + 2^40 + 3 and x * -(2^33 + 1) in i64. */
static conform_result passes_whole_values(conform_env *env) {
    enum { COUNT = 5, ADD = 1, MULTIPLY = 3 };
    static const struct {
        int32_t form;
        int64_t number;
    } tries[] = {{ADD, (INT64_C(1) << 40) + 3}, {MULTIPLY, -((INT64_C(1) << 33) + 1)}};
    void *stream, *kernel;
    uint64_t x, y;
    int64_t in[COUNT] = {0, 1, -1, 12345, -7}, out[COUNT];
    TRY(slot_stream(env, &stream));
    TRY(slot_kernel(env, "scalar_i64", &kernel));
    TRY(slot_memory(env, sizeof in, &x));
    TRY(slot_memory(env, sizeof out, &y));
    TRY(slot_write(env, stream, x, 0, in, sizeof in));
    for (int t = 0; t < 2; t++) {
        const dhow_geometry geometry = {.work = COUNT};
        const dhow_arg args[] = {slot_buffer(x, 0, DHOW_ACCESS_READ),
                                 slot_buffer(y, 0, DHOW_ACCESS_WRITE),
                                 slot_i64(COUNT),
                                 slot_i32(tries[t].form),
                                 slot_i64(tries[t].number),
                                 slot_i64(0)};
        SLOT(API->launch(stream, kernel, &geometry, args, 6, ERR));
        TRY(slot_read(env, stream, y, 0, out, sizeof out));
        for (int i = 0; i < COUNT; i++) {
            const int64_t want =
                tries[t].form == ADD ? in[i] + tries[t].number : in[i] * tries[t].number;
            CHECK(out[i] == want,
                  "%" PRId64 " %c %" PRId64 " is %" PRId64 ", not %" PRId64
                  ": is a value of 64 bits cut?",
                  in[i], tries[t].form == ADD ? '+' : '*', tries[t].number, out[i], want);
        }
    }
    return CONFORM_PASS;
}

/* ---- what is refused ---- */

static conform_result knows_no_such_kernel(conform_env *env) {
    void *kernel = &kernel;
    NEEDS_SLOT(builtin_kernel);
    SLOT_IS(DHOW_NOT_FOUND, API->builtin_kernel(DEVICE, "no_such_kernel_f32", 64, &kernel, ERR),
            "a kernel that nobody has");
    CHECK(kernel == NULL, "a kernel came out of a failure");
    return CONFORM_PASS;
}

/* A grid is for native kernels: a portable one would take it for advice, or for nothing. */
static conform_result refuses_a_grid(conform_env *env) {
    const dhow_geometry geometry = {.grid = {1, 1, 1}, .block = {32, 1, 1}, .native = 1};
    sum s;
    TRY(make_sum(env, &s, 1000));
    const dhow_arg args[] = {slot_buffer(s.a, 0, DHOW_ACCESS_READ),
                             slot_buffer(s.b, 0, DHOW_ACCESS_READ),
                             slot_buffer(s.y, 0, DHOW_ACCESS_WRITE), slot_i64(s.n)};
    int32_t code = API->launch(s.stream, s.kernel, &geometry, args, 4, ERR);
    CHECK(code == DHOW_UNSUPPORTED || code == DHOW_INVALID_ARGUMENT,
          "a portable kernel launched with a grid: %s", slot_status(code));
    return slot_refusal(env, "launch", code);
}

/* The host divides larger work, or refuses it, by what index_bits says. */
static conform_result tells_its_widths(conform_env *env) {
    void *kernel = NULL;
    NEEDS_SLOT(builtin_kernel);
    if ((env->slots->desc.index_bits & 64u) != 0) return CONFORM_PASS;
    SLOT_IS(DHOW_NOT_FOUND, API->builtin_kernel(DEVICE, "add_f32", 64, &kernel, ERR),
            "a kernel with indices of 64 bits, of which index_bits says nothing");
    return CONFORM_PASS;
}

static conform_result refuses_text(conform_env *env, uint32_t format, const char *text,
                                   bool compiles) {
    char log[2000];
    static const dhow_kernel_param params[] = {{DHOW_PARAM_OUT, DHOW_F32, "y"},
                                               {DHOW_PARAM_VALUE, DHOW_I64, "n"}};
    static const dhow_kernel_decl decl = {"f", "(OUT(f32,y), VAL(i64,n))", params, 2, 0};
    const dhow_module_desc desc = {.struct_size = (uint32_t)sizeof desc,
                                   .format = format,
                                   .name = "broken.k",
                                   .text = text,
                                   .text_bytes = strlen(text),
                                   .header = "",
                                   .options = "",
                                   .kernels = &decl,
                                   .kernel_count = 1,
                                   .index_bits = (env->slots->desc.index_bits & 64u) ? 64 : 32,
                                   .log = log,
                                   .log_bytes = sizeof log};
    void *module = &module;
    memset(log, 'x', sizeof log);
    log[0] = '\0';
    int32_t code = API->module_build(DEVICE, &desc, &module, ERR);
    if (code == DHOW_OK) API->module_free(module);
    CHECK(code == DHOW_UNSUPPORTED || (compiles && code == DHOW_COMPILE_ERROR),
          "module_build of format %u: %s: %.300s", format, slot_status(code),
          env->slots->err.message);
    CHECK(module == NULL, "a module came out of a failure");
    CHECK(memchr(log, '\0', sizeof log) != NULL, "the log is not terminated");
    return slot_refusal(env, "module_build", code);
}

static conform_result refuses_wrong_text(conform_env *env) {
    TRY(refuses_text(env, DHOW_MODULE_PORTABLE, "KERNEL(f, (OUT(f32,y), VAL(i64,n)))\n{ oops; }\n",
                     true));
    return refuses_text(env, 99, "of a format that does not exist", false);
}

/* A module that was compiled has the kernels of its text and no others. */
static conform_result knows_no_kernel_of_another_text(conform_env *env) {
    void *module, *kernel = &kernel;
    TRY(slot_module(env, "add_f32", &module));
    SLOT_IS(DHOW_NOT_FOUND, API->module_kernel(module, "softmax_f32", &kernel, ERR),
            "a kernel that the module's text has not");
    CHECK(kernel == NULL, "a kernel came out of a failure");
    return CONFORM_PASS;
}

const conform_case conform_launch_cases[] = {
    CASE("launch/sizes", adds_any_size, "kernel"),
    CASE("launch/work", takes_any_work, "kernel"),
    CASE("launch/arguments", copies_its_arguments, "kernel"),
    CASE("launch/offsets", takes_offsets, "kernel"),
    CASE("launch/no_buffer", takes_no_buffer, "kernel"),
    CASE("launch/empty_buffer", takes_empty_buffers, "kernel"),
    CASE("launch/values", passes_whole_values, "kernel"),
    CASE("launch/unknown_in_module", knows_no_kernel_of_another_text, "kernel,compiler,error"),
    CASE("launch/unknown", knows_no_such_kernel, "kernel,error"),
    CASE("launch/index_bits", tells_its_widths, "kernel"),
    CASE("launch/grid", refuses_a_grid, "kernel,error"),
    CASE("launch/wrong_text", refuses_wrong_text, "kernel,compiler,error"),
};
CASES_END(conform_launch);
