/* SPDX-License-Identifier: Apache-2.0
 *
 * Runs built-in kernels in their GPU form on an OpenCL device, which oclgrind makes where races are
 * looked for, and compares with the CPU: race_main FOLDER_OF_KERNELS [KERNEL=]ITEMS_OF_A_GROUP...
 * With "planted" instead of a folder it runs a kernel that lacks a barrier.
 */
#include <dhow/dhow.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define OK(call)                                                                            \
    do {                                                                                    \
        if ((call) != DHOW_OK) {                                                            \
            (void)fprintf(stderr, "line %d: %s: %s\n", __LINE__, #call, dhow_last_error()); \
            exit(1);                                                                        \
        }                                                                                   \
    } while (0)

enum { MOST_ARGS = 24 };

typedef enum kind { NONE, IN, OUT, OUT_I64, INDEX, NUMBER, SMALL, REAL, DIMS } kind;
typedef struct argument {
    kind kind;
    int64_t n; /* elements of a tensor, or the number */
} argument;
typedef struct run {
    const char *file, *kernel, *types;
    int64_t work;
    argument args[MOST_ARGS];
} run;

/* c[y][x] = a[x][y] + b[x] */
static const dhow_dims k_dims = {
    .rank = 2, .shape = {37, 41}, .stride = {{1, 37}, {0, 1}, {41, 1}}, .offset = {0, 0, 0}};

#define F32 "-DT=f32"
static const run k_runs[] = {
    {"unary.k", "gelu_f32", F32, 300, {{IN, 300}, {OUT, 300}, {NUMBER, 300}}},
    {"binary.k",
     "add_dims_f32",
     F32,
     37 * 41,
     {{IN, 1517}, {IN, 41}, {OUT, 1517}, {DIMS, 0}, {DIMS, 2}}},
    {"map.k",
     "map_f32",
     F32,
     37 * 41,
     {{IN, 1517}, {IN, 41}, {IN, 1}, {IN, 1}, {OUT, 1517}, {DIMS, 0}, {DIMS, 2}, {DIMS, 3}}},
    {"layout.k", "copy_dims_u32", "-DT=u32", 37 * 41, {{IN, 1517}, {OUT, 1517}, {DIMS, 1}}},
    {"layout.k",
     "gather_rows_u32",
     "-DT=u32",
     5 * 33,
     {{IN, 7 * 33}, {INDEX, 5}, {OUT, 5 * 33}, {NUMBER, 7}, {NUMBER, 33}, {NUMBER, 5}}},
    {"rows.k",
     "softmax_f32",
     F32,
     3 * 150,
     {{IN, 450}, {OUT, 450}, {NUMBER, 3}, {NUMBER, 150}, {SMALL, 0}}},
    {"rows.k",
     "log_softmax_f32",
     F32,
     450,
     {{IN, 450}, {OUT, 450}, {NUMBER, 3}, {NUMBER, 150}, {SMALL, 8}}},
    {"rows.k",
     "layernorm_f32",
     F32,
     450,
     {{IN, 450},
      {IN, 150},
      {IN, 150},
      {OUT, 450},
      {NUMBER, 3},
      {NUMBER, 150},
      {REAL, 0},
      {SMALL, 64}}},
    {"reduce.k",
     "reduce_sum_f32",
     F32,
     2 * 150 * 3,
     {{IN, 900}, {OUT, 6}, {NUMBER, 2}, {NUMBER, 150}, {NUMBER, 3}, {REAL, 1}, {SMALL, 0}}},
    {"reduce.k",
     "reduce_max_f32",
     F32,
     900,
     {{IN, 900}, {OUT, 6}, {NUMBER, 6}, {NUMBER, 150}, {NUMBER, 1}, {REAL, 1}, {SMALL, 16}}},
    {"reduce.k",
     "argmax_f32",
     F32,
     900,
     {{IN, 900}, {OUT_I64, 6}, {NUMBER, 6}, {NUMBER, 150}, {NUMBER, 1}, {SMALL, 32}}},
    {"split.k",
     "softmax_part_f32",
     F32,
     900,
     {{IN, 900}, {OUT, 8}, {NUMBER, 2}, {NUMBER, 450}, {NUMBER, 2}, {NUMBER, 256}}},
    {"split.k",
     "norm_part_f32",
     F32,
     900,
     {{IN, 900}, {OUT, 8}, {NUMBER, 2}, {NUMBER, 450}, {NUMBER, 2}, {NUMBER, 256}, {SMALL, 1}}},
    {"split.k",
     "softmax_join_f32",
     F32,
     900,
     {{IN, 900},
      {IN, 8},
      {OUT, 900},
      {NUMBER, 2},
      {NUMBER, 450},
      {NUMBER, 2},
      {NUMBER, 256},
      {SMALL, 0}}},
    {"matmul.k",
     "matmul_f32",
     F32,
     33 * 35 * 19,
     {{IN, 33 * 19},
      {IN, 19 * 35},
      {IN, 35},
      {OUT, 33 * 35},
      {NUMBER, 33},
      {NUMBER, 35},
      {NUMBER, 19},
      {NUMBER, 1},
      {NUMBER, 19},
      {NUMBER, 1},
      {NUMBER, 35},
      {NUMBER, 1},
      {NUMBER, 0},
      {NUMBER, 0},
      {SMALL, 1},
      {SMALL, 1}}},
    {"conv.k",
     "conv2d_f32",
     F32,
     4 * 25 * 18,
     {{IN, 2 * 49}, {IN, 4 * 2 * 9}, {IN, 4},     {OUT, 4 * 25}, {NUMBER, 1}, {NUMBER, 2},
      {NUMBER, 7},  {NUMBER, 7},     {NUMBER, 4}, {NUMBER, 3},   {NUMBER, 3}, {NUMBER, 5},
      {NUMBER, 5},  {NUMBER, 1},     {NUMBER, 1}, {NUMBER, 1},   {NUMBER, 1}, {NUMBER, 1},
      {NUMBER, 0},  {NUMBER, 0},     {SMALL, 1},  {SMALL, 0}}},
    {"conv.k",
     "maxpool2d_f32",
     F32,
     3 * 9 * 4,
     {{IN, 3 * 36},
      {OUT, 3 * 9},
      {NUMBER, 3},
      {NUMBER, 6},
      {NUMBER, 6},
      {NUMBER, 3},
      {NUMBER, 3},
      {NUMBER, 2},
      {NUMBER, 2},
      {NUMBER, 2},
      {NUMBER, 2},
      {NUMBER, 0},
      {NUMBER, 0}}},
};

static const char k_planted[] =
    "KERNEL(planted, (OUT(i32,y)))\n"
    "{\n"
    "    LOCAL(i32, s, 64);\n"
    "    GROUP_FOR(g, 1) {\n"
    "        ITEM_FOR_NB(j, 64) s[j] = (i32)j;\n"
    "        ITEM_FOR_NB(j, 64) y[j] = s[63 - j];\n"
    "    }\n"
    "}\n";

static char *read_file(const char *folder, const char *file) {
    char path[1024];
    (void)snprintf(path, sizeof path, "%s/%s", folder, file);
    FILE *f = fopen(path, "rb");
    char *text = calloc(1, 1 << 18);
    if (f == NULL || text == NULL || fread(text, 1, (1 << 18) - 1, f) == 0) {
        (void)fprintf(stderr, "%s cannot be read\n", path);
        exit(1);
    }
    (void)fclose(f);
    return text;
}

/* A header that lies beside a text in the place of its include, where it has one. */
static char *with_header(const char *folder, const char *name, char *text) {
    char include[64];
    (void)snprintf(include, sizeof include, "#include \"%s\"", name);
    const char *at = strstr(text, include);
    if (at == NULL) return text;
    char *header = read_file(folder, name), *whole = calloc(2, 1 << 18);
    if (whole == NULL) exit(1);
    (void)snprintf(whole, 2 << 18, "%.*s%s%s", (int)(at - text), text, header,
                   at + strlen(include));
    free(header);
    free(text);
    return whole;
}

static char *read_text(const char *folder, const char *file) {
    static const char *const names[] = {"panels.h", "lanes.h", "rows.h", "packs.h"};
    char *text = read_file(folder, file);
    for (int k = 0; k < 4; k++) text = with_header(folder, names[k], text);
    return text;
}

/* The dtype of a tensor argument, as the kernel's name ends. */
static dhow_dtype dtype_of(const run *r, kind k) {
    if (k == OUT_I64 || k == INDEX) return DHOW_I64;
    return strstr(r->kernel, "_u32") != NULL ? DHOW_U32 : DHOW_F32;
}

static dhow_tensor *make(dhow_device *device, const run *r, const argument *a, uint32_t seed) {
    dhow_tensor *t;
    static float data[4096];
    static int64_t index[64];
    for (int64_t i = 0; i < a->n; i++) {
        seed = seed * 1664525u + 1013904223u;
        data[i % 4096] = (float)(seed >> 8) / (1 << 23) - 1;
        index[i % 64] = i * 2 - 1;
    }
    const void *from = a->kind == INDEX ? (const void *)index : data;
    OK(dhow_tensor_from_data(device, dtype_of(r, a->kind), DHOW_SHAPE(a->n), from, &t));
    return t;
}

/* Launches the kernel and reads its output. */
static void launch(dhow_device *device, dhow_kernel *kernel, const run *r, void *out) {
    /* A transposed copy, and what both divide by 37 and 41 with: OVER() of k.h. */
    static const dhow_dims turned = {.rank = 2,
                                     .shape = {37, 41},
                                     .stride = {{1, 37},
                                                {41, 1},
                                                {INT64_C(3134165325), INT64_C(2409371898)}}},
                           more = {.rank = 2, .shape = {INT64_C(3134165325), INT64_C(2409371898)}},
                           program = {.rank = 3, .shape = {1, 2 | 1 << 8, 40}}; /* max(a + b, 0) */
    const dhow_dims *const dims[] = {&k_dims, &turned, &more, &program};
    dhow_value values[MOST_ARGS];
    dhow_tensor *tensors[MOST_ARGS] = {NULL}, *result = NULL;
    uint32_t count = 0;
    for (; count < MOST_ARGS && r->args[count].kind != NONE; count++) {
        const argument *a = &r->args[count];
        if (a->kind == NUMBER || a->kind == SMALL) {
            values[count] = DHOW_ARG(a->n);
        } else if (a->kind == REAL) {
            values[count] = DHOW_ARG((double)a->n + 1e-5);
        } else if (a->kind == DIMS) {
            values[count] = DHOW_ARG(dims[a->n]);
        } else {
            tensors[count] = make(device, r, a, count + 1);
            values[count] = DHOW_ARG(tensors[count]);
            if (a->kind == OUT || a->kind == OUT_I64) result = tensors[count];
        }
    }
    OK(dhow_launch_values(NULL, kernel, r->work, count, values));
    dhow_tensor_info info = DHOW_INIT(dhow_tensor_info);
    OK(dhow_tensor_get_info(result, &info));
    OK(dhow_tensor_read(result, out, info.bytes));
    for (uint32_t i = 0; i < count; i++) dhow_tensor_release(tensors[i]);
}

static int compare(const run *r, const void *got, const void *want) {
    kind k = IN;
    int64_t n = 0;
    for (int i = 0; i < MOST_ARGS; i++) {
        if (r->args[i].kind == OUT || r->args[i].kind == OUT_I64)
            k = r->args[i].kind, n = r->args[i].n;
    }
    if (dtype_of(r, k) != DHOW_F32)
        return memcmp(got, want, (size_t)n * dhow_dtype_bytes(dtype_of(r, k))) != 0;
    const float *a = got, *b = want;
    for (int64_t i = 0; i < n; i++) {
        if (!(fabsf(a[i] - b[i]) <= 1e-5f + 1e-4f * fabsf(b[i]))) return 1; /* NaN differs */
    }
    return 0;
}

/* In groups of as many items, which is the form of graphics processors. */
static int run_one(const char *folder, dhow_device *device, dhow_device *cpu, const run *r,
                   const char *group_items) {
    static double got[4096], want[4096];
    char options[64];
    (void)snprintf(options, sizeof options, "%s -DK_WG=%s", r->types, group_items);
    dhow_module *module;
    dhow_kernel *kernel, *reference;
    char *text = read_text(folder, r->file);
    OK(dhow_module_build(
        device, &DHOW_INIT(dhow_module_source, .name = r->file, .text = text, .options = options),
        &module));
    OK(dhow_module_kernel(module, r->kernel, &kernel));
    OK(dhow_kernel_get(cpu, r->kernel, &reference));
    launch(device, kernel, r, got);
    launch(cpu, reference, r, want);
    int wrong = compare(r, got, want);
    (void)printf("%s in groups of %s: %s\n", r->kernel, group_items,
                 wrong ? "differs from the CPU" : "same as on the CPU");
    dhow_kernel_release(reference);
    dhow_kernel_release(kernel);
    dhow_module_release(module);
    free(text);
    return wrong;
}

/* "64": all of them in groups of 64 items; "matmul_f32=64": that one. */
static int run_all(const char *folder, dhow_device *device, dhow_device *cpu, const char *what) {
    const char *sign = strchr(what, '=');
    const size_t length = sign != NULL ? (size_t)(sign - what) : 0;
    int wrong = 0, ran = 0;
    for (size_t i = 0; i < sizeof k_runs / sizeof k_runs[0]; i++) {
        const run *r = &k_runs[i];
        if (length > 0 && (strlen(r->kernel) != length || strncmp(r->kernel, what, length) != 0))
            continue;
        wrong += run_one(folder, device, cpu, r, sign != NULL ? sign + 1 : what);
        ran++;
    }
    return wrong + (ran == 0);
}

static void run_planted(dhow_device *device) {
    dhow_module *module;
    dhow_kernel *kernel;
    dhow_tensor *y;
    OK(dhow_module_build(device,
                         &DHOW_INIT(dhow_module_source, .text = k_planted, .options = "-DK_WG=64"),
                         &module));
    OK(dhow_module_kernel(module, "planted", &kernel));
    OK(dhow_tensor_create(device, DHOW_I32, DHOW_SHAPE(64), &y));
    OK(dhow_launch(NULL, kernel, 64, y));
    OK(dhow_device_sync(device));
    dhow_tensor_release(y);
    dhow_kernel_release(kernel);
    dhow_module_release(module);
}

int main(int argc, char **argv) {
    dhow_context *context;
    dhow_device *device, *cpu;
    int wrong = 0;
    if (argc < 2) return 2;
    OK(dhow_context_create(NULL, &context));
    OK(dhow_device_get(context, "opencl:0", &device));
    OK(dhow_device_get(context, "cpu", &cpu));
    if (strcmp(argv[1], "planted") == 0) {
        run_planted(device);
    } else {
        for (int i = 2; i < argc; i++) wrong += run_all(argv[1], device, cpu, argv[i]);
    }
    dhow_context_release(context);
    return wrong > 0;
}
