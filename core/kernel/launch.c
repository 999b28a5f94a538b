/* SPDX-License-Identifier: Apache-2.0
 *
 * Launches: users' arguments are checked against the kernel's signature here; operations come in
 * below the checks.
 */
#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#include "base/memory/size.h"
#include "kernel/guard.h"
#include "kernel/kernel.h"
#include "stream/submit.h"

dhow_status dhowi_launch(dhow_stream *stream, dhow_kernel *kernel, int64_t work, int64_t span,
                         const dhow_arg *args, uint32_t arg_count, const dhowi_use *uses,
                         uint32_t use_count) {
    void *native;
    DHOWI_TRY(dhowi_kernel_native(kernel, dhowi_index_width(kernel->device, span), &native));
    dhow_geometry geometry = {.work = (uint64_t)DHOWI_MAX(work, 1)};
    return dhowi_submit_launch(stream, kernel->name, native, &geometry, args, arg_count, uses,
                               use_count);
}

/* ---- checking users' arguments ---- */

typedef struct checked {
    dhow_kernel *kernel;
    dhow_arg args[DHOW_MAX_KERNEL_ARGS];
    dhow_tensor *tensors[DHOW_MAX_KERNEL_ARGS]; /* NULL for values */
    dhowi_use uses[DHOW_MAX_KERNEL_ARGS];
    uint32_t use_count;
    int64_t elements; /* of the largest tensor */
} checked;

static const char *const k_value_names[] = {
    "a tensor", "a const tensor", "i32", "u32", "i64", "u64", "f32", "f64", "dims"};

static dhow_status wrong_type(const checked *c, uint32_t i, const char *given) {
    const dhowi_param *p = &c->kernel->signature.params[i];
    return dhowi_fail(DHOW_INVALID_ARGUMENT, "%s: argument %u '%s' is %s%s, given %s",
                      c->kernel->name, i + 1, p->name,
                      p->kind == DHOW_PARAM_VALUE ? "" : "a tensor of ", dhowi_type_name(p->type),
                      given);
}

/* Integers fit wider parameters, and narrower ones when the value does; double fits f32. */
static dhow_status take_value(checked *c, uint32_t i, const dhow_value *v) {
    int32_t type = c->kernel->signature.params[i].type;
    bool is_signed = v->kind == DHOW_VALUE_I32 || v->kind == DHOW_VALUE_I64;
    bool is_integer = is_signed || v->kind == DHOW_VALUE_U32 || v->kind == DHOW_VALUE_U64;
    bool is_float = v->kind == DHOW_VALUE_F32 || v->kind == DHOW_VALUE_F64;
    bool negative = is_signed && v->u.i < 0;
    bool fits = false;
    if (v->kind > DHOW_VALUE_DIMS) return wrong_type(c, i, "something unknown");
    const char *given = k_value_names[v->kind];
    switch (type) {
        case DHOW_I32:
            fits = is_signed ? v->u.i >= INT32_MIN && v->u.i <= INT32_MAX : v->u.u <= INT32_MAX;
            break;
        case DHOW_U32:
            fits = !negative && v->u.u <= UINT32_MAX;
            break;
        case DHOW_I64:
            fits = is_signed || v->u.u <= INT64_MAX;
            break;
        case DHOW_U64:
            fits = !negative;
            break;
        default:
            break;
    }
    bool wants_integer =
        type == DHOW_I32 || type == DHOW_U32 || type == DHOW_I64 || type == DHOW_U64;
    if (wants_integer && is_integer) {
        if (!fits) {
            return dhowi_fail(
                DHOW_OUT_OF_RANGE, "%s: argument %u '%s' is %s, %s%" PRIu64 " does not fit",
                c->kernel->name, i + 1, c->kernel->signature.params[i].name, dhowi_type_name(type),
                negative ? "-" : "", negative ? 0 - v->u.u : v->u.u);
        }
        c->args[i] = type == DHOW_I32 || type == DHOW_U32 ? dhowi_arg_i32((int32_t)v->u.u)
                                                          : dhowi_arg_i64(v->u.i);
    } else if (type == DHOW_F32 && is_float) {
        c->args[i] = dhowi_arg_f32(v->kind == DHOW_VALUE_F32 ? v->u.f32 : (float)v->u.f64);
    } else if (type == DHOW_F64 && is_float) {
        double d = v->kind == DHOW_VALUE_F32 ? (double)v->u.f32 : v->u.f64;
        c->args[i] = dhowi_arg_i64((int64_t)dhowi_dtype_encode(DHOW_F64, d));
    } else if (type == DHOW_PARAM_DIMS && v->kind == DHOW_VALUE_DIMS && v->u.dims != NULL) {
        c->args[i] = dhowi_arg_dims(v->u.dims);
    } else {
        return wrong_type(c, i, given);
    }
    return DHOW_OK;
}

