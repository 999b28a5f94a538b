/* SPDX-License-Identifier: Apache-2.0
 *
 * A plain program for ThreadSanitizer, over the fake CUDA runtime: programs that forget a wait must
 * be reported whatever the threads happened to do, and right ones must not. `order_check right`
 * ends with 0; `no-sync`, `no-wait` and `early-reuse` each leave out one wait.
 */
#include <cuda_runtime_api.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "fakecuda.h"

enum { N = 4096, ROUNDS = 20 };

#define OK(call)                                                               \
    do {                                                                       \
        const cudaError_t code_ = (call);                                      \
        if (code_ != cudaSuccess) {                                            \
            (void)fprintf(stderr, "%s: %s\n", #call, cudaGetErrorName(code_)); \
            exit(2);                                                           \
        }                                                                      \
    } while (0)

/* Long enough for all that was submitted: only the order of the program is judged, not its luck. */
static void pause_for_all(void) {
    const struct timespec pause = {0, 20000000};
    (void)nanosleep(&pause, NULL);
}

static void halve(void *data, unsigned char *const *memory) {
    float *values = (float *)(void *)memory[0];
    (void)data;
    for (int i = 0; i < N; i++) values[i] /= 2;
}

static int run(const char *mistake) {
    cudaStream_t copies, compute;
    cudaEvent_t arrived;
    float *values = NULL, *x = NULL;
    int wrong = 0;
    OK(cudaStreamCreateWithFlags(&copies, cudaStreamNonBlocking));
    OK(cudaStreamCreateWithFlags(&compute, cudaStreamNonBlocking));
    OK(cudaEventCreateWithFlags(&arrived, cudaEventDisableTiming));
    OK(cudaMalloc((void **)&x, N * sizeof *x));
    OK(cudaHostAlloc((void **)&values, N * sizeof *values, cudaHostAllocPortable));
    const fakecuda_range range = {x, N * sizeof *x, true};
    for (int round = 0; round < ROUNDS; round++) {
        for (int i = 0; i < N; i++) values[i] = (float)(i - round);
        OK(cudaMemcpyAsync(x, values, N * sizeof *x, cudaMemcpyHostToDevice, copies));
        if (strcmp(mistake, "early-reuse") == 0) {
            pause_for_all();
            values[0] = -1.0f;
        }
        OK(cudaEventRecord(arrived, copies));
        if (strcmp(mistake, "no-wait") == 0) {
            pause_for_all();
        } else {
            OK(cudaStreamWaitEvent(compute, arrived, 0));
        }
        OK(fakecuda_work(compute, halve, NULL, 0, &range, 1));
        OK(cudaMemcpyAsync(values, x, N * sizeof *x, cudaMemcpyDeviceToHost, compute));
        if (strcmp(mistake, "no-sync") == 0) {
            pause_for_all();
        } else {
            OK(cudaStreamSynchronize(compute));
        }
        for (int i = 0; i < N; i++) wrong += values[i] != (float)(i - round) / 2;
    }
    OK(cudaStreamSynchronize(copies));
    OK(cudaEventDestroy(arrived));
    OK(cudaStreamDestroy(copies));
    OK(cudaStreamDestroy(compute));
    OK(cudaFree(x));
    OK(cudaFreeHost(values));
    return wrong;
}

int main(int argc, char **argv) {
    char why[256];
    if (!fakecuda_reset("jitter_us=200", NULL, why, sizeof why)) return 2;
    OK(cudaSetDevice(0));
    const int wrong = run(argc > 1 ? argv[1] : "right");
    (void)printf("%d wrong\n", wrong);
    return wrong != 0;
}
