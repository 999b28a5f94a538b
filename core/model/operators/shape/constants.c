/* SPDX-License-Identifier: Apache-2.0
 *
 * Operators that make numbers: constants, ranges, one-hot rows and the like.
 */
#include <inttypes.h>
#include <math.h>
#include <string.h>

#include "base/memory/alloc.h"
#include "base/memory/size.h"
#include "model/operators/shape/shape.h"

dhow_status dhowi_constant_of(dhowi_lowering *b, const dhowi_onnx_tensor *t, int32_t *out) {
    dhow_dtype dtype;
    int64_t count;
    uint64_t bytes;
    dhow_tensor *tensor;
    void *data;
    if (t->type == DHOWI_ONNX_STRING) return dhowi_texts_of_tensor(b, t, out);
    DHOWI_TRY(dhowi_onnx_tensor_check(t, &dtype, &count, &bytes));
    DHOWI_TRY(dhowi_tensor_new(b->model->context->cpu, dtype, t->rank, t->shape, &tensor));
    dhow_status status = dhow_tensor_host_ptr(tensor, &data);
    if (status == DHOW_OK) status = dhowi_onnx_tensor_read(b->model->file, t, NULL, data);
    if (status == DHOW_OK) status = dhowi_known(b, tensor, -1, out);
    if (status == DHOW_OK) b->items[*out].desc.encoding = dhowi_onnx_encoding(t->type);
    dhow_tensor_release(tensor);
    return status;
}

static dhow_status texts(dhowi_lowering *b, const dhowi_slice *from, uint32_t count, bool one) {
    const dhowi_tensor_desc shape = {.rank = one ? 0 : 1, .shape = {count}};
    const dhowi_slice **places = dhowi_alloc_array((size_t)count + 1, sizeof *places);
    if (places == NULL) return dhowi_fail_memory("plan");
    for (uint32_t i = 0; i < count; i++) places[i] = &from[i];
    const dhow_status status = dhowi_texts_of(b, &shape, places, &b->out[0]);
    dhowi_free(places);
    return status;
}

/* `value` is a parameter of the model from the import on; the other forms come here. */
dhow_status dhowi_lower_constant(dhowi_lowering *b) {
    const dhowi_onnx_attribute *a;
    if ((a = dhowi_attr(b, "value", DHOWI_ATTRIBUTE_TENSOR)) != NULL && a->tensor != NULL)
        return dhowi_constant_of(b, a->tensor, &b->out[0]);
    if ((a = dhowi_attr(b, "value_int", DHOWI_ATTRIBUTE_INT)) != NULL)
        return dhowi_constant(b, DHOW_I64, 0, NULL, &a->i, &b->out[0]);
    if ((a = dhowi_attr(b, "value_float", DHOWI_ATTRIBUTE_FLOAT)) != NULL)
        return dhowi_constant(b, DHOW_F32, 0, NULL, &a->f, &b->out[0]);
    int64_t count;
    if ((a = dhowi_attr(b, "value_ints", DHOWI_ATTRIBUTE_INTS)) != NULL) {
        count = a->int_count;
        return dhowi_constant(b, DHOW_I64, 1, &count, a->ints, &b->out[0]);
    }
    if ((a = dhowi_attr(b, "value_floats", DHOWI_ATTRIBUTE_FLOATS)) != NULL) {
        count = a->float_count;
        return dhowi_constant(b, DHOW_F32, 1, &count, a->floats, &b->out[0]);
    }
    if ((a = dhowi_attr(b, "value_string", DHOWI_ATTRIBUTE_STRING)) != NULL)
        return texts(b, &a->s, 1, true);
    if ((a = dhowi_attr(b, "value_strings", DHOWI_ATTRIBUTE_STRINGS)) != NULL)
        return texts(b, a->strings, a->string_count, false);
    return dhowi_fail(DHOW_UNSUPPORTED, "a sparse constant");
}

