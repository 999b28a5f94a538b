/* SPDX-License-Identifier: Apache-2.0
 *
 * Tensors as text, and single values, see dhow/print.h. The form of numbers follows PyTorch's
 * torch/_tensor_str.py.
 */
#include "dhow/print.h"

#include <inttypes.h>
#include <math.h>
#include <stdio.h>
#include <string.h>

#include "base/memory/alloc.h"
#include "base/memory/size.h"
#include "copy/engine.h"

enum { ALL_UP_TO = 1000, EDGE = 3, LINE = 80, NUMBER = 48, INDENT = 7 /* "tensor(" */ };

typedef struct printer {
    const dhow_tensor *tensor;
    dhow_text_writer write;
    void *user;
    bool shortened;
    int32_t rank;
    int64_t shape[DHOW_MAX_RANK]; /* of what is shown */
    int64_t count;
    char *values;
    bool whole, scientific; /* the form of floats */
    int width;
} printer;

/* ---- the values that are shown ---- */

static bool is_cut(const printer *p, int32_t dim) {
    return p->shortened && p->tensor->shape[dim] > 2 * EDGE;
}

static void choose_shape(printer *p) {
    p->rank = p->tensor->rank;
    p->shortened = p->tensor->count > ALL_UP_TO;
    p->count = 1;
    for (int32_t i = 0; i < p->rank; i++) {
        p->shape[i] = is_cut(p, i) ? 2 * EDGE : p->tensor->shape[i];
        p->count *= p->shape[i];
    }
}

/* Bit i of `ends` says whether dimension i of the corner is the last indices. */
static dhow_status copy_corner(const printer *p, dhow_tensor *from, dhow_tensor *to,
                               uint32_t ends) {
    dhow_status status = dhow_tensor_retain(from);
    if (status == DHOW_OK) status = dhow_tensor_retain(to);
    for (int32_t i = 0; i < p->rank && status == DHOW_OK; i++) {
        const bool last = (ends >> i & 1) != 0;
        dhow_tensor *part = NULL, *place = NULL;
        if (!is_cut(p, i)) continue;
        status = dhow_tensor_narrow(from, i, last ? p->tensor->shape[i] - EDGE : 0, EDGE, &part);
        if (status == DHOW_OK) status = dhow_tensor_narrow(to, i, last ? EDGE : 0, EDGE, &place);
        dhow_tensor_release(from);
        dhow_tensor_release(to);
        from = part;
        to = place;
    }
    if (status == DHOW_OK) status = dhow_copy(from, to);
    dhow_tensor_release(from);
    dhow_tensor_release(to);
    return status;
}

static dhow_status copy_corners(const printer *p, dhow_tensor *from, dhow_tensor *to) {
    uint32_t cut = 0;
    for (int32_t i = 0; i < p->rank; i++) cut |= (uint32_t)is_cut(p, i) << i;
    for (uint32_t ends = 0; ends <= cut; ends++) {
        if ((ends & ~cut) == 0) DHOWI_TRY(copy_corner(p, from, to, ends));
    }
    return DHOW_OK;
}

static dhow_status read_values(printer *p, dhow_tensor *tensor) {
    dhow_tensor *shown;
    const uint64_t bytes = (uint64_t)p->count * dhow_dtype_bytes(tensor->dtype);
    p->values = dhowi_alloc(bytes > 0 ? bytes : 1);
    if (p->values == NULL) return dhowi_fail_memory("dhow_tensor_print");
    if (p->count == 0) return DHOW_OK;
    if (!p->shortened) return dhow_tensor_read(tensor, p->values, bytes);
    DHOWI_TRY(dhowi_tensor_new(dhowi_tensor_device(tensor)->context->cpu, tensor->dtype, p->rank,
                               p->shape, &shown));
    dhow_status status = copy_corners(p, tensor, shown);
    if (status == DHOW_OK) status = dhow_tensor_read(shown, p->values, bytes);
    dhow_tensor_release(shown);
    return status;
}

/* ---- the form of numbers ---- */

static dhow_scalar value_at(const printer *p, int64_t i) {
    const uint32_t bytes = dhow_dtype_bytes(p->tensor->dtype);
    return dhowi_scalar_of(p->tensor->dtype, p->values + (size_t)i * bytes);
}

static int number_text(const printer *p, int64_t i, char text[NUMBER]) {
    const dhow_scalar s = value_at(p, i);
    if (p->tensor->dtype == DHOW_BOOL)
        return snprintf(text, NUMBER, "%s", s.value.i64 != 0 ? "true" : "false");
    if (s.kind == DHOW_I64) return snprintf(text, NUMBER, "%" PRId64, s.value.i64);
    if (s.kind == DHOW_U64) return snprintf(text, NUMBER, "%" PRIu64, s.value.u64);
    if (!isfinite(s.value.f64)) return snprintf(text, NUMBER, "%g", s.value.f64);
    if (p->scientific) return snprintf(text, NUMBER, "%.4e", s.value.f64);
    return p->whole ? snprintf(text, NUMBER, "%.0f.", s.value.f64)
                    : snprintf(text, NUMBER, "%.4f", s.value.f64);
}

/* Whole numbers, four places, or powers of ten where one of the former would not do. */
static void choose_form(printer *p) {
    double least = (double)INFINITY, most = 0;
    char text[NUMBER];
    p->whole = true;
    for (int64_t i = 0; i < p->count; i++) {
        const dhow_scalar s = value_at(p, i);
        const double size = s.kind == DHOW_F64 ? fabs(s.value.f64) : 0;
        if (!isfinite(size) || size == 0) continue;
        least = fmin(least, size);
        most = fmax(most, size);
        p->whole = p->whole && trunc(size) == size;
    }
    p->scientific = most > 0 && (most > 1e8 || most / least > 1000 || (!p->whole && least < 1e-4));
    for (int64_t i = 0; i < p->count; i++) p->width = DHOWI_MAX(p->width, number_text(p, i, text));
}

