/* SPDX-License-Identifier: Apache-2.0
 *
 * The processes that serve a folder with model.onnx: dhow and its peers. What is needed beside dhow
 * comes from scripts/bench by these variables; a peer without its own is left out:
 *
 *     BENCH_NETWORKS      what make_models.py wrote
 *     BENCH_ONNXRUNTIME   ONNX Runtime's library
 *     BENCH_OPENVINO      OpenVINO's library of C functions, libopenvino_c.so
 *     BENCH_MNN_PYTHON    a Python that has MNN and onnx
 *     BENCH_NCNN_PYTHON   a Python that has ncnn, pnnx and onnx
 *     BENCH_TORCH_PYTHON  a Python that has PyTorch
 *     DHOW_MODELS_DIR     folders with model.onnx, in0.npy ...
 */
#ifndef DHOW_BENCH_SERVERS_H_
#define DHOW_BENCH_SERVERS_H_

#include "process.h"

/* The peers that read any ONNX file. */
enum {
    SERVERS_ONNXRUNTIME,
    SERVERS_OPENVINO,
    SERVERS_MNN,
    SERVERS_NCNN,
    SERVERS_FOR_ANY,
};

typedef struct servers {
    char folder[512], threads[2][4], env[2][32];
    const char *onnxruntime, *openvino, *mnn, *ncnn, *torch; /* NULL: not to be had */
} servers;

void servers_find(servers *t);
/* parent/name becomes the folder; 0 where that has no model. */
int servers_set_folder(servers *t, const char *parent, const char *name);

/* Each process points into `t`; threads are 1 or 2. One that is not to be had has no arguments. */
process servers_dhow(const servers *t, const char *device, const char *precision, int threads);
process servers_onnxruntime(const servers *t, int threads);
process servers_ggml(const servers *t, int threads);
/* weights of 4 bits in the order that ggml has for the processor */
process servers_ggml_repacked(const servers *t, int threads);
/* precision: "f32", "compiled" or "bf16" */
process servers_torch(const servers *t, const char *precision, int threads);
void servers_for_any(const servers *t, int threads, process peers[SERVERS_FOR_ANY]);

#endif /* DHOW_BENCH_SERVERS_H_ */