dhow_status dhowi_lower_constant_of_shape(dhowi_lowering *b) {
    const dhowi_onnx_attribute *a = dhowi_attr(b, "value", DHOWI_ATTRIBUTE_TENSOR);
    const int64_t zeros[DHOW_MAX_RANK] = {0};
    int64_t shape[DHOW_MAX_RANK];
    uint32_t rank;
    int32_t value;
    const float zero = 0;
    DHOWI_TRY(dhowi_shape_values(b, b->in[0], "the shape", shape, &rank));
    for (uint32_t i = 0; i < rank; i++) {
        if (shape[i] < 0) DHOWI_REFUSE("extent %" PRId64 " in the shape", shape[i]);
    }
    if (a != NULL && a->tensor != NULL) {
        DHOWI_TRY(dhowi_constant_of(b, a->tensor, &value));
        if (dhowi_count_of(dhowi_desc_at(b, value)) != 1)
            DHOWI_REFUSE("value has several elements");
    } else {
        DHOWI_TRY(dhowi_constant(b, DHOW_F32, 0, NULL, &zero, &value));
    }
    return dhowi_view(b, value, (int32_t)rank, shape, zeros, 0, &b->out[0]);
}

/* By integers, which doubles hold up to 2^53. */
static dhow_status integer_range(dhowi_lowering *b, const int64_t v[3], dhow_dtype dtype) {
    const uint64_t step = v[2] < 0 ? -(uint64_t)v[2] : (uint64_t)v[2];
    const bool none = v[2] > 0 ? v[1] <= v[0] : v[1] >= v[0];
    const uint64_t way =
        v[2] > 0 ? (uint64_t)v[1] - (uint64_t)v[0] : (uint64_t)v[0] - (uint64_t)v[1];
    const int64_t count = none ? 0 : (int64_t)DHOWI_MIN((way - 1) / step + 1, (uint64_t)INT64_MAX);
    if (count > INT32_MAX) DHOWI_REFUSE("%" PRId64 " numbers", count);
    DHOWI_TRY(dhowi_host_room(b, count, sizeof(int64_t)));
    int64_t *list = dhowi_alloc_array((size_t)count + 1, sizeof *list);
    if (list == NULL) return dhowi_fail_memory("plan");
    for (int64_t i = 0; i < count; i++)
        list[i] = (int64_t)((uint64_t)v[0] + (uint64_t)i * (uint64_t)v[2]);
    dhow_status status = dhowi_constant(b, DHOW_I64, 1, &count, list, &b->out[0]);
    dhowi_free(list);
    return status == DHOW_OK ? dhowi_cast_to(b, b->out[0], dtype, &b->out[0]) : status;
}

dhow_status dhowi_lower_range(dhowi_lowering *b) {
    double v[3];
    int64_t whole[3];
    static const char *const names[] = {"start", "limit", "delta"};
    const dhow_dtype dtype = dhowi_desc_at(b, b->in[0])->dtype;
    for (int i = 0; i < 3 && !dhowi_is_float(dtype); i++)
        DHOWI_TRY(dhowi_one_int(b, b->in[i], names[i], &whole[i]));
    if (!dhowi_is_float(dtype) && whole[2] != 0) return integer_range(b, whole, dtype);
    for (int i = 0; i < 3; i++) DHOWI_TRY(dhowi_one_float(b, b->in[i], names[i], &v[i]));
    if (v[2] == 0) DHOWI_REFUSE("a step of 0");
    double n = ceil((v[1] - v[0]) / v[2]);
    if (!(n < 2147483647.0)) DHOWI_REFUSE("%g numbers", n);
    return dhowi_numbers(b, dtype, v[0], v[2], n > 0 ? (int64_t)n : 0, &b->out[0]);
}

/* rows and columns of a matrix as numbers, [m, 1] and [1, n] */
static dhow_status rows_and_columns(dhowi_lowering *b, int64_t m, int64_t n, int32_t *rows,
                                    int32_t *columns) {
    const int64_t down[] = {m, 1}, across[] = {1, n};
    DHOWI_TRY(dhowi_numbers(b, DHOW_I64, 0, 1, m, rows));
    DHOWI_TRY(dhowi_reshape(b, *rows, 2, down, rows));
    DHOWI_TRY(dhowi_numbers(b, DHOW_I64, 0, 1, n, columns));
    return dhowi_reshape(b, *columns, 2, across, columns);
}

dhow_status dhowi_lower_eye_like(dhowi_lowering *b) {
    const dhowi_tensor_desc x = *dhowi_desc_at(b, b->in[0]);
    int32_t rows, columns;
    if (x.rank != 2) DHOWI_REFUSE("x has %d dimensions, not 2", x.rank);
    const dhowi_onnx_attribute *type = dhowi_attr(b, "dtype", DHOWI_ATTRIBUTE_INT);
    dhow_dtype dtype = type != NULL ? dhowi_onnx_dtype((int32_t)type->i) : x.dtype;
    if (dtype == 0)
        return dhowi_fail(DHOW_UNSUPPORTED, "unsupported dtype %s",
                          dhowi_onnx_type_name((int32_t)type->i));
    DHOWI_TRY(rows_and_columns(b, x.shape[0], x.shape[1], &rows, &columns));
    DHOWI_TRY(dhowi_map_number(b, DHOWI_MAP_ADD, rows, (double)dhowi_attr_int(b, "k", 0), &rows));
    DHOWI_TRY(dhowi_map_two(b, DHOWI_MAP_EQ, rows, columns, &b->out[0]));
    return dhowi_cast_to(b, b->out[0], dtype, &b->out[0]);
}

