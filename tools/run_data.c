/* SPDX-License-Identifier: Apache-2.0
 *
 * Inputs of dhow-run, and what is told about values.
 */
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "run.h"

void run_release(run_tensors *t) {
    for (uint32_t i = 0; i < t->count; i++) dhow_tensor_release(t->item[i]);
    t->count = 0;
}

/* ---- inputs ---- */

static run_pair *find_pair(run_pair *pairs, int count, const char *name, bool positional) {
    for (int i = 0; i < count; i++) {
        if (pairs[i].name_length > 0 && strlen(name) == pairs[i].name_length &&
            strncmp(name, pairs[i].name, pairs[i].name_length) == 0)
            return &pairs[i];
    }
    for (int i = 0; i < count && positional; i++) {
        if (pairs[i].name_length == 0 && !pairs[i].used) return &pairs[i];
    }
    return NULL;
}

static bool parse_shape(const char *text, dhow_model_value_info *info) {
    info->rank = 0;
    while (*text != '\0') {
        char *end;
        long long extent = strtoll(text, &end, 10);
        if (end == text || extent < 0 || info->rank == DHOW_MAX_RANK) return false;
        info->shape[info->rank++] = extent;
        if (*end != 'x' && *end != '\0') return false;
        text = *end == 'x' ? end + 1 : end;
    }
    return true;
}

/* Values between -1 and 1 from a fixed seed; small whole numbers for integers. */
static bool random_tensor(dhow_device *device, const dhow_model_value_info *info, uint64_t seed,
                          dhow_tensor **out) {
    size_t count = 1;
    for (int32_t i = 0; i < info->rank; i++) count *= (size_t)info->shape[i];
    bool whole = info->dtype != DHOW_F32 && info->dtype != DHOW_F64 && info->dtype != DHOW_F16 &&
                 info->dtype != DHOW_BF16;
    double *values = calloc(count + 1, sizeof *values);
    dhow_tensor *wide = NULL;
    if (values == NULL) return run_fail("not enough memory");
    for (size_t i = 0; i < count; i++) {
        seed = seed * UINT64_C(6364136223846793005) + UINT64_C(1442695040888963407);
        double unit = (double)(seed >> 11) / 9007199254740992.0;
        values[i] = whole ? floor(unit * 2) : unit * 2 - 1;
    }
    bool good = dhow_tensor_from_data(device, DHOW_F64, info->rank, info->shape, values, &wide) ==
                    DHOW_OK &&
                dhow_tensor_create(device, info->dtype, info->rank, info->shape, out) == DHOW_OK &&
                dhow_cast(NULL, wide, *out) == DHOW_OK;
    dhow_tensor_release(wide);
    free(values);
    return good || run_fail("%s", dhow_last_error());
}

static bool make_input(const run_request *r, dhow_device *device, uint32_t index,
                       dhow_model_value_info *info, dhow_tensor **out) {
    run_request *request = (run_request *)(uintptr_t)r; /* notes what was used */
    run_pair *file = find_pair(request->inputs, r->input_count, info->name, true);
    run_pair *shape = find_pair(request->shapes, r->shape_count, info->name, false);
    if (file != NULL) {
        file->used = true;
        return dhow_npy_load(device, file->word, out) == DHOW_OK ||
               run_fail("input '%s': %s", info->name, dhow_last_error());
    }
    if (!r->random)
        return run_fail("input '%s' is missing: give --input %s=FILE.npy, or --random", info->name,
                        info->name);
    if (shape != NULL && !parse_shape(shape->word, info))
        return run_fail("--shape %s is not NAME=1x3x224x224", shape->name);
    if (info->rank < 0)
        return run_fail("the model does not tell the shape of input '%s': give --shape",
                        info->name);
    for (int32_t i = 0; i < info->rank; i++) {
        if (info->shape[i] < 0) info->shape[i] = 1;
    }
    return random_tensor(device, info, index + 1, out);
}

