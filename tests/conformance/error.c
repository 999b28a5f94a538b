/* SPDX-License-Identifier: Apache-2.0
 *
 * Cases of errors, and of a model from its making to its move: what does not fit is refused with
 * words that name it.
 */
#include <unistd.h>

#include "support.h"

static conform_result tensor(conform_env *env, dhow_dtype dtype, int32_t rank, const int64_t *shape,
                             dhow_tensor **out) {
    OWN(TENSOR, out, dhow_tensor_create(env->device, dtype, rank, shape, out));
    return CONFORM_PASS;
}

static conform_result mismatched_devices(conform_env *env) {
    dhow_tensor *here, *there;
    dhow_stream *foreign;
    char text[160];
    TRY(tensor(env, DHOW_F32, DHOW_SHAPE(4), &here));
    for (uint32_t i = 0; i < dhow_device_count(env->context); i++) {
        dhow_device *other;
        OK(dhow_device_at(env->context, i, &other));
        if (other == env->device) continue;
        const char *a = dhow_device_name(env->device), *b = dhow_device_name(other);
        OWN(TENSOR, &there, dhow_tensor_create(other, DHOW_F32, DHOW_SHAPE(4), &there));
        (void)snprintf(text, sizeof text, "add: a is on %s, b on %s; move one with dhow_tensor_to",
                       a, b);
        FAILS(DHOW_INVALID_ARGUMENT, text, dhow_add(NULL, here, there, here));
        (void)snprintf(text, sizeof text, "relu: x is on %s, the output on %s", a, b);
        FAILS(DHOW_INVALID_ARGUMENT, text, dhow_relu(NULL, here, there));
        OWN(STREAM, &foreign, dhow_stream_create(other, &foreign));
        (void)snprintf(text, sizeof text, "relu: the stream is on %s, the tensors are on %s", b, a);
        FAILS(DHOW_INVALID_ARGUMENT, text, dhow_relu(foreign, here, here));
        FAILS(DHOW_INVALID_ARGUMENT, "the stream is on", dhow_copy_async(foreign, here, here, 0));
    }
    return CONFORM_PASS;
}

static conform_result mismatched_dtypes(conform_env *env) {
    dhow_tensor *f, *h, *i;
    TRY(tensor(env, DHOW_F32, DHOW_SHAPE(4), &f));
    TRY(tensor(env, DHOW_F16, DHOW_SHAPE(4), &h));
    TRY(tensor(env, DHOW_I32, DHOW_SHAPE(4), &i));
    FAILS(DHOW_INVALID_ARGUMENT, "add: a is f32[4], b is f16[4]; dhow_cast() one of them",
          dhow_add(NULL, f, h, f));
    FAILS(DHOW_INVALID_ARGUMENT, "relu: x is i32, which it does not take", dhow_relu(NULL, i, i));
    FAILS(DHOW_INVALID_ARGUMENT, "dhow_cast() converts dtypes", dhow_copy(f, h));
    FAILS(DHOW_INVALID_ARGUMENT, "relu: the output is", dhow_relu(NULL, f, h));
    return CONFORM_PASS;
}

static conform_result mismatched_shapes(conform_env *env) {
    dhow_tensor *a, *b, *c, *big;
    TRY(tensor(env, DHOW_F32, DHOW_SHAPE(3, 4), &a));
    TRY(tensor(env, DHOW_F32, DHOW_SHAPE(4, 3), &b));
    TRY(tensor(env, DHOW_F32, DHOW_SHAPE(3, 3), &c));
    FAILS(DHOW_INVALID_ARGUMENT,
          "add: a is f32[3, 4], b is f32[4, 3]; these shapes do not broadcast",
          dhow_add(NULL, a, b, a));
    FAILS(DHOW_INVALID_ARGUMENT, "add: the output is f32[3, 3] on", dhow_add(NULL, a, a, c));
    FAILS(DHOW_INVALID_ARGUMENT, "shapes must be equal", dhow_copy(a, b));
    OK(dhow_fill(NULL, a, 1));
    OK(dhow_fill(NULL, b, 1));
    OK(dhow_matmul(NULL, a, b, c));
    FAILS(DHOW_INVALID_ARGUMENT, "matmul: a is f32[3, 4], b is f32[3, 4]; a[..., m, k]",
          dhow_matmul(NULL, a, a, c));
    FAILS(DHOW_INVALID_ARGUMENT, "linear: x is f32[3, 4], weight is f32[4, 3]",
          dhow_linear(NULL, a, b, NULL, c));
    FAILS(DHOW_OUT_OF_RANGE, "dimension 2 of a tensor of rank 2; -2 to 1 are allowed",
          dhow_softmax(NULL, a, 2, a));
    FAILS(DHOW_OUT_OF_RANGE, "more bytes than an address holds",
          dhow_tensor_create(env->device, DHOW_F32, DHOW_SHAPE(INT64_C(1) << 40, 1 << 30), &big));
    FAILS(DHOW_INVALID_ARGUMENT, "-3",
          dhow_tensor_create(env->device, DHOW_F32, DHOW_SHAPE(2, -3), &big));
    FAILS(DHOW_INVALID_ARGUMENT, "rank",
          dhow_tensor_create(env->device, DHOW_F32, 9, (int64_t[9]){1}, &big));
    FAILS(DHOW_INVALID_ARGUMENT, "has 48 bytes, given 12", dhow_tensor_read(a, (float[3]){0}, 12));
    return CONFORM_PASS;
}