dhow_status dhowi_lower_trilu(dhowi_lowering *b) {
    const dhowi_tensor_desc x = *dhowi_desc_at(b, b->in[0]);
    dhowi_tensor_desc one = {.dtype = x.dtype};
    int64_t k = 0;
    bool upper;
    int32_t rows, columns, zero;
    if (x.rank < 2) DHOWI_REFUSE("x has %d dimensions", x.rank);
    if (dhowi_given(b, 1)) DHOWI_TRY(dhowi_one_int(b, b->in[1], "k", &k));
    DHOWI_TRY(dhowi_attr_flag(b, "upper", true, &upper));
    DHOWI_TRY(rows_and_columns(b, x.shape[x.rank - 2], x.shape[x.rank - 1], &rows, &columns));
    DHOWI_TRY(dhowi_map_number(b, DHOWI_MAP_ADD, rows, (double)k, &rows));
    DHOWI_TRY(dhowi_map_two(b, upper ? DHOWI_MAP_LE : DHOWI_MAP_GE, rows, columns, &rows));
    DHOWI_TRY(dhowi_filled(b, &one, 0, &zero));
    return dhowi_select(b, rows, b->in[0], zero, &b->out[0]);
}

dhow_status dhowi_lower_one_hot(dhowi_lowering *b) {
    const dhowi_tensor_desc x = *dhowi_desc_at(b, b->in[0]);
    double given;
    int64_t depth, axis = dhowi_attr_int(b, "axis", -1);
    int32_t index, below, classes, off, on;
    DHOWI_TRY(dhowi_one_float(b, b->in[1], "depth", &given)); /* of any type in ONNX */
    if (!(given >= 1 && given <= INT32_MAX && given == floor(given)))
        DHOWI_REFUSE("a depth of %g", given);
    depth = (int64_t)given;
    if (axis < 0) axis += x.rank + 1;
    if (axis < 0 || axis > x.rank || depth < 1 || x.rank == DHOW_MAX_RANK)
        DHOWI_REFUSE("axis %" PRId64 ", depth %" PRId64, axis, depth);
    dhowi_tensor_desc wide = {.rank = x.rank + 1}, line = {.rank = x.rank + 1};
    for (int32_t i = 0; i < wide.rank; i++) {
        line.shape[i] = i == axis ? depth : 1;
        wide.shape[i] = i == axis ? 1 : x.shape[i < axis ? i : i - 1];
    }
    DHOWI_TRY(dhowi_cast_to(b, b->in[0], DHOW_I64, &index));
    /* from the end where negative: index + depth (index < 0); the others outside hit no class */
    DHOWI_TRY(dhowi_map_number(b, DHOWI_MAP_LT, index, 0, &below));
    DHOWI_TRY(dhowi_map_number(b, DHOWI_MAP_MUL, below, (double)depth, &below));
    DHOWI_TRY(dhowi_map_two(b, DHOWI_MAP_ADD, index, below, &index));
    DHOWI_TRY(dhowi_reshape(b, index, wide.rank, wide.shape, &index));
    DHOWI_TRY(dhowi_numbers(b, DHOW_I64, 0, 1, depth, &classes));
    DHOWI_TRY(dhowi_reshape(b, classes, line.rank, line.shape, &classes));
    DHOWI_TRY(dhowi_map_two(b, DHOWI_MAP_EQ, index, classes, &index));
    const dhowi_tensor_desc *values = dhowi_desc_at(b, b->in[2]);
    if (values->rank != 1 || values->shape[0] != 2) DHOWI_REFUSE("values are no pair");
    DHOWI_TRY(dhowi_narrow(b, b->in[2], 0, 0, 1, 1, &off));
    DHOWI_TRY(dhowi_narrow(b, b->in[2], 0, 1, 1, 1, &on));
    return dhowi_select(b, index, on, off, &b->out[0]);
}
