/* SPDX-License-Identifier: Apache-2.0
 *
 * libFuzzer target: device lists, the filter of backends and the small parsers of the environment.
 */
#include <stdlib.h>
#include <string.h>

#include "base/text/text.h"
#include "device/device.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);
int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
    static dhow_context context; /* complete, of one device and no plugins */
    static dhow_device cpu = {.name = "cpu:0"};
    dhow_device *device = NULL;
    dhow_log_level level;
    int64_t number;
    bool on;
    char *text = malloc(size + 1);
    if (text == NULL) return 0;
    if (size > 0) memcpy(text, data, size);
    text[size] = '\0';
    cpu.fork_generation = dhowi_fork_generation();
    context.cpu = &cpu;
    atomic_store(&context.complete, true);
    dhow_status parsed = dhowi_device_check_spec(text);
    dhow_status status = dhowi_device_select(&context, text, &device);
    if (parsed != DHOW_OK && status != DHOW_INVALID_ARGUMENT) abort();
    if (parsed == DHOW_OK && status != DHOW_OK && status != DHOW_NOT_FOUND) abort();
    if (device != (status == DHOW_OK ? &cpu : NULL)) abort();
    if (status != DHOW_OK && dhow_last_error()[0] == '\0') abort();
    if (!dhowi_backends_keep(text, "cpu")) abort();
    (void)dhowi_backends_keep(text, "sim");
    (void)dhowi_backends_check(text, &context.registry);
    (void)dhowi_parse_log_level(text, &level);
    (void)dhowi_parse_switch(text, &on);
    (void)dhowi_is_utf8(text);
    if (dhowi_parse_i64(text, strlen(text), -5, 4096, &number) && (number < -5 || number > 4096))
        abort();
    free(text);
    return 0;
}
