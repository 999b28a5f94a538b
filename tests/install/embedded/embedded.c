/* SPDX-License-Identifier: Apache-2.0
 *
 * A program with dhow inside: every backend that its arguments name is built in, and each of their devices
 * computes. embedded BACKEND...
 */
#include <dhow/dhow.h>
#include <stdio.h>
#include <string.h>

static int fail(const char *what) {
    (void)fprintf(stderr, "%s: %s\n", what, dhow_last_error());
    return 1;
}

/* Whether the first plugin of a backend is linked in. */
static int is_built_in(dhow_context *context, const char *backend) {
    for (uint32_t i = 0; i < dhow_plugin_count(context); i++) {
        dhow_plugin_record record = DHOW_INIT(dhow_plugin_record);
        if (dhow_plugin_at(context, i, &record) != DHOW_OK) return 0;
        if (strcmp(record.backend, backend) != 0) continue;
        printf("%s: %s %s\n", backend, record.path, record.reason);
        return strcmp(record.path, "(built in)") == 0;
    }
    return 0;
}

/* x w^T = (1 - 2 + 3) / 2 twice and (-4 + 5 - 6) / 2 twice, and relu cuts the latter. */
static int computes(dhow_device *device) {
    static const float data[6] = {1, -2, 3, -4, 5, -6}, wanted[4] = {1, 1, 0, 0};
    float got[4] = {0};
    dhow_tensor *x = NULL, *w = NULL, *y = NULL;
    int ok = dhow_tensor_from_data(device, DHOW_F32, DHOW_SHAPE(2, 3), data, &x) == DHOW_OK &&
             dhow_tensor_full(device, DHOW_F32, DHOW_SHAPE(2, 3), 0.5, &w) == DHOW_OK &&
             dhow_tensor_create(device, DHOW_F32, DHOW_SHAPE(2, 2), &y) == DHOW_OK &&
             dhow_linear(NULL, x, w, NULL, y) == DHOW_OK && dhow_relu(NULL, y, y) == DHOW_OK &&
             dhow_tensor_read(y, got, sizeof got) == DHOW_OK && memcmp(got, wanted, sizeof got) == 0;
    dhow_tensor_release(x);
    dhow_tensor_release(w);
    dhow_tensor_release(y);
    return ok;
}

int main(int argc, char **argv) {
    dhow_context *context;
    int failed = 0;
    if (dhow_context_create(NULL, &context) != DHOW_OK) return fail("starting");
    for (int i = 1; i < argc; i++) {
        if (!is_built_in(context, argv[i])) {
            (void)fprintf(stderr, "%s is not built in\n", argv[i]);
            failed = 1;
        }
    }
    for (uint32_t i = 0; i < dhow_device_count(context); i++) {
        dhow_device *device;
        if (dhow_device_at(context, i, &device) != DHOW_OK || !computes(device)) {
            failed = fail("a device does not compute");
            continue;
        }
        printf("%s computes\n", dhow_device_name(device));
    }
    dhow_context_release(context);
    return failed;
}
