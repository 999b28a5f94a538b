/* SPDX-License-Identifier: Apache-2.0
 *
 * dhow-bench: what it measures on processors and OpenCL devices.
 */
#include "bench.h"

void bench_copies(bench *b);
void bench_launches(bench *b);
void bench_matmul(bench *b);
void bench_rows(bench *b);
void bench_models(bench *b);
void bench_drivers(bench *b);
void bench_moving(bench *b);
void bench_busy(bench *b);
void bench_threads(bench *b);
void bench_training(bench *b);

const char bench_default_device[] = "cpu";
const bench_group bench_groups[] = {{"copies", bench_copies},   {"launches", bench_launches},
                                    {"matmul", bench_matmul},   {"rows", bench_rows},
                                    {"models", bench_models},   {"drivers", bench_drivers},
                                    {"moving", bench_moving},   {"busy", bench_busy},
                                    {"threads", bench_threads}, {"training", bench_training}};
const size_t bench_group_count = sizeof bench_groups / sizeof bench_groups[0];
