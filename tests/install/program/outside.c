/* SPDX-License-Identifier: Apache-2.0
 *
 * A program outside of dhow's source tree: it uses the installed library, and the outside plugin.
 */
#include <dhow/dhow.h>
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
#define EXPECT(condition)                                                                         \
    do {                                                                                          \
        if (!(condition)) {                                                                       \
            (void)fprintf(stderr, "line %d: %s (%s)\n", __LINE__, #condition, dhow_last_error()); \
            exit(1);                                                                              \
        }                                                                                         \
    } while (0)

#ifdef OUTSIDE_KERNELS
#include "doubled_kernels.h"

/* A kernel of the program's own, compiled with it: no compiler is needed. */
static void use_own_kernel(dhow_device *cpu) {
    static const float data[3] = {1, 2, 3};
    float got[3];
    dhow_module *module;
    dhow_kernel *doubled;
    dhow_tensor *x, *y;
    (void)setenv("PATH", "/nowhere", 1);
    (void)unsetenv("CC");
    OK(dhow_module_build(cpu, &doubled_kernels, &module));
    OK(dhow_module_kernel(module, "doubled", &doubled));
    OK(dhow_tensor_from_data(cpu, DHOW_F32, DHOW_SHAPE(3), data, &x));
    OK(dhow_tensor_create(cpu, DHOW_F32, DHOW_SHAPE(3), &y));
    OK(dhow_launch(NULL, doubled, 3, x, y, 3));
    OK(dhow_tensor_read(y, got, sizeof got));
    EXPECT(got[0] == 2 && got[2] == 6);
    dhow_tensor_release(x);
    dhow_tensor_release(y);
    dhow_kernel_release(doubled);
    dhow_module_release(module);
}
#endif

enum { LARGE = 5 << 20 }; /* floats: more than the ring of staged copies */

int main(void) {
    static const float data[6] = {1, -2, 3, -4, 5, -6};
    float got[6];
    dhow_context *context;
    dhow_device *cpu, *toy;
    dhow_tensor *x, *turned, *flat, *y, *host, *there, *back;
    OK(dhow_context_create(NULL, &context));
    OK(dhow_device_get(context, "toy:0", &toy));
    OK(dhow_device_get(context, "cpu", &cpu));

    OK(dhow_tensor_from_data(toy, DHOW_F32, DHOW_SHAPE(2, 3), data, &x));
    OK(dhow_tensor_transpose(x, 0, 1, &turned));
    OK(dhow_tensor_contiguous(NULL, turned, &flat)); /* no kernel: copied element by element */
    OK(dhow_tensor_read(flat, got, sizeof got));
    EXPECT(got[0] == 1 && got[1] == -4 && got[2] == -2 && got[5] == -6);
    OK(dhow_tensor_to(turned, cpu, &y));
    OK(dhow_relu(NULL, y, y));
    OK(dhow_tensor_read(y, got, sizeof got));
    EXPECT(got[0] == 1 && got[1] == 0 && got[3] == 5 && got[4] == 3);
    OK(dhow_fill(NULL, x, 4));
    OK(dhow_tensor_read(x, got, sizeof got));
    EXPECT(got[0] == 4 && got[5] == 4);

    EXPECT(dhow_relu(NULL, x, x) == DHOW_UNSUPPORTED);
    EXPECT(strstr(dhow_last_error(), "relu_f32") != NULL);
    EXPECT(strstr(dhow_last_error(), "toy:0") != NULL);

    OK(dhow_tensor_full(cpu, DHOW_F32, DHOW_SHAPE(LARGE), 7, &host));
    OK(dhow_tensor_to(host, toy, &there));
    OK(dhow_tensor_to(there, cpu, &back));
    void *memory;
    OK(dhow_tensor_host_ptr(back, &memory));
    EXPECT(((float *)memory)[0] == 7 && ((float *)memory)[LARGE - 1] == 7);

#ifdef OUTSIDE_KERNELS
    use_own_kernel(cpu);
#endif
    dhow_tensor *const all[] = {x, turned, flat, y, host, there, back};
    for (size_t i = 0; i < sizeof all / sizeof all[0]; i++) dhow_tensor_release(all[i]);
    dhow_context_release(context);
    (void)printf("outside: dhow %s works\n", dhow_version());
    return 0;
}
