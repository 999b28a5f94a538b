/* SPDX-License-Identifier: Apache-2.0
 *
 * The least that a program can ask CUDA, for the start-up benchmark.
 */
#include <cuda_runtime_api.h>

int main(void) {
    int count = 0;
    return cudaGetDeviceCount(&count) != cudaSuccess;
}