bool run_make_inputs(const run_request *r, dhow_model *model, dhow_device *device,
                     run_tensors *out) {
    uint32_t count = dhow_model_input_count(model);
    if (count > RUN_MAX_TENSORS) return run_fail("the model has %u inputs", count);
    for (uint32_t i = 0; i < count; i++) {
        dhow_model_value_info info;
        if (dhow_model_input_at(model, i, &info) != DHOW_OK)
            return run_fail("%s", dhow_last_error());
        if (!make_input(r, device, i, &info, &out->item[i])) return false;
        out->count = i + 1;
    }
    for (int i = 0; i < r->input_count; i++) {
        if (!r->inputs[i].used)
            return run_fail("the model has no input for '%s'; --list tells their names",
                            r->inputs[i].name);
    }
    return true;
}

/* ---- values ---- */

/* A tensor's elements as doubles on the CPU; release the tensor. */
static bool wide_values(dhow_device *cpu, dhow_tensor *t, dhow_tensor **wide, double **values,
                        dhow_tensor_info *info) {
    dhow_tensor *host = NULL;
    void *data = NULL;
    *wide = NULL;
    bool good =
        dhow_tensor_get_info(t, info) == DHOW_OK && dhow_tensor_to(t, cpu, &host) == DHOW_OK &&
        dhow_tensor_create(cpu, DHOW_F64, info->rank, info->shape, wide) == DHOW_OK &&
        dhow_cast(NULL, host, *wide) == DHOW_OK && dhow_tensor_host_ptr(*wide, &data) == DHOW_OK;
    dhow_tensor_release(host);
    *values = data;
    return good || run_fail("%s", dhow_last_error());
}

static void describe(const dhow_tensor_info *info, json_t *to) {
    json_t *shape = json_array();
    for (int32_t i = 0; i < info->rank; i++)
        (void)json_array_append_new(shape, json_integer(info->shape[i]));
    (void)json_object_set_new(to, "dtype", json_string(dhow_dtype_name(info->dtype)));
    (void)json_object_set_new(to, "shape", shape);
}

static json_t *number(double value) { /* JSON has no infinities */
    return isfinite(value) ? json_real(value) : json_string(isnan(value) ? "nan" : "inf");
}

bool run_values(dhow_device *cpu, dhow_tensor *t, json_t *to) {
    dhow_tensor *wide;
    dhow_tensor_info info;
    double *v, low = INFINITY, high = -INFINITY, sum = 0;
    if (!wide_values(cpu, t, &wide, &v, &info)) return false;
    for (int64_t i = 0; i < info.count; i++) {
        if (v[i] < low) low = v[i];
        if (v[i] > high) high = v[i];
        sum += v[i];
    }
    describe(&info, to);
    if (info.count > 0) {
        (void)json_object_set_new(to, "min", number(low));
        (void)json_object_set_new(to, "max", number(high));
        (void)json_object_set_new(to, "mean", number(sum / (double)info.count));
    }
    dhow_tensor_release(wide);
    return true;
}

bool run_difference(dhow_device *cpu, dhow_tensor *a, dhow_tensor *b, json_t *to) {
    dhow_tensor *wa = NULL, *wb = NULL;
    dhow_tensor_info ia, ib;
    double *p, *q, absolute = 0, relative = 0;
    bool good = wide_values(cpu, a, &wa, &p, &ia) && wide_values(cpu, b, &wb, &q, &ib);
    if (good && ia.count != ib.count) good = run_fail("the results have different shapes");
    for (int64_t i = 0; good && i < ia.count; i++) {
        double d = fabs(p[i] - q[i]), size = fmax(fabs(p[i]), fabs(q[i]));
        if (p[i] == q[i] || (isnan(p[i]) && isnan(q[i]))) continue;
        if (!(d <= absolute)) absolute = d;
        if (!(d / size <= relative)) relative = d / size;
    }
    (void)json_object_set_new(to, "largest_absolute", number(absolute));
    (void)json_object_set_new(to, "largest_relative", number(relative));
    dhow_tensor_release(wa);
    dhow_tensor_release(wb);
    return good;
}
