/* SPDX-License-Identifier: Apache-2.0
 *
 * See servers.h.
 */
#include "servers.h"

#include <stdlib.h>
#include <string.h>

#include "folders.h"

void servers_find(servers *t) {
    *t = (servers){.threads = {"1", "2"},
                   .env = {"DHOW_NUM_THREADS=1", "DHOW_NUM_THREADS=2"},
                   .onnxruntime = getenv("BENCH_ONNXRUNTIME"),
                   .openvino = getenv("BENCH_OPENVINO"),
                   .mnn = getenv("BENCH_MNN_PYTHON"),
                   .ncnn = getenv("BENCH_NCNN_PYTHON"),
                   .torch = getenv("BENCH_TORCH_PYTHON")};
}

int servers_set_folder(servers *t, const char *parent, const char *name) {
    return folders_join(t->folder, sizeof t->folder, parent, name);
}

process servers_dhow(const servers *t, const char *device, const char *precision, int threads) {
    return (process){.name = "dhow",
                     .args = {BENCH_SERVE, t->folder, device, precision},
                     .env = {t->env[threads - 1]}};
}

/* `with` is the library or the Python that the program takes its peer from. */
static process serving(const servers *t, const char *name, const char *program, const char *with,
                       int threads) {
    process p = {.name = name};
    if (with != NULL)
        p = (process){.name = name, .args = {program, with, t->folder, t->threads[threads - 1]}};
    return p;
}

static process serving_python(const servers *t, const char *name, const char *python,
                              const char *server, int threads) {
    process p = {.name = name};
    if (python != NULL)
        p = (process){.name = name, .args = {python, server, t->folder, t->threads[threads - 1]}};
    return p;
}

process servers_onnxruntime(const servers *t, int threads) {
    return serving(t, "ONNX Runtime", BENCH_SERVE_ONNXRUNTIME, t->onnxruntime, threads);
}

void servers_for_any(const servers *t, int threads, process peers[SERVERS_FOR_ANY]) {
    peers[SERVERS_ONNXRUNTIME] = servers_onnxruntime(t, threads);
    peers[SERVERS_OPENVINO] = serving(t, "OpenVINO", BENCH_SERVE_OPENVINO, t->openvino, threads);
    peers[SERVERS_MNN] = serving_python(t, "MNN", t->mnn, BENCH_SOURCE "/serve_mnn.py", threads);
    peers[SERVERS_NCNN] =
        serving_python(t, "ncnn", t->ncnn, BENCH_SOURCE "/serve_ncnn.py", threads);
}

process servers_ggml(const servers *t, int threads) {
#ifdef BENCH_SERVE_GGML
    return (process){.name = "ggml",
                     .args = {BENCH_SERVE_GGML, t->folder, t->threads[threads - 1]}};
#else
    (void)t, (void)threads;
    return (process){.name = "ggml"};
#endif
}

process servers_ggml_repacked(const servers *t, int threads) {
    process p = servers_ggml(t, threads);
    p.name = "ggml, repacked";
    if (p.args[0] != NULL) p.args[3] = "repacked";
    return p;
}

process servers_torch(const servers *t, const char *precision, int threads) {
    process p = {.name = strcmp(precision, "f32") == 0    ? "PyTorch"
                         : strcmp(precision, "bf16") == 0 ? "PyTorch, bf16"
                                                          : "PyTorch, compiled"};
    if (t->torch != NULL) {
        const char *args[] = {t->torch, BENCH_SOURCE "/serve_torch.py", t->folder,
                              t->threads[threads - 1], precision};
        memcpy(p.args, args, sizeof args);
    }
    return p;
}
