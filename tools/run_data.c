/* SPDX-License-Identifier: Apache-2.0
 *
 * Inputs of dhow-run, and what is told about values.
 */
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "run.h"

bool run_room(run_values *t, uint32_t count) {
    *t = (run_values){.item = calloc(count > 0 ? count : 1, sizeof(dhow_datum *))};
    return t->item != NULL || run_fail("no memory for %u values", count);
}

void run_release(run_values *t) {
    for (uint32_t i = 0; i < t->count; i++) dhow_datum_release(t->item[i]);
    free((void *)t->item);
    *t = (run_values){0};
}

bool run_of_tensor(dhow_tensor *tensor, dhow_datum **out) {
    const bool good = dhow_datum_of_tensor(tensor, out) == DHOW_OK || run_fail_last();
    dhow_tensor_release(tensor);
    return good;
}

static bool is_texts(const dhow_datum *datum, dhow_datum_info *info) {
    return dhow_datum_get_info(datum, info) == DHOW_OK && info->kind == DHOW_DATUM_TEXTS;
}

static bool copy_texts(const dhow_datum *from, const dhow_datum_info *info, dhow_datum **out) {
    const char **texts = malloc((size_t)(info->count + 1) * sizeof *texts);
    bool good = texts != NULL || run_fail("no memory for texts");
    for (int64_t i = 0; i < info->count && good; i++)
        good = dhow_datum_text(from, i, &texts[i]) == DHOW_OK || run_fail_last();
    if (good)
        good =
            dhow_datum_of_texts(info->rank, info->shape, texts, out) == DHOW_OK || run_fail_last();
    free((void *)texts);
    return good;
}

bool run_move(const run_values *from, dhow_device *device, run_values *out) {
    if (!run_room(out, from->count)) return false;
    for (uint32_t i = 0; i < from->count; i++) {
        dhow_datum_info info = DHOW_INIT(dhow_datum_info);
        dhow_tensor *own, *moved;
        if (is_texts(from->item[i], &info)) {
            if (!copy_texts(from->item[i], &info, &out->item[i])) return false;
        } else {
            if (dhow_datum_tensor(from->item[i], &own) != DHOW_OK ||
                dhow_tensor_to(own, device, &moved) != DHOW_OK)
                return run_fail_last();
            if (!run_of_tensor(moved, &out->item[i])) return false;
        }
        out->count = i + 1;
    }
    return true;
}

bool run_save(const dhow_datum *datum, const char *path) {
    dhow_datum_info info = DHOW_INIT(dhow_datum_info);
    dhow_tensor *tensor;
    if (is_texts(datum, &info)) return run_save_texts(datum, &info, path);
    return (dhow_datum_tensor(datum, &tensor) == DHOW_OK &&
            dhow_npy_save(tensor, path) == DHOW_OK) ||
           run_fail_last();
}

/* ---- inputs ---- */

static bool is_named(const run_pair *p, const char *name) {
    return strlen(name) == p->name_length && strncmp(name, p->name, p->name_length) == 0;
}

static run_pair *find_pair(run_pair *pairs, int count, const char *name, bool positional) {
    for (int i = 0; i < count; i++) {
        if (pairs[i].name_length > 0 && is_named(&pairs[i], name)) return &pairs[i];
    }
    for (int i = 0; i < count && positional; i++) {
        if (pairs[i].name_length == 0 && !pairs[i].used) return &pairs[i];
    }
    return NULL;
}

typedef dhow_status describe_fn(const dhow_model *model, uint32_t index, dhow_model_value_info *to);

/* Whether every pair names one of the model's values, once. */
static bool check_pairs(const run_pair *pairs, int count, const char *option, const char *what,
                        const dhow_model *model, describe_fn *of, uint32_t of_count) {
    for (int i = 0; i < count; i++) {
        char names[512] = "";
        dhow_model_value_info info = DHOW_INIT(dhow_model_value_info);
        bool found = pairs[i].name_length == 0;
        for (int k = 0; k < i; k++) {
            if (pairs[i].name_length > 0 && pairs[k].name_length == pairs[i].name_length &&
                strncmp(pairs[k].name, pairs[i].name, pairs[i].name_length) == 0)
                return run_fail("%s %.*s is given twice", option, (int)pairs[i].name_length,
                                pairs[i].name);
        }
        for (uint32_t k = 0; k < of_count && !found; k++) {
            if (of(model, k, &info) != DHOW_OK) return run_fail_last();
            found = is_named(&pairs[i], info.name);
            size_t at = strlen(names);
            (void)snprintf(names + at, sizeof names - at, "%s%s", k > 0 ? ", " : "", info.name);
        }
        if (!found)
            return run_fail("%s: the model has no %s '%.*s'; it has: %s", option, what,
                            (int)pairs[i].name_length, pairs[i].name, names);
    }
    return true;
}

