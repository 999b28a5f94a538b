/* SPDX-License-Identifier: Apache-2.0
 *
 * See raw_blas.h.
 */
#include "raw_blas.h"

#include <dlfcn.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

/* ---- OpenBLAS ---- */

typedef void (*sgemm_fn)(int order, int ta, int tb, int m, int n, int k, float alpha,
                         const float *a, int lda, const float *b, int ldb, float beta, float *c,
                         int ldc);

void raw_openblas(int64_t m, int64_t n, int64_t k, const float *a, const float *b, bool transposed,
                  float *c) {
    static sgemm_fn sgemm;
    enum { ROW_MAJOR = 101, NO = 111, YES = 112 };
    if (sgemm == NULL) {
        void *library = dlopen("libopenblas.so.0", RTLD_NOW | RTLD_LOCAL);
        if (library != NULL) *(void **)&sgemm = dlsym(library, "cblas_sgemm");
    }
    if (sgemm == NULL) exit(1);
    sgemm(ROW_MAJOR, NO, transposed ? YES : NO, (int)m, (int)n, (int)k, 1, a, (int)k, b,
          (int)(transposed ? k : n), 0, c, (int)n);
}

static bool exists_in(const char *folder) {
    char path[256];
    (void)snprintf(path, sizeof path, "%s/libopenblas.so.0", folder);
    return access(path, R_OK) == 0;
}

bool raw_openblas_found(void) {
    return exists_in("/usr/lib/x86_64-linux-gnu") || exists_in("/usr/lib/aarch64-linux-gnu") ||
           exists_in("/usr/lib");
}

/* ---- oneDNN ---- */

#ifdef BENCH_ONEDNN
#include <oneapi/dnnl/dnnl.h>

struct raw_onednn {
    dnnl_engine_t engine;
    dnnl_stream_t stream;
    dnnl_primitive_t primitive;
    dnnl_memory_t a, b, packed, c;
};

static void check(dnnl_status_t status, const char *what) {
    if (status == dnnl_success) return;
    (void)fprintf(stderr, "dhow-bench: raw oneDNN: %s: %d\n", what, status);
    exit(1);
}

#if DNNL_VERSION_MAJOR >= 3
typedef dnnl_memory_desc_t desc;
static void make_desc(desc *d, int64_t rows, int64_t cols, dnnl_format_tag_t tag) {
    const dnnl_dims_t dims = {rows, cols};
    check(dnnl_memory_desc_create_with_tag(d, 2, dims, dnnl_f32, tag), "memory desc");
}
static dnnl_memory_t make_memory(desc d, dnnl_engine_t engine, void *data) {
    dnnl_memory_t memory;
    check(dnnl_memory_create(&memory, d, engine, data), "memory");
    return memory;
}
static dnnl_primitive_desc_t make_matmul(raw_onednn *p, desc a, desc b, desc c) {
    dnnl_primitive_desc_t pd;
    check(dnnl_matmul_primitive_desc_create(&pd, p->engine, a, b, NULL, c, NULL), "matmul");
    return pd;
}
static desc weights_of(dnnl_primitive_desc_t pd) {
    return (desc)(uintptr_t)dnnl_primitive_desc_query_md(pd, dnnl_query_weights_md, 0);
}
#else
typedef dnnl_memory_desc_t desc;
static void make_desc(desc *d, int64_t rows, int64_t cols, dnnl_format_tag_t tag) {
    const dnnl_dims_t dims = {rows, cols};
    check(dnnl_memory_desc_init_by_tag(d, 2, dims, dnnl_f32, tag), "memory desc");
}
static dnnl_memory_t make_memory(desc d, dnnl_engine_t engine, void *data) {
    dnnl_memory_t memory;
    check(dnnl_memory_create(&memory, &d, engine, data), "memory");
    return memory;
}
static dnnl_primitive_desc_t make_matmul(raw_onednn *p, desc a, desc b, desc c) {
    dnnl_primitive_desc_t pd;
    dnnl_matmul_desc_t matmul;
    check(dnnl_matmul_desc_init(&matmul, &a, &b, NULL, &c), "matmul desc");
    check(dnnl_primitive_desc_create(&pd, &matmul, NULL, p->engine, NULL), "matmul");
    return pd;
}
static desc weights_of(dnnl_primitive_desc_t pd) {
    return *dnnl_primitive_desc_query_md(pd, dnnl_query_weights_md, 0);
}
#endif

