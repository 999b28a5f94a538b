/* SPDX-License-Identifier: Apache-2.0
 *
 * Programs that do things in an order that only waits put right, on simulated devices that are slow
 * and late. Each is a function without a test framework, so that Criterion and a plain program
 * under ThreadSanitizer run the same ones.
 */
#ifndef TESTS_ORDER_ORDER_H_
#define TESTS_ORDER_ORDER_H_

#include "support.h"

typedef struct order_program {
    const char *name;
    conform_result (*fn)(conform_env *env); /* env->device is number 0; may release env->context */
    const char *faults;   /* DHOW_SIM_FAULTS, or NULL: then it runs in every setting */
    const char *settings; /* with faults: DHOW_SIM */
    const char *cuda_faults, *cuda_settings; /* the same on the fake CUDA runtime; NULL: there are
                                                no such faults */
} order_program;

extern const order_program order_programs[];
extern const uint32_t order_program_count;
extern const order_program order_fault_programs[];
extern const uint32_t order_fault_program_count;

/* Runs a program in each setting with several seeds; false when one failed, and `out` says which.
 */
bool order_run(const order_program *program, uint32_t seeds, char *out, size_t out_bytes);

/* ---- for programs ---- */

/* Programs are written for sim. With DHOW_ORDER_FAKECUDA, the path of the fake CUDA runtime, they
 * run on cuda: this says "cuda:1" for "sim:1", and the like. Good until the next but three. */
const char *order_text(const char *text);

enum { ORDER_COUNT = 40000 }; /* f32: more than what goes to a driver directly */

dhow_device *order_device(conform_env *env, const char *name);
conform_result order_full(conform_env *env, dhow_device *device, double value, dhow_tensor **out);
/* All elements have this value. */
conform_result order_expect(conform_env *env, dhow_tensor *tensor, double value, const char *what);
conform_result order_expect_memory(conform_env *env, const float *memory, double value,
                                   const char *what);
/* The seed of this run. */
uint64_t order_seed(void);

#endif /* TESTS_ORDER_ORDER_H_ */