/* Says what is wrong with a tensor; apart, since making words takes longer than a launch. */
static dhow_status refuse_tensor(const checked *c, uint32_t i, const dhow_value *v,
                                 uint32_t access) {
    const dhowi_param *p = c->kernel->checked ? &c->kernel->signature.params[i] : NULL;
    const char *kernel = c->kernel->name;
    dhow_tensor *t = v->u.tensor;
    char what[96], text[192];
    (void)snprintf(what, sizeof what, "argument %u%s%s%s", i + 1, p != NULL ? " '" : "",
                   p != NULL ? p->name : "", p != NULL ? "'" : "");
    bool writes = (access & DHOW_ACCESS_WRITE) != 0;
    DHOWI_TRY(writes ? dhowi_tensor_check_write(t, kernel, what)
                     : dhowi_tensor_check_read(t, kernel, what));
    (void)dhowi_tensor_text(t, text, sizeof text);
    if (writes && v->kind == DHOW_VALUE_CONST_TENSOR) {
        return dhowi_fail(DHOW_INVALID_ARGUMENT, "%s: %s is written, given a const tensor", kernel,
                          what);
    }
    if (dhowi_tensor_device(t) != c->kernel->device) {
        return dhowi_fail(DHOW_INVALID_ARGUMENT,
                          "%s: %s is %s, the kernel is on %s; move it with dhow_tensor_to", kernel,
                          what, text, c->kernel->device->name);
    }
    if (!t->contiguous) {
        return dhowi_fail(DHOW_INVALID_ARGUMENT,
                          "%s: %s is a strided view; pass dhow_tensor_contiguous() of it", kernel,
                          what);
    }
    return dhowi_fail(DHOW_INVALID_ARGUMENT, "%s: %s holds %s, given %s", kernel, what,
                      p != NULL ? dhowi_type_name(p->type) : "?", text);
}

static bool accepts(const checked *c, uint32_t i, const dhow_value *v, uint32_t access) {
    const dhow_tensor *t = v->u.tensor;
    if (!dhowi_handle_is(t, DHOWI_TENSOR)) return false;
    bool writes = (access & DHOW_ACCESS_WRITE) != 0;
    bool writable = !t->overlapping && v->kind == DHOW_VALUE_TENSOR &&
                    !atomic_load_explicit(&t->storage->frozen, memory_order_relaxed);
    if ((writes && !writable) || !t->contiguous || dhowi_tensor_device(t) != c->kernel->device ||
        atomic_load_explicit(&t->storage->exported, memory_order_relaxed)) {
        return false;
    }
    if (!c->kernel->checked) return true;
    int32_t wanted = c->kernel->signature.params[i].type;
    return (int32_t)t->dtype == wanted || (t->dtype == DHOW_BOOL && wanted == DHOW_U8);
}

static dhow_status take_tensor(checked *c, uint32_t i, const dhow_value *v, uint32_t access) {
    dhow_tensor *t = v->u.tensor;
    if (!accepts(c, i, v, access)) return refuse_tensor(c, i, v, access);
    c->tensors[i] = t;
    c->args[i] = dhowi_arg_buffer(t, access);
    c->uses[c->use_count++] = dhowi_use_of(t, access);
    c->elements = DHOWI_MAX(c->elements, t->count);
    return DHOW_OK;
}

/* Of tensors without gaps that overlap: their storages are the same, or show the same host memory.
 */