static void pack(raw_onednn *p) {
    dnnl_primitive_desc_t pd;
    dnnl_primitive_t reorder;
#if DNNL_VERSION_MAJOR >= 3
    const_dnnl_memory_desc_t from, to;
#else
    const dnnl_memory_desc_t *from, *to;
#endif
    check(dnnl_memory_get_memory_desc(p->b, &from), "memory desc");
    check(dnnl_memory_get_memory_desc(p->packed, &to), "memory desc");
    check(dnnl_reorder_primitive_desc_create(&pd, from, p->engine, to, p->engine, NULL), "reorder");
    check(dnnl_primitive_create(&reorder, pd), "reorder");
    const dnnl_exec_arg_t args[] = {{DNNL_ARG_FROM, p->b}, {DNNL_ARG_TO, p->packed}};
    check(dnnl_primitive_execute(reorder, p->stream, 2, args), "reorder");
    check(dnnl_stream_wait(p->stream), "wait");
    dnnl_primitive_destroy(reorder);
    dnnl_primitive_desc_destroy(pd);
}

raw_onednn *raw_onednn_make(int64_t m, int64_t n, int64_t k, float *a, float *b, bool transposed,
                            float *c) {
    raw_onednn *p = calloc(1, sizeof *p);
    desc da, db, any, dc;
    if (p == NULL) return NULL;
    check(dnnl_engine_create(&p->engine, dnnl_cpu, 0), "engine");
    check(dnnl_stream_create(&p->stream, p->engine, dnnl_stream_default_flags), "stream");
    make_desc(&da, m, k, dnnl_ab);
    make_desc(&db, k, n, transposed ? dnnl_ba : dnnl_ab);
    make_desc(&any, k, n, dnnl_format_tag_any);
    make_desc(&dc, m, n, dnnl_ab);
    dnnl_primitive_desc_t pd = make_matmul(p, da, any, dc);
    check(dnnl_primitive_create(&p->primitive, pd), "matmul");
    p->a = make_memory(da, p->engine, a);
    p->b = make_memory(db, p->engine, b);
    p->packed = make_memory(weights_of(pd), p->engine, DNNL_MEMORY_ALLOCATE);
    p->c = make_memory(dc, p->engine, c);
    dnnl_primitive_desc_destroy(pd);
    pack(p);
    return p;
}

void raw_onednn_run(raw_onednn *p) {
    const dnnl_exec_arg_t args[] = {
        {DNNL_ARG_SRC, p->a}, {DNNL_ARG_WEIGHTS, p->packed}, {DNNL_ARG_DST, p->c}};
    check(dnnl_primitive_execute(p->primitive, p->stream, 3, args), "matmul");
    check(dnnl_stream_wait(p->stream), "wait");
}

void raw_onednn_end(raw_onednn *p) {
    if (p == NULL) return;
    dnnl_primitive_destroy(p->primitive);
    dnnl_memory_destroy(p->a);
    dnnl_memory_destroy(p->b);
    dnnl_memory_destroy(p->packed);
    dnnl_memory_destroy(p->c);
    dnnl_stream_destroy(p->stream);
    dnnl_engine_destroy(p->engine);
    free(p);
}
#else
raw_onednn *raw_onednn_make(int64_t m, int64_t n, int64_t k, float *a, float *b, bool transposed,
                            float *c) {
    (void)m, (void)n, (void)k, (void)a, (void)b, (void)transposed, (void)c;
    return NULL;
}
void raw_onednn_run(raw_onednn *p) { (void)p; }
void raw_onednn_end(raw_onednn *p) { (void)p; }
#endif
