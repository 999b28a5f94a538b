/* SPDX-License-Identifier: Apache-2.0
 *
 * A plain program for ThreadSanitizer: programs that forget a wait must be reported whatever the
 * threads happened to do, and right ones must not. `order_check right` ends with 0; `order_check
 * no-sync`, `no-wait` and `early-reuse` each leave out one wait and end with the sanitizer's exit
 * code.
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "simdev.h"

static dhow_error err = {.struct_size = sizeof(dhow_error)};

#define OK(call)                                                   \
    do {                                                           \
        if ((call) != DHOW_OK) {                                   \
            (void)fprintf(stderr, "%s: %s\n", #call, err.message); \
            exit(2);                                               \
        }                                                          \
    } while (0)

static void *take(void *user, uint64_t bytes, uint64_t align) {
    (void)user;
    return aligned_alloc((size_t)align, (size_t)((bytes + align - 1) / align * align));
}

static void give(void *user, void *memory) {
    (void)user;
    free(memory);
}

static void complain(void *user, const char *message) {
    (void)user;
    (void)fprintf(stderr, "%s\n", message);
    exit(2);
}

static dhow_copy_rect rect(uint32_t to_device, uint64_t handle, void *memory, uint64_t bytes) {
    const dhow_copy_end at_host = {.space = DHOW_SPACE_HOST, .handle = (uint64_t)(uintptr_t)memory};
    const dhow_copy_end at_device = {.space = DHOW_SPACE_DEVICE, .handle = handle};
    return (dhow_copy_rect){.extent = {bytes, 1, 1},
                            .src = to_device ? at_host : at_device,
                            .dst = to_device ? at_device : at_host};
}

/* Long enough for all that was submitted: only the order of the program is judged, not its luck. */
static void pause_for_all(void) {
    const struct timespec pause = {0, 20000000};
    (void)nanosleep(&pause, NULL);
}

static void relu(simdev_stream *stream, simdev_kernel *kernel, uint64_t x, uint64_t y, uint64_t n) {
    const dhow_arg args[3] = {
        {DHOW_ARG_BUFFER, DHOW_ACCESS_READ, {.buffer = {x, 0}}},
        {DHOW_ARG_BUFFER, DHOW_ACCESS_WRITE, {.buffer = {y, 0}}},
        {DHOW_ARG_VALUE, 8, {.value = n}},
    };
    OK(simdev_launch(stream, kernel, 0, args, 3, &err));
}

static int run(simdev_machine *machine, const char *mistake) {
    enum { N = 4096, ROUNDS = 20 };
    simdev_device *device = NULL;
    simdev_stream *copies = NULL, *compute = NULL;
    simdev_event *arrived = NULL;
    simdev_kernel *kernel = NULL;
    uint64_t x = 0, y = 0;
    void *memory = NULL;
    int wrong = 0;
    OK(simdev_device_open(machine, 0, &device, &err));
    OK(simdev_stream_create(device, DHOW_STREAM_COPIES_ONLY, &copies, &err));
    OK(simdev_stream_create(device, 0, &compute, &err));
    OK(simdev_event_create(device, 0, &arrived, &err));
    OK(simdev_kernel_find(device, "relu_f32", &kernel, &err));
    OK(simdev_mem_alloc(device, N * sizeof(float), &x, &err));
    OK(simdev_mem_alloc(device, N * sizeof(float), &y, &err));
    OK(simdev_host_alloc(device, N * sizeof(float), &memory, &err));
    float *values = memory;
    const dhow_copy_rect up = rect(1, x, values, N * sizeof(float)),
                         down = rect(0, y, values, N * sizeof(float));
    for (int round = 0; round < ROUNDS; round++) {
        for (int i = 0; i < N; i++) values[i] = (float)(i - round);
        OK(simdev_copy(copies, &up, &err));
        if (strcmp(mistake, "early-reuse") == 0) {
            pause_for_all();
            values[0] = -1.0f;
        }
        OK(simdev_event_record(arrived, copies, &err));
        if (strcmp(mistake, "no-wait") == 0) {
            pause_for_all();
        } else {
            OK(simdev_stream_wait(compute, arrived, &err));
        }
        relu(compute, kernel, x, y, N);
        OK(simdev_copy(compute, &down, &err));
        if (strcmp(mistake, "no-sync") == 0) {
            pause_for_all();
        } else {
            OK(simdev_stream_sync(compute, &err));
        }
        for (int i = 0; i < N; i++) wrong += values[i] != (i > round ? (float)(i - round) : 0.0f);
    }
    OK(simdev_stream_sync(copies, &err));
    simdev_event_destroy(arrived);
    simdev_stream_destroy(copies);
    simdev_stream_destroy(compute);
    simdev_mem_free(device, x);
    simdev_mem_free(device, y);
    simdev_host_free(device, memory);
    simdev_device_close(device);
    return wrong;
}

int main(int argc, char **argv) {
    simdev_config config;
    simdev_machine *machine = NULL;
    simdev_config_init(&config);
    config.alloc = take;
    config.free = give;
    config.complain = complain;
    OK(simdev_config_parse(&config, "jitter_us=200", &err));
    OK(simdev_machine_create(&config, &machine, &err));
    int wrong = run(machine, argc > 1 ? argv[1] : "right");
    simdev_machine_destroy(machine);
    (void)printf("%d wrong\n", wrong);
    return wrong != 0;
}
