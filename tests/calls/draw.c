/* SPDX-License-Identifier: Apache-2.0 */
#include "draw.h"

#include <math.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { ROOM = 64, ITEMS = 16, BYTES = 1 << 16, SCRATCH = 1 << 20 };

static _Thread_local uint64_t g_state;
static _Thread_local char g_told[4096];
static _Thread_local _Alignas(64) unsigned char g_scratch[SCRATCH];
static _Thread_local size_t g_used;
static _Thread_local _Alignas(64) unsigned char g_bytes[BYTES];
static const char *g_folder;
static void *const k_mark = (void *)0x5eed;

typedef struct pool {
    void *handle[ROOM];
    uint32_t count;
} pool;

/* Of this thread, and of all: what is shared lives to the end and is given to calls of any thread.
 */
static _Thread_local pool g_pool[KINDS];
static pool g_shared[KINDS];
static _Thread_local int g_sharing;

/* Tensors that fit each other, on each device. Most calls draw from one family on one device. */
enum { MEMBERS = 6, FAMILIES = 5, DEVICES = 8 };
static const struct member {
    dhow_dtype dtype;
    int32_t rank;
    int64_t shape[4];
} k_families[FAMILIES][MEMBERS] = {{{DHOW_F32, 2, {2, 4}},
                                    {DHOW_F32, 2, {4, 3}},
                                    {DHOW_F32, 2, {2, 3}},
                                    {DHOW_F32, 2, {3, 4}},
                                    {DHOW_F32, 1, {4}},
                                    {DHOW_I64, 1, {2}}},
                                   {{DHOW_F32, 4, {1, 3, 8, 8}},
                                    {DHOW_F32, 4, {4, 3, 3, 3}},
                                    {DHOW_F32, 4, {1, 4, 6, 6}},
                                    {DHOW_F32, 1, {3}},
                                    {DHOW_F32, 1, {4}},
                                    {DHOW_F32, 4, {1, 3, 4, 4}}},
                                   {{DHOW_F32, 3, {1, 3, 8}},
                                    {DHOW_F32, 3, {4, 3, 3}},
                                    {DHOW_F32, 3, {1, 4, 6}},
                                    {DHOW_F32, 3, {1, 3, 4}},
                                    {DHOW_F32, 1, {4}},
                                    {DHOW_F32, 1, {3}}},
                                   {{DHOW_F32, 2, {2, 4}},
                                    {DHOW_BOOL, 2, {2, 4}},
                                    {DHOW_I64, 2, {2, 4}},
                                    {DHOW_I64, 2, {2, 1}},
                                    {DHOW_F16, 2, {2, 4}},
                                    {DHOW_I64, 1, {4}}},
                                   /* of no elements */
                                   {{DHOW_F32, 2, {0, 4}},
                                    {DHOW_F32, 2, {4, 0}},
                                    {DHOW_F32, 1, {0}},
                                    {DHOW_I64, 1, {0}},
                                    {DHOW_F32, 4, {1, 3, 0, 8}},
                                    {DHOW_F32, 2, {0, 3}}}};
static _Thread_local dhow_tensor *g_stock[DEVICES][FAMILIES][MEMBERS];
static _Thread_local uint64_t g_family, g_device;
static _Thread_local uint64_t g_density; /* of fields given: one of so many */

static const char *const k_kinds[KINDS] = {
    "context", "device",      "stream",  "event",  "graph", "tensor", "module",   "kernel",
    "model",   "safetensors", "dataset", "loader", "sink",  "datum",  "parallel", "trainer"};

/* ---- one call ---- */

void draw_begin(uint64_t seed, const char *folder) {
    g_state = seed * UINT64_C(0x9E3779B97F4A7C15) + 1;
    g_folder = folder;
    for (uint32_t i = 0; i < g_shared[DEVICE].count; i++) keep(DEVICE, g_shared[DEVICE].handle[i]);
}

void draw_sharing(int on) { g_sharing = on; }

void draw_next(void) {
    static const uint64_t densities[] = {2, 6, 30};
    g_used = 0;
    g_told[0] = '\0';
    g_family = draw_below(FAMILIES);
    g_device = draw_below(g_pool[DEVICE].count);
    g_density = densities[draw_below(3)];
}

const char *draw_told(void) { return g_told; }

void draw_tell(const char *format, ...) {
    const size_t used = strlen(g_told);
    va_list arguments;
    va_start(arguments, format);
    vsnprintf(g_told + used, sizeof g_told - used, format, arguments);
    va_end(arguments);
}