static bool is_same_memory(const dhow_tensor *a, const dhow_tensor *b) {
    uint64_t from_a, to_a, from_b, to_b;
    dhowi_tensor_extent_bytes(a, &from_a, &to_a);
    dhowi_tensor_extent_bytes(b, &from_b, &to_b);
    return a->storage->native + from_a == b->storage->native + from_b &&
           a->storage->native + to_a == b->storage->native + to_b;
}

static dhow_status check_overlap(const checked *c, uint32_t count) {
    for (uint32_t i = 0; i < count; i++) {
        if (c->tensors[i] == NULL || (c->args[i].bytes & DHOW_ACCESS_WRITE) == 0) continue;
        for (uint32_t k = 0; k < count; k++) {
            if (k == i || c->tensors[k] == NULL ||
                !dhowi_tensor_overlap(c->tensors[i], c->tensors[k]))
                continue;
            const dhowi_param *out = &c->kernel->signature.params[i],
                              *in = &c->kernel->signature.params[k];
            bool alias = out->kind == DHOW_PARAM_ALIAS_OUT && in->kind == DHOW_PARAM_ALIAS;
            if (alias && is_same_memory(c->tensors[i], c->tensors[k])) continue;
            return dhowi_fail(DHOW_INVALID_ARGUMENT,
                              "%s: argument %u '%s' is written and overlaps argument %u '%s'%s",
                              c->kernel->name, i + 1, out->name, k + 1, in->name,
                              alias ? "; exactly the same tensor would be allowed" : "");
        }
    }
    return DHOW_OK;
}

static dhow_status check_values(checked *c, uint32_t count, const dhow_value *values) {
    const dhowi_signature *s = &c->kernel->signature;
    if (count != s->count) {
        return dhowi_fail(DHOW_INVALID_ARGUMENT, "%s: %u arguments given, %u expected: %s",
                          c->kernel->name, count, s->count, c->kernel->signature_text);
    }
    for (uint32_t i = 0; i < count; i++) {
        if (s->params[i].kind == DHOW_PARAM_VALUE) {
            DHOWI_TRY(take_value(c, i, &values[i]));
        } else if (values[i].kind != DHOW_VALUE_TENSOR &&
                   values[i].kind != DHOW_VALUE_CONST_TENSOR) {
            return wrong_type(
                c, i, values[i].kind <= DHOW_VALUE_DIMS ? k_value_names[values[i].kind] : "?");
        } else {
            DHOWI_TRY(take_tensor(c, i, &values[i], dhowi_param_access(s->params[i].kind)));
        }
    }
    return check_overlap(c, count);
}

/* A native kernel without a signature: values go as they are, tensors count as read and written. */
static dhow_status take_unchecked(checked *c, uint32_t count, const dhow_value *values) {
    for (uint32_t i = 0; i < count; i++) {
        const dhow_value *v = &values[i];
        switch (v->kind) {
            case DHOW_VALUE_TENSOR:
                DHOWI_TRY(take_tensor(c, i, v, DHOW_ACCESS_READ | DHOW_ACCESS_WRITE));
                break;
            case DHOW_VALUE_CONST_TENSOR:
                DHOWI_TRY(take_tensor(c, i, v, DHOW_ACCESS_READ));
                break;
            case DHOW_VALUE_I32:
            case DHOW_VALUE_U32:
                c->args[i] = dhowi_arg_i32((int32_t)v->u.u);
                break;
            case DHOW_VALUE_F32:
                c->args[i] = dhowi_arg_f32(v->u.f32);
                break;
            case DHOW_VALUE_F64:
                c->args[i] = dhowi_arg_i64((int64_t)dhowi_dtype_encode(DHOW_F64, v->u.f64));
                break;
            case DHOW_VALUE_I64:
            case DHOW_VALUE_U64:
                c->args[i] = dhowi_arg_i64(v->u.i);
                break;
            default:
                return dhowi_fail(DHOW_INVALID_ARGUMENT,
                                  "%s: argument %u is no tensor and no number", c->kernel->name,
                                  i + 1);
        }
    }
    return DHOW_OK;
}