/* dhow-run gives and takes tensors and texts. */
static bool check_kinds(const dhow_model *model, describe_fn *of, uint32_t count,
                        const char *what) {
    static const char *const kinds[] = {"a tensor", "an array of texts", "a sequence", "nothing"};
    for (uint32_t i = 0; i < count; i++) {
        dhow_model_value_info info = DHOW_INIT(dhow_model_value_info);
        if (of(model, i, &info) != DHOW_OK) return run_fail_last();
        if (info.kind != DHOW_DATUM_TENSOR && info.kind != DHOW_DATUM_TEXTS)
            return run_fail("%s '%s' is %s; dhow-run handles tensors and texts only", what,
                            info.name, kinds[info.kind]);
    }
    return true;
}

bool run_check_names(const run_request *r, dhow_model *model) {
    const uint32_t inputs = dhow_model_input_count(model), outputs = dhow_model_output_count(model);
    if (!check_pairs(r->inputs, r->input_count, "--input", "input", model, dhow_model_input_at,
                     inputs) ||
        !check_pairs(r->shapes, r->shape_count, "--shape", "input", model, dhow_model_input_at,
                     inputs) ||
        !check_pairs(r->outputs, r->output_count, "--output", "output", model, dhow_model_output_at,
                     outputs))
        return false;
    if (r->input_count > (int)inputs)
        return run_fail("%d inputs are given, the model has %u", r->input_count, inputs);
    return check_kinds(model, dhow_model_input_at, inputs, "input") &&
           check_kinds(model, dhow_model_output_at, outputs, "output");
}

/* "f32[1, 3, ?, ?]" */
static const char *text_of(const dhow_model_value_info *info, char *to, size_t capacity) {
    size_t at = (size_t)snprintf(to, capacity, "%s[", dhow_dtype_name(info->dtype));
    for (int32_t i = 0; i < info->rank && at < capacity; i++) {
        const char *comma = i > 0 ? ", " : "";
        if (info->shape[i] < 0) at += (size_t)snprintf(to + at, capacity - at, "%s?", comma);
        if (info->shape[i] >= 0)
            at += (size_t)snprintf(to + at, capacity - at, "%s%lld", comma,
                                   (long long)info->shape[i]);
    }
    if (at < capacity) (void)snprintf(to + at, capacity - at, "]");
    return to;
}

/* Open extents become 1, and the user is told. */
static void close_shape(dhow_model_value_info *info) {
    char text[256], open[128] = "", shape[256] = "";
    (void)text_of(info, text, sizeof text);
    for (int32_t i = 0; i < info->rank; i++) {
        size_t at = strlen(open), end = strlen(shape);
        if (info->shape[i] < 0) {
            (void)snprintf(open + at, sizeof open - at, "%s%d", at > 0 ? ", " : "", (int)i);
            info->shape[i] = 1;
        }
        (void)snprintf(shape + end, sizeof shape - end, "%s%lld", i > 0 ? "x" : "",
                       (long long)info->shape[i]);
    }
    if (open[0] == '\0') return;
    (void)fprintf(stderr,
                  "dhow-run: input '%s' is %s: its open extents (dimension %s) are taken as 1; "
                  "others are given as --shape %s=%s\n",
                  info->name, text, open, info->name, shape);
}

/* A shape of the command line that the model does not take is told before anything is made. */
static bool check_shape(const dhow_model_value_info *declared, const dhow_model_value_info *given) {
    char p[256], q[256];
    bool fits = declared->rank < 0 || declared->rank == given->rank;
    for (int32_t i = 0; fits && i < declared->rank; i++)
        fits = declared->shape[i] < 0 || declared->shape[i] == given->shape[i];
    return fits || run_fail("--shape %s: %s does not fit the model's %s", given->name,
                            text_of(given, p, sizeof p), text_of(declared, q, sizeof q));
}