/* splitmix64 */
uint64_t draw_below(uint64_t end) {
    uint64_t z = g_state += UINT64_C(0x9E3779B97F4A7C15);
    z = (z ^ (z >> 30)) * UINT64_C(0xBF58476D1CE4E5B9);
    z = (z ^ (z >> 27)) * UINT64_C(0x94D049BB133111EB);
    return (z ^ (z >> 31)) % end;
}

void *scratch(size_t bytes) {
    const size_t at = (g_used + 63) / 64 * 64;
    if (at + bytes > SCRATCH) {
        fprintf(stderr, "calls: scratch memory is full\n");
        exit(2);
    }
    g_used = at + bytes;
    return memset(g_scratch + at, 0, bytes);
}

int absent(void) { return draw_below(24) == 0; }
int given(void) { return draw_below(g_density) == 0; }

/* ---- handles ---- */

static void release(handle_kind of, void *handle) {
    switch (of) {
        case STREAM:
            dhow_stream_release(handle);
            break;
        case EVENT:
            dhow_event_release(handle);
            break;
        case GRAPH:
            dhow_graph_release(handle);
            break;
        case TENSOR:
            dhow_tensor_release(handle);
            break;
        case MODULE:
            dhow_module_release(handle);
            break;
        case KERNEL:
            dhow_kernel_release(handle);
            break;
        case MODEL:
            dhow_model_release(handle);
            break;
        case SAFETENSORS:
            dhow_safetensors_close(handle);
            break;
        case DATASET:
            dhow_dataset_release(handle);
            break;
        case LOADER:
            dhow_loader_release(handle);
            break;
        case SINK:
            dhow_sink_release(handle);
            break;
        case DATUM:
            dhow_datum_release(handle);
            break;
        case PARALLEL:
            dhow_parallel_release(handle);
            break;
        case TRAINER:
            dhow_trainer_release(handle);
            break;
        case CONTEXT:
            dhow_context_release(handle);
            break;
        case DEVICE:
        case KINDS:
            break;
    }
}

void keep(handle_kind of, void *handle) {
    if (g_pool[of].count == ROOM) {
        const uint32_t at = (uint32_t)draw_below(ROOM);
        release(of, g_pool[of].handle[at]);
        g_pool[of].handle[at] = handle;
        return;
    }
    g_pool[of].handle[g_pool[of].count++] = handle;
}

void *taken(handle_kind of) {
    if (absent() || g_pool[of].count < ROOM / 4 || of == CONTEXT) return NULL;
    const uint32_t at = (uint32_t)draw_below(g_pool[of].count);
    void *handle = g_pool[of].handle[at];
    g_pool[of].handle[at] = g_pool[of].handle[--g_pool[of].count];
    draw_tell("%s %u, ", k_kinds[of], at);
    return handle;
}

static void tell_tensor(dhow_tensor *tensor) {
    dhow_tensor_info info = DHOW_INIT(dhow_tensor_info);
    if (dhow_tensor_get_info(tensor, &info) != DHOW_OK) return;
    draw_tell(" %s of %s [", dhow_dtype_name(info.dtype), dhow_device_name(info.device));
    for (int32_t i = 0; i < info.rank; i++)
        draw_tell("%s%lld", i == 0 ? "" : ", ", (long long)info.shape[i]);
    draw_tell("]%s", info.contiguous ? "" : " strided");
}

dhow_device *draw_device(void) { return g_pool[DEVICE].handle[g_device]; }

dhow_status restock(void) {
    const uint64_t at = draw_below(MEMBERS);
    const struct member *m = &k_families[g_family][at];
    dhow_tensor **place = &g_stock[g_device][g_family][at], *tensor;
    const dhow_status s =
        dhow_tensor_uniform(draw_device(), m->dtype, m->rank, m->shape, 0, 2, 1, &tensor);
    if (s != DHOW_OK) return s;
    dhow_tensor_release(*place);
    *place = tensor;
    return DHOW_OK;
}

static void *one(handle_kind of) {
    const int stocked = of == TENSOR && draw_below(20) > 0;
    const int shared = of == CONTEXT || (g_sharing && g_shared[of].count > 0 && draw_below(3) == 0);
    if ((!shared && !stocked && g_pool[of].count == 0) || absent()) {
        draw_tell("NULL, ");
        return NULL;
    }
    const uint32_t at = (uint32_t)draw_below(shared    ? g_shared[of].count
                                             : stocked ? MEMBERS
                                                       : g_pool[of].count);
    void *handle = shared    ? g_shared[of].handle[at]
                   : stocked ? g_stock[g_device][g_family][at]
                             : g_pool[of].handle[at];
    draw_tell("%s%s %u", shared ? "shared " : "", k_kinds[of], at);
    if (of == TENSOR && handle != NULL) tell_tensor(handle);
    draw_tell(", ");
    return handle;
}

