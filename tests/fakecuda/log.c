/* SPDX-License-Identifier: Apache-2.0
 *
 * What streams are given, a line each: for lists that tests keep, and to look at with
 * FAKECUDA=log=1.
 */
#include <stdarg.h>
#include <stdio.h>

#include "fake.h"

void fakecuda_log_to(FILE *out) {
    fake_lock();
    fake.log = out;
    fake_unlock();
}

void fakecuda_log(const char *format, ...) {
    va_list list;
    fake_lock();
    FILE *out = fake.log != NULL ? fake.log : fake.settings.log ? stderr : NULL;
    if (out != NULL) {
        va_start(list, format);
        (void)vfprintf(out, format, list);
        va_end(list);
        (void)fputc('\n', out);
    }
    fake_unlock();
}

void fakecuda_cost(const char *name, const char *type, const fakecuda_range *ranges, uint32_t count,
                   double flop) {
    uint64_t bytes = 0;
    for (uint32_t i = 0; i + 1 < count; i++)
        bytes += ranges[i].address != NULL ? ranges[i].bytes : 0;
    if (fake.settings.costs)
        fakecuda_log("cost %s %s %llu %.0f 0", name, type, (unsigned long long)bytes, flop);
}

static void log_copy(const dhow_copy_rect *rect) {
    static const char *const ends[] = {[DHOW_SPACE_HOST] = "host", [DHOW_SPACE_DEVICE] = "device"};
    fakecuda_log("copy %s to %s %llu x %llu x %llu", ends[rect->src.space], ends[rect->dst.space],
                 (unsigned long long)rect->extent[0], (unsigned long long)rect->extent[1],
                 (unsigned long long)rect->extent[2]);
    if (fake.settings.costs)
        fakecuda_log("cost copy - %llu 0 0",
                     2 * (unsigned long long)(rect->extent[0] * rect->extent[1] * rect->extent[2]));
}

void fake_log_command(const fake_command *command) {
    switch (command->kind) {
        case FAKE_COPY:
            log_copy(&command->rect);
            return;
        case FAKE_PEER_COPY:
            fakecuda_log("copy device %d to device %llu", command->src_device,
                         (unsigned long long)command->rect.extent[0]);
            return;
        case FAKE_LAUNCH:
            fakecuda_log("kernel %s", command->function->kernel->name);
            return;
        case FAKE_WAIT_VALUE:
            fakecuda_log("wait for a word");
            return;
        case FAKE_HOST:
            fakecuda_log("host function");
            return;
        case FAKE_WAIT:
            fakecuda_log("wait for an event");
            return;
        case FAKE_WORK:   /* its library has told it */
        case FAKE_RECORD: /* not waited for by the device */
            return;
    }
}