static conform_result overlap(conform_env *env) {
    dhow_tensor *t, *low, *high, *square, *turned;
    TRY(tensor(env, DHOW_F32, DHOW_SHAPE(100), &t));
    OK(dhow_fill(NULL, t, 1));
    OWN(TENSOR, &low, dhow_tensor_slice(t, 0, 0, 60, 1, &low));
    OWN(TENSOR, &high, dhow_tensor_slice(t, 0, 40, 100, 1, &high));
    FAILS(DHOW_INVALID_ARGUMENT,
          "relu: the output overlaps x; exactly the same tensor would be allowed",
          dhow_relu(NULL, low, high));
    OWN(TENSOR, &square, dhow_tensor_reshape(t, DHOW_SHAPE(10, 10), &square));
    OWN(TENSOR, &turned, dhow_tensor_transpose(square, 0, 1, &turned));
    FAILS(DHOW_INVALID_ARGUMENT, "add: the output overlaps a",
          dhow_add(NULL, turned, square, square));
    FAILS(DHOW_INVALID_ARGUMENT, "softmax: the output overlaps x",
          dhow_softmax(NULL, square, 1, square));
    return CONFORM_PASS;
}

static conform_result dead_handles(conform_env *env) {
    dhow_tensor *t, *u;
    dhow_stream *s;
    OK(dhow_tensor_create(env->device, DHOW_F32, DHOW_SHAPE(2), &t));
    dhow_tensor_release(t);
    FAILS(DHOW_INVALID_ARGUMENT, "no live tensor", dhow_fill(NULL, t, 1));
    FAILS(DHOW_INVALID_ARGUMENT, "is NULL", dhow_relu(NULL, NULL, NULL));
    TRY(tensor(env, DHOW_F32, DHOW_SHAPE(2), &u));
    OK(dhow_stream_create(env->device, &s));
    dhow_stream_release(s);
    FAILS(DHOW_INVALID_ARGUMENT, "no live stream", dhow_fill(s, u, 1));
    FAILS(DHOW_INVALID_ARGUMENT, "no live stream", dhow_stream_sync(s));
    FAILS(DHOW_INVALID_ARGUMENT, "no live stream", dhow_fill((dhow_stream *)(void *)u, u, 1));
    dhow_tensor_release(NULL);
    dhow_stream_release(NULL);
    dhow_event_release(NULL);
    return CONFORM_PASS;
}

/* ---- a model ---- */

typedef struct mlp {
    conform_array w1, b1, w2, b2, x, y;
} mlp;

static conform_result make_model(conform_env *env, dhow_model **out) {
    dhow_model_value x, h, y;
    OWN(MODEL, out, dhow_model_create(env->context, out));
    OK(dhow_model_input(*out, "x", DHOW_F32, DHOW_SHAPE(-1, 7), &x));
    OK(dhow_model_linear(*out, "fc1", x, 7, 12, 1, &h));
    OK(dhow_model_relu(*out, h, &h));
    OK(dhow_model_linear(*out, "fc2", h, 12, 5, 1, &y));
    OK(dhow_model_softmax(*out, y, -1, &y));
    OK(dhow_model_output(*out, "y", y));
    return CONFORM_PASS;
}

static void dense(const conform_array *x, const conform_array *w, const conform_array *b,
                  conform_array *y) {
    int64_t in = w->shape[1], out = w->shape[0];
    for (int64_t i = 0; i < y->count; i++) {
        y->value[i] = b->value[i % out];
        for (int64_t p = 0; p < in; p++)
            y->value[i] += x->value[i / out * in + p] * w->value[i % out * in + p];
    }
}