void *draw_handle(handle_kind of) {
    /* Streams may always be left out, and most are of another device. */
    if (of == STREAM && draw_below(6) > 0) {
        draw_tell("NULL, ");
        return NULL;
    }
    return one(of);
}

void *draw_tensor(const char *name) {
    static const char *const places[MEMBERS] = {
        "x a", "weight w b index", "y c", "running_mean running_var", "bias gamma beta", ""};
    const int placed = draw_below(3) > 0;
    for (int i = 0; placed && i < MEMBERS; i++) {
        /* Results of many functions have the shape of x. */
        const int like_x = i == 0 && strcmp(name, "y") == 0 && draw_below(2) == 0;
        if ((strstr(places[i], name) == NULL && !like_x) || g_stock[g_device][g_family][i] == NULL)
            continue;
        draw_tell("%s", name);
        tell_tensor(g_stock[g_device][g_family][i]);
        draw_tell(", ");
        return g_stock[g_device][g_family][i];
    }
    return one(TENSOR);
}

void **draw_handles(handle_kind of) {
    if (absent()) {
        draw_tell("NULL, ");
        return NULL;
    }
    void **handles = scratch(ITEMS * sizeof *handles);
    draw_tell("{");
    for (int i = 0; i < ITEMS; i++) handles[i] = i < 4 ? one(of) : NULL;
    draw_tell("}, ");
    return handles;
}

void share_all(void) {
    for (int i = 0; i < DEVICES * FAMILIES * MEMBERS; i++) {
        dhow_tensor **tensor = &((dhow_tensor **)g_stock)[i];
        if (*tensor != NULL && g_pool[TENSOR].count < ROOM)
            keep(TENSOR, *tensor);
        else
            dhow_tensor_release(*tensor);
        *tensor = NULL;
    }
    memcpy(g_shared, g_pool, sizeof g_shared);
    memset(g_pool, 0, sizeof g_pool);
}

static void empty(pool *pools) {
    for (int of = KINDS - 1; of >= 0; of--)
        while (pools[of].count > 0) release((handle_kind)of, pools[of].handle[--pools[of].count]);
}

void release_all(void) {
    for (int i = 0; i < DEVICES * FAMILIES * MEMBERS; i++)
        dhow_tensor_release(((dhow_tensor **)g_stock)[i]);
    empty(g_pool);
}

void release_shared(void) { empty(g_shared); }

/* ---- results ---- */

void **new_outputs(void) {
    if (absent()) {
        draw_tell("out NULL, ");
        return NULL;
    }
    void **outputs = scratch(ITEMS * sizeof *outputs);
    for (int i = 0; i < ITEMS; i++) outputs[i] = k_mark;
    draw_tell("out, ");
    return outputs;
}

void *draw_record(size_t bytes) {
    if (absent()) {
        draw_tell("out NULL, ");
        return NULL;
    }
    uint32_t *record = scratch(ITEMS * bytes);
    draw_tell("out, ");
    record[0] = draw_size(bytes);
    return record;
}

void check_outputs(handle_kind of, void **outputs, dhow_status status, int owned) {
    for (int i = 0; outputs != NULL && i < ITEMS; i++) {
        if (outputs[i] == k_mark || outputs[i] == NULL) continue;
        if (status != DHOW_OK) {
            fprintf(stderr, "calls: an output that is no handle stays behind an error: %s\n",
                    g_told);
            abort();
        }
        if (owned) keep(of, outputs[i]);
    }
}

void broken(const char *promise) {
    fprintf(stderr, "calls: behind an error %s, against the comment: %s\n    %s\n", promise, g_told,
            dhow_last_error());
    abort();
}

void check_null(void *const *outputs) {
    if (outputs != NULL && outputs[0] != NULL) broken("an output is not NULL");
}

void spoil(void *record, size_t bytes) {
    if (record != NULL) memset((char *)record + sizeof(uint32_t), 0x5a, bytes - sizeof(uint32_t));
}

/* Of a record whose size is not that of its type nothing is known. */
void check_cleared(const void *record, size_t bytes) {
    uint32_t size;
    if (record == NULL) return;
    memcpy(&size, record, sizeof size);
    for (size_t i = sizeof size; size == bytes && i < bytes; i++)
        if (((const char *)record)[i] != 0) broken("a record is not cleared");
}