bool run_parse_shape(const char *text, int32_t *rank, int64_t *shape) {
    *rank = 0;
    while (*text != '\0') {
        char *end;
        long long extent = strtoll(text, &end, 10);
        if (end == text || extent < 0 || *rank == DHOW_MAX_RANK) return false;
        shape[(*rank)++] = extent;
        if (*end != 'x' && *end != '\0') return false;
        text = *end == 'x' ? end + 1 : end;
        if (*end == 'x' && *text == '\0') return false;
    }
    return true;
}

/* Values between -1 and 1 from a fixed seed, 0 and 1 for integers. */
static bool random_tensor(dhow_device *device, const dhow_model_value_info *info, uint64_t seed,
                          dhow_tensor **out) {
    const bool whole = info->dtype != DHOW_F32 && info->dtype != DHOW_F64 &&
                       info->dtype != DHOW_F16 && info->dtype != DHOW_BF16;
    if (dhow_tensor_uniform(device, info->dtype, info->rank, info->shape, whole ? 0 : -1,
                            whole ? 2 : 1, seed, out) == DHOW_OK)
        return true;
    (void)run_fail_last();
    return run_fail_prefix("input ", info->name);
}

static bool load_input(const dhow_model_value_info *info, dhow_device *device, run_pair *file,
                       const run_pair *shape, dhow_datum **out) {
    dhow_tensor *tensor;
    if (shape != NULL)
        return run_fail("input '%s' comes from %s, which has a shape: --shape is for random inputs",
                        info->name, file->word);
    file->used = true;
    if (info->kind == DHOW_DATUM_TEXTS) return run_load_texts(info, file->word, out);
    if (dhow_npy_load(device, file->word, &tensor) != DHOW_OK)
        return run_fail_last() || run_fail_prefix("input ", info->name);
    dhow_tensor_info got = DHOW_INIT(dhow_tensor_info);
    if (dhow_tensor_get_info(tensor, &got) != DHOW_OK) return run_fail_last();
    if (info->dtype == 0 || got.dtype == info->dtype) return run_of_tensor(tensor, out);
    dhow_tensor_release(tensor);
    return run_fail("input '%s': %s has %s, the model wants %s; NumPy's astype() converts",
                    info->name, file->word, dhow_dtype_name(got.dtype),
                    dhow_dtype_name(info->dtype));
}

static bool make_input(const run_request *r, dhow_device *device, uint32_t index,
                       dhow_model_value_info *info, dhow_datum **out) {
    dhow_tensor *tensor;
    run_request *request = (run_request *)(uintptr_t)r; /* notes what was used */
    run_pair *file = find_pair(request->inputs, r->input_count, info->name, true);
    run_pair *shape = find_pair(request->shapes, r->shape_count, info->name, false);
    if (file != NULL) return load_input(info, device, file, shape, out);
    if (info->kind == DHOW_DATUM_TEXTS)
        return run_fail(
            "input '%s' is an array of texts: give --input %s=FILE, with one in each "
            "line",
            info->name, info->name);
    if (!r->random)
        return run_fail("input '%s' is missing: give --input %s=FILE.npy, or --random", info->name,
                        info->name);
    if (shape != NULL) {
        const dhow_model_value_info declared = *info;
        (void)run_parse_shape(shape->word, &info->rank, info->shape);
        if (!check_shape(&declared, info)) return false;
    }
    if (info->rank < 0)
        return run_fail("the model does not tell the shape of input '%s': give --shape %s=...",
                        info->name, info->name);
    close_shape(info);
    return random_tensor(device, info, index + 1, &tensor) && run_of_tensor(tensor, out);
}