static void make_reference(conform_env *env, mlp *m) {
    const int64_t w1[] = {12, 7}, w2[] = {5, 12}, x[] = {9, 7}, h[] = {9, 12}, y[] = {9, 5};
    m->w1 = conform_array_random(env, DHOW_F32, 2, w1, -1, 1, 1);
    m->b1 = conform_array_random(env, DHOW_F32, 1, w1, -1, 1, 2);
    m->w2 = conform_array_random(env, DHOW_F32, 2, w2, -1, 1, 3);
    m->b2 = conform_array_random(env, DHOW_F32, 1, w2, -1, 1, 4);
    m->x = conform_array_random(env, DHOW_F32, 2, x, -1, 1, 5);
    m->y = conform_array_new(env, DHOW_F32, 2, y);
    conform_array hidden = conform_array_new(env, DHOW_F32, 2, h);
    dense(&m->x, &m->w1, &m->b1, &hidden);
    for (int64_t i = 0; i < hidden.count; i++) hidden.value[i] = fmax(hidden.value[i], 0);
    dense(&hidden, &m->w2, &m->b2, &m->y);
    for (int64_t r = 0; r < 9; r++) {
        double sum = 0;
        for (int c = 0; c < 5; c++) sum += m->y.value[r * 5 + c] = exp(m->y.value[r * 5 + c]);
        for (int c = 0; c < 5; c++) m->y.value[r * 5 + c] /= sum;
    }
}

static conform_result run_model(conform_env *env, dhow_model *m, const mlp *ref, const char *what) {
    dhow_tensor *x, *y;
    TRY(conform_upload(env, &ref->x, LAYOUT_TRANSPOSED, &x));
    OWN(TENSOR, &y, dhow_model_run(m, NULL, &x, 1, &y, 1));
    TRY(conform_expect(env, y, &ref->y, (conform_tolerance){1e-6, 1e-5}, what));
    OK(dhow_fill(NULL, y, -1));
    OK(dhow_model_run_into(m, NULL, &x, 1, &y, 1));
    TRY(conform_expect(env, y, &ref->y, (conform_tolerance){1e-6, 1e-5}, what));
    return CONFORM_PASS;
}

static conform_result set_parameters(conform_env *env, dhow_model *m, const mlp *ref) {
    const struct {
        const char *name;
        const conform_array *value;
    } all[] = {{"fc1.weight", &ref->w1},
               {"fc1.bias", &ref->b1},
               {"fc2.weight", &ref->w2},
               {"fc2.bias", &ref->b2}};
    for (size_t i = 0; i < 4; i++) {
        dhow_tensor *t;
        TRY(conform_upload(env, all[i].value, LAYOUT_STEPPED, &t));
        OK(dhow_model_set_parameter(m, all[i].name, t));
    }
    return CONFORM_PASS;
}

static conform_result model_lives(conform_env *env) {
    char path[512];
    dhow_model *m, *loaded;
    dhow_device *cpu;
    dhow_tensor *x;
    mlp ref;
    make_reference(env, &ref);
    OK(dhow_device_get(env->context, "cpu", &cpu));
    TRY(make_model(env, &m));
    CHECK(dhow_model_parameter_count(m) == 4, "%u parameters", dhow_model_parameter_count(m));
    TRY(set_parameters(env, m, &ref));
    dhow_status moved = dhow_model_to(m, env->device);
    if (moved == DHOW_UNSUPPORTED) return conform_unsupported(env, "%s", dhow_last_error());
    OK(moved);
    CHECK(dhow_model_device(m) == env->device, "it is elsewhere");
    TRY(run_model(env, m, &ref, "built"));
    (void)snprintf(path, sizeof path, "%s/conform-%d.safetensors", env->folder, (int)getpid());
    OK(dhow_model_save_state(m, path));
    TRY(make_model(env, &loaded));
    dhow_status status = dhow_model_load_state(loaded, path);
    (void)unlink(path);
    OK(status);
    OK(dhow_model_to(loaded, env->device));
    TRY(run_model(env, loaded, &ref, "loaded"));
    OK(dhow_model_to(loaded, cpu));
    OK(dhow_model_to(loaded, env->device));
    TRY(run_model(env, loaded, &ref, "moved away and back"));
    OWN(TENSOR, &x, dhow_tensor_create(env->device, DHOW_F32, DHOW_SHAPE(3, 8), &x));
    dhow_tensor *y = NULL;
    FAILS(DHOW_INVALID_ARGUMENT, "input 'x' is f32[3, 8]",
          dhow_model_run(loaded, NULL, &x, 1, &y, 1));
    return CONFORM_PASS;
}

const conform_case conform_error_cases[] = {
    CASE("error/devices", mismatched_devices, "error,devices"),
    CASE("error/dtypes", mismatched_dtypes, "error"),
    CASE("error/shapes", mismatched_shapes, "error"),
    CASE("error/overlap", overlap, "error"),
    CASE("error/handles", dead_handles, "error"),
    CASE("model/mlp", model_lives, "model,file"),
};
CASES_END(conform_error);