void touch(const char *text) {
    if (text != NULL && strlen(text) > 100000000) abort();
}

/* ---- numbers ---- */

uint32_t draw_size(size_t bytes) {
    static const uint32_t odd[] = {0, 1, 3, 4, 8};
    return draw_below(32) == 0 ? odd[draw_below(5)] : (uint32_t)bytes;
}

static int is(const char *name, const char *part) { return strstr(name, part) != NULL; }

static int64_t edge(void) {
    static const int64_t edges[] = {
        INT64_MIN,        INT64_MIN + 1, INT32_MIN,     -1,       INT32_MAX, (int64_t)INT32_MAX + 1,
        (int64_t)1 << 40, INT64_MAX / 2, INT64_MAX - 1, INT64_MAX};
    return edges[draw_below(10)];
}

static int64_t whole(const char *name) {
    if (is(name, "count") || is(name, "columns"))
        return (int64_t)draw_below(draw_below(4) == 0 ? 13 : 4);
    if (is(name, "rank") && !is(name, "rate"))
        return (int64_t)draw_below(draw_below(8) == 0 ? 12 : 4) - (draw_below(64) == 0);
    if (is(name, "bytes"))
        return draw_below(2) ? (int64_t)(4 * draw_below(33)) : (int64_t)draw_below(BYTES + 1);
    if (is(name, "dim") || is(name, "first") || is(name, "last"))
        return (int64_t)draw_below(draw_below(8) == 0 ? 20 : 5) - 2;
    if (draw_below(24) == 0) return edge();
    if (strcmp(name, "size") == 0) return (int64_t)draw_below(4); /* of a process group */
    if (is(name, "kernel")) return 1 + (int64_t)draw_below(3);
    if (is(name, "stride") || is(name, "dilation") || is(name, "pad") || is(name, "groups"))
        return (int64_t)draw_below(3);
    if (is(name, "channels") || is(name, "features") || is(name, "hidden"))
        return 3 + (int64_t)draw_below(2);
    return (int64_t)draw_below(draw_below(8) == 0 ? 70 : 6) - (draw_below(8) == 0);
}

/* Numbers of threads and of things made ahead are costly, not wrong. */
static int64_t bounded(const char *name, int64_t value) {
    if ((is(name, "worker") || is(name, "prefetch") || is(name, "threads")) && value > 4) return 4;
    if (is(name, "capacity") && value > 1 << 16) return 1 << 16;
    if (is(name, "limit_bytes")) return (int64_t)1 << (20 + draw_below(6));
    return value;
}

int64_t draw_i64(const char *name) {
    const int64_t value = bounded(name, whole(name));
    draw_tell("%s=%lld, ", name, (long long)value);
    return value;
}

int32_t draw_i32(const char *name) { return (int32_t)draw_i64(name); }
uint32_t draw_u32(const char *name) { return (uint32_t)draw_i64(name); }
uint64_t draw_u64(const char *name) { return (uint64_t)draw_i64(name); }

static double real(void) {
    static const double odd[] = {NAN, INFINITY, -INFINITY, 1e308, -1e300, 1e-320, -1, 0};
    return draw_below(8) == 0 ? odd[draw_below(8)] : (double)draw_below(17) / 16;
}

double draw_f64(const char *name) {
    const double value = real();
    draw_tell("%s=%g, ", name, value);
    return value;
}

float draw_f32(const char *name) { return (float)draw_f64(name); }

int draw_enumerator(void) {
    const int value = draw_below(24) == 0  ? (int)edge()
                      : draw_below(4) == 0 ? (int)draw_below(16)
                                           : (int)draw_below(3);
    draw_tell("%d, ", value);
    return value;
}

dhow_model_value draw_value(void) {
    const dhow_model_value value =
        draw_below(24) == 0 ? (dhow_model_value)edge() : (dhow_model_value)draw_below(12);
    draw_tell("value %d, ", (int)value);
    return value;
}

dhow_scalar draw_scalar(void) {
    dhow_scalar s = dhow_scalar_f64(real());
    switch (draw_below(8)) {
        case 0:
            s = dhow_scalar_i64(edge());
            break;
        case 1:
            s = dhow_scalar_u64((uint64_t)edge());
            break;
        case 2:
            s = dhow_scalar_i64((int64_t)draw_below(8));
            break;
        case 3:
            s.kind = (dhow_dtype)draw_below(20);
            break;
        default:
            break;
    }
    draw_tell("scalar, ");
    return s;
}

/* ---- texts ---- */