bool run_make_inputs(const run_request *r, dhow_model *model, dhow_device *device,
                     run_values *out) {
    uint32_t count = dhow_model_input_count(model);
    if (!run_room(out, count)) return false;
    for (uint32_t i = 0; i < count; i++) {
        dhow_model_value_info info = DHOW_INIT(dhow_model_value_info);
        if (dhow_model_input_at(model, i, &info) != DHOW_OK) return run_fail_last();
        if (!make_input(r, device, i, &info, &out->item[i])) return false;
        out->count = i + 1;
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
    return good || run_fail_last();
}

static void describe(const dhow_tensor_info *info, json_t *to) {
    json_t *shape = json_array();
    for (int32_t i = 0; i < info->rank; i++)
        (void)json_array_append_new(shape, json_integer(info->shape[i]));
    (void)json_object_set_new(to, "dtype", json_string(dhow_dtype_name(info->dtype)));
    (void)json_object_set_new(to, "shape", shape);
}

bool run_show_inputs(const run_values *in, json_t *list) {
    for (uint32_t i = 0; i < in->count; i++) {
        dhow_tensor_info info = DHOW_INIT(dhow_tensor_info);
        dhow_datum_info texts = DHOW_INIT(dhow_datum_info);
        dhow_tensor *tensor;
        if (is_texts(in->item[i], &texts)) {
            if (!run_show_texts(in->item[i], &texts, json_array_get(list, i))) return false;
            continue;
        }
        if (dhow_datum_tensor(in->item[i], &tensor) != DHOW_OK ||
            dhow_tensor_get_info(tensor, &info) != DHOW_OK)
            return run_fail_last();
        describe(&info, json_array_get(list, i));
    }
    return true;
}

static json_t *number(double value) { /* JSON has no infinities */
    if (isfinite(value)) return json_real(value);
    return json_string(isnan(value) ? "nan" : value < 0 ? "-inf" : "inf");
}

/* NaN wins, and stays whatever comes after it. */
static double larger(double a, double b) { return isnan(a) || a >= b ? a : b; }
static double smaller(double a, double b) { return isnan(a) || a <= b ? a : b; }

bool run_describe(dhow_device *cpu, const dhow_datum *datum, json_t *to) {
    dhow_datum_info texts = DHOW_INIT(dhow_datum_info);
    dhow_tensor *wide, *t;
    dhow_tensor_info info = DHOW_INIT(dhow_tensor_info);
    double *v, low = INFINITY, high = -INFINITY, sum = 0;
    if (is_texts(datum, &texts)) return run_show_texts(datum, &texts, to);
    if (dhow_datum_tensor(datum, &t) != DHOW_OK) return run_fail_last();
    if (!wide_values(cpu, t, &wide, &v, &info)) return false;
    for (int64_t i = 0; i < info.count; i++) {
        low = smaller(low, v[i]);
        high = larger(high, v[i]);
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

static bool same_shape(const dhow_tensor_info *a, const dhow_tensor_info *b) {
    return a->rank == b->rank &&
           memcmp(a->shape, b->shape, (size_t)a->rank * sizeof a->shape[0]) == 0;
}

bool run_difference(dhow_device *cpu, const dhow_datum *one, const dhow_datum *other, json_t *to) {
    dhow_datum_info texts = DHOW_INIT(dhow_datum_info);
    dhow_tensor *a, *b, *wa = NULL, *wb = NULL;
    dhow_tensor_info ia = DHOW_INIT(dhow_tensor_info), ib = DHOW_INIT(dhow_tensor_info);
    double *p, *q, absolute = 0, relative = 0;
    if (is_texts(one, &texts)) return run_compare_texts(one, other, to);
    bool good =
        (dhow_datum_tensor(one, &a) == DHOW_OK && dhow_datum_tensor(other, &b) == DHOW_OK) ||
        run_fail_last();
    good = good && wide_values(cpu, a, &wa, &p, &ia) && wide_values(cpu, b, &wb, &q, &ib);
    if (good && !same_shape(&ia, &ib)) good = run_fail("the results have different shapes");
    for (int64_t i = 0; good && i < ia.count; i++) {
        double d = fabs(p[i] - q[i]), size = fmax(fabs(p[i]), fabs(q[i]));
        if (p[i] == q[i] || (isnan(p[i]) && isnan(q[i]))) continue;
        absolute = larger(absolute, d);
        relative = larger(relative, isinf(d) ? d : d / size);
    }
    (void)json_object_set_new(to, "largest_absolute", number(absolute));
    (void)json_object_set_new(to, "largest_relative", number(relative));
    dhow_tensor_release(wa);
    dhow_tensor_release(wb);
    return good;
}