static dhow_status begin_check(checked *c, const char *function, dhow_stream **stream,
                               dhow_kernel *kernel, uint32_t count, const dhow_value *values) {
    c->use_count = 0;
    c->elements = 0;
    c->kernel = kernel;
    memset(c->tensors, 0, DHOWI_MIN(count, DHOW_MAX_KERNEL_ARGS) * sizeof c->tensors[0]);
    DHOWI_TRY(dhowi_handle_check(kernel, DHOWI_KERNEL, function, "kernel"));
    if (count > DHOW_MAX_KERNEL_ARGS || (count > 0 && values == NULL)) {
        return dhowi_fail(DHOW_INVALID_ARGUMENT, "%s: %u arguments, at most %d are allowed",
                          kernel->name, count, DHOW_MAX_KERNEL_ARGS);
    }
    DHOWI_TRY(dhowi_stream_resolve(*stream, kernel->device, kernel->name, stream));
    return kernel->checked ? check_values(c, count, values) : take_unchecked(c, count, values);
}

static bool is_portable(const dhow_kernel *kernel) {
    return kernel->builtin || kernel->module->format == DHOW_MODULE_PORTABLE;
}

/* In the checking mode the launch is waited for, and what it may write is looked at. */
static dhow_status launch(dhow_stream *stream, const checked *c, void *native,
                          const dhow_geometry *geometry, uint32_t count) {
    const char *name = c->kernel->name;
    if (!stream->device->context->validate || stream->recording != NULL)
        return dhowi_submit_launch(stream, name, native, geometry, c->args, count, c->uses,
                                   c->use_count);
    dhowi_guarded g = {stream, name, c->tensors, c->args, count, {{0}}, {{0}}, 0};
    DHOWI_TRY(dhowi_guards_set(&g));
    return dhowi_guards_check(&g, dhowi_submit_launch(stream, name, native, geometry, g.args, count,
                                                      c->uses, c->use_count));
}

dhow_status dhow_launch_values(dhow_stream *stream, dhow_kernel *kernel, int64_t work,
                               uint32_t count, const dhow_value *values) {
    checked c;
    void *native;
    DHOWI_TRY(begin_check(&c, "dhow_launch", &stream, kernel, count, values));
    if (!is_portable(kernel)) {
        return dhowi_fail(DHOW_INVALID_ARGUMENT,
                          "%s: a native kernel needs its grid; use dhow_launch_grid()",
                          kernel->name);
    }
    if (work < 0) {
        return dhowi_fail(DHOW_INVALID_ARGUMENT, "%s: work is %" PRId64 "; 0 or more is allowed",
                          kernel->name, work);
    }
    int width = dhowi_index_width(kernel->device, DHOWI_MAX(work, c.elements));
    DHOWI_TRY(dhowi_kernel_native(kernel, width, &native));
    dhow_geometry geometry = {.work = (uint64_t)DHOWI_MAX(work, 1)};
    return launch(stream, &c, native, &geometry, count);
}

dhow_status dhow_launch_grid_values(dhow_stream *stream, dhow_kernel *kernel,
                                    const uint32_t grid[3], const uint32_t block[3],
                                    uint32_t shared_bytes, uint32_t count,
                                    const dhow_value *values) {
    checked c;
    void *native;
    DHOWI_TRY(begin_check(&c, "dhow_launch_grid", &stream, kernel, count, values));
    if (is_portable(kernel)) {
        return dhowi_fail(DHOW_INVALID_ARGUMENT,
                          "%s: a portable kernel takes its work; use dhow_launch()", kernel->name);
    }
    if (grid == NULL || block == NULL) {
        return dhowi_fail(DHOW_INVALID_ARGUMENT, "%s: grid or block is NULL", kernel->name);
    }
    dhow_geometry geometry = {.native = 1, .shared_bytes = shared_bytes};
    for (int i = 0; i < 3; i++) {
        if (grid[i] == 0 || block[i] == 0) {
            return dhowi_fail(DHOW_INVALID_ARGUMENT, "%s: dimension %d of grid or block is 0",
                              kernel->name, i);
        }
        geometry.grid[i] = grid[i];
        geometry.block[i] = block[i];
    }
    DHOWI_TRY(dhowi_kernel_native(kernel, dhowi_index_width(kernel->device, 0), &native));
    return launch(stream, &c, native, &geometry, count);
}