static const char *path(void) {
    static const char *const names[] = {"a.npy",  "b.npy",  "a.safetensors", "b.safetensors",
                                        "a.dhow", "a.json", "missing/x",     "",
                                        "a.onnx", "b.onnx", "c.onnx"};
    char *text = scratch(256);
    snprintf(text, 256, "%s/%s", g_folder, names[draw_below(11)]);
    return text;
}

static const char *words(const char *name) {
    static const char *const specs[] = {"cpu", "sim:0", "sim:1",  "auto", "cpu,sim",
                                        "",    ":",     "sim:99", "cuda"};
    static const char *const names[] = {"x",    "y",      "w",        "w.weight", "w.bias", "",
                                        "same", "%s%n%d", "\xff\xfe", "0",        "*.bias"};
    static const char *const texts[] = {
        "KERNEL(same, (IN(f32,x), OUT(f32,y), VAL(i64,n))) {GRID_FOR(i, n - n) y[i] = x[i];}",
        "KERNEL(bad, (IN(f32,x)) { }", ""};
    if (is(name, "path") || is(name, "dir")) return path();
    if (is(name, "spec") || is(name, "device")) return specs[draw_below(9)];
    if (is(name, "text")) return texts[draw_below(3)];
    if (is(name, "options") || is(name, "signatures"))
        return draw_below(4) == 0 ? names[draw_below(11)] : NULL;
    if (draw_below(32) == 0) {
        char *text = scratch(2000);
        memset(text, 'n', 1999);
        return text;
    }
    return names[draw_below(11)];
}

const char *draw_text(const char *name) {
    const char *text = absent() ? NULL : words(name);
    draw_tell("%s=%s%.40s%s, ", name, text ? "'" : "", text ? text : "NULL", text ? "'" : "");
    return text;
}

const char *const *draw_texts(const char *name) {
    if (absent()) {
        draw_tell("NULL, ");
        return NULL;
    }
    const char **texts = scratch(ITEMS * sizeof *texts);
    for (int i = 0; i < ITEMS; i++) texts[i] = i < 4 ? draw_text(name) : words(name);
    return texts;
}

/* ---- arrays ---- */

/* Wrong, or more than any machine has: memory that it may have is asked for by nobody. */
static int64_t extent(void) {
    static const int64_t extents[] = {INT64_MIN,        INT64_MIN + 1, INT32_MIN,     -2,
                                      (int64_t)1 << 45, INT64_MAX / 2, INT64_MAX - 1, INT64_MAX};
    return extents[draw_below(8)];
}

int64_t *draw_i64s(int small) {
    static const int64_t common[][4] = {{2, 4, 1, 1}, {4, 4, 1, 1}, {4, 3, 2, 1},
                                        {1, 3, 8, 8}, {4, 1, 1, 1}, {0, 1, 2, 3}};
    if (absent()) {
        draw_tell("NULL, ");
        return NULL;
    }
    int64_t *items = scratch(ITEMS * sizeof *items);
    const int64_t *from = draw_below(3) ? common[draw_below(6)] : NULL;
    draw_tell("{");
    for (int i = 0; i < ITEMS; i++) {
        items[i] = from && i < 4         ? from[i]
                   : draw_below(16) == 0 ? -1
                                         : (int64_t)draw_below(i < 5 ? 5 : 2);
        if (!small && draw_below(160) == 0) items[i] = extent();
        if (small && items[i] > 3) items[i] = 3;
        if (i < 6) draw_tell("%lld ", (long long)items[i]);
    }
    draw_tell("}, ");
    return items;
}

int32_t *draw_i32s(void) {
    if (absent()) {
        draw_tell("NULL, ");
        return NULL;
    }
    int32_t *items = scratch(ITEMS * sizeof *items);
    for (int i = 0; i < ITEMS; i++)
        items[i] = draw_below(8) == 0 ? (int32_t)whole("dim") : (int32_t)draw_below(3);
    draw_tell("{%d %d %d}, ", items[0], items[1], items[2]);
    return items;
}

double *draw_f64s(void) {
    if (absent()) return NULL;
    double *items = scratch(ITEMS * sizeof *items);
    for (int i = 0; i < ITEMS; i++) items[i] = real();
    return items;
}

dhow_model_value *draw_values(void) {
    if (absent()) return NULL;
    dhow_model_value *items = scratch(ITEMS * sizeof *items);
    for (int i = 0; i < ITEMS; i++) items[i] = draw_value();
    return items;
}

void *draw_bytes(void) {
    if (absent()) {
        draw_tell("NULL, ");
        return NULL;
    }
    draw_tell("bytes, ");
    return g_bytes;
}