/* ---- writing ---- */

static void put(const printer *p, const char *text) {
    if (p->write == NULL) {
        (void)fputs(text, stdout);
    } else {
        p->write(p->user, text, strlen(text));
    }
}

static void new_line(const printer *p, int32_t depth) {
    char spaces[64];
    (void)snprintf(spaces, sizeof spaces, "%*s", (int)INDENT + depth, "");
    put(p, "\n");
    put(p, spaces);
}

static void put_number(const printer *p, int64_t i) {
    char text[NUMBER], aligned[2 * NUMBER];
    (void)number_text(p, i, text);
    (void)snprintf(aligned, sizeof aligned, "%*s", p->width, text);
    put(p, aligned);
}

/* The innermost dimension: numbers, as many as a line has room for. */
static void put_row(const printer *p, int64_t first) {
    const int32_t depth = p->rank, last = p->rank - 1;
    const int64_t room = (LINE - INDENT - depth) / (p->width + 2), most = DHOWI_MAX(room, 1);
    int64_t column = 0;
    put(p, "[");
    for (int64_t i = 0; i < p->shape[last]; i++) {
        if (i > 0) put(p, ",");
        if (i > 0 && column == most) {
            new_line(p, depth);
            column = 0;
        } else if (i > 0) {
            put(p, " ");
        }
        if (i == EDGE && is_cut(p, last)) put(p, "..., "), column++;
        put_number(p, first + i);
        column++;
    }
    put(p, "]");
}

static void put_dim(const printer *p, int32_t dim, int64_t first) {
    int64_t inner = 1;
    if (dim == p->rank) {
        put_number(p, first);
        return;
    }
    if (dim == p->rank - 1) {
        put_row(p, first);
        return;
    }
    for (int32_t i = dim + 1; i < p->rank; i++) inner *= p->shape[i];
    put(p, "[");
    for (int64_t i = 0; i < p->shape[dim]; i++) {
        if (i > 0) put(p, ",");
        for (int32_t k = dim + 2; i > 0 && k < p->rank; k++) put(p, "\n");
        if (i > 0) new_line(p, dim + 1);
        if (i == EDGE && is_cut(p, dim)) {
            put(p, "...,");
            for (int32_t k = dim + 2; k < p->rank; k++) put(p, "\n");
            new_line(p, dim + 1);
        }
        put_dim(p, dim + 1, first + i * inner);
    }
    put(p, "]");
}

dhow_status dhow_tensor_print(dhow_tensor *tensor, dhow_text_writer write, void *user) {
    static const char function[] = "dhow_tensor_print";
    DHOWI_TRY(dhowi_tensor_check_read(tensor, function, "tensor"));
    printer p = {.tensor = tensor, .write = write, .user = user};
    char facts[192];
    choose_shape(&p);
    dhow_status status = read_values(&p, tensor);
    if (status == DHOW_OK) {
        choose_form(&p);
        put(&p, "tensor(");
        if (p.count > 0) {
            put_dim(&p, 0, 0);
        } else {
            put(&p, "[]");
        }
        put(&p, ", ");
        put(&p, dhowi_tensor_text(tensor, facts, sizeof facts));
        put(&p, ")\n");
    }
    dhowi_free(p.values);
    return status;
}

/* ---- single values ---- */

static dhow_status item(const char *function, dhow_tensor *tensor, dhow_scalar *out) {
    uint64_t bits = 0;
    char text[192];
    DHOWI_TRY(dhowi_tensor_check_read(tensor, function, "tensor"));
    if (tensor->count != 1) {
        return dhowi_fail(DHOW_INVALID_ARGUMENT, "%s: the tensor is %s; it needs one element",
                          function, dhowi_tensor_text(tensor, text, sizeof text));
    }
    DHOWI_TRY(dhow_tensor_read(tensor, &bits, dhow_dtype_bytes(tensor->dtype)));
    *out = dhowi_scalar_of(tensor->dtype, &bits);
    return DHOW_OK;
}

dhow_status dhow_tensor_item(dhow_tensor *tensor, double *out) {
    static const char function[] = "dhow_tensor_item";
    dhow_scalar s;
    if (out == NULL) return dhowi_fail(DHOW_INVALID_ARGUMENT, "%s: out is NULL", function);
    *out = 0;
    DHOWI_TRY(item(function, tensor, &s));
    *out = dhowi_scalar_float(s);
    return DHOW_OK;
}

dhow_status dhow_tensor_item_i64(dhow_tensor *tensor, int64_t *out) {
    static const char function[] = "dhow_tensor_item_i64";
    dhow_scalar s;
    uint64_t bits;
    if (out == NULL) return dhowi_fail(DHOW_INVALID_ARGUMENT, "%s: out is NULL", function);
    *out = 0;
    DHOWI_TRY(item(function, tensor, &s));
    if (s.kind == DHOW_F64) {
        return dhowi_fail(DHOW_INVALID_ARGUMENT, "%s: the tensor is %s; use dhow_tensor_item()",
                          function, dhow_dtype_name(tensor->dtype));
    }
    DHOWI_TRY(dhowi_scalar_bits(function, DHOW_I64, s, &bits));
    *out = (int64_t)bits;
    return DHOW_OK;
}
