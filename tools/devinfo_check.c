/* SPDX-License-Identifier: Apache-2.0
 *
 * devinfo --check: a short round through each device with results compared on the host.
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "devinfo.h"

enum { COUNT = 10007 };

#define TRY(expression)                      \
    do {                                     \
        status = (expression);               \
        if (status != DHOW_OK) goto cleanup; \
    } while (0)

/* y = relu(x) with x and y on the device; false in *right when a value is wrong. */
static dhow_status round_trip(dhow_device *device, int *right) {
    static float x_data[COUNT], y_data[COUNT];
    dhow_tensor *x = NULL, *y = NULL, *copy = NULL;
    dhow_status status;
    *right = 1;
    for (int i = 0; i < COUNT; i++) x_data[i] = (float)((i * 7919) % 2003 - 1001) / 16;
    memset(y_data, 0xff, sizeof y_data);
    TRY(dhow_tensor_from_data(device, DHOW_F32, DHOW_SHAPE(COUNT), x_data, &x));
    TRY(dhow_tensor_create(device, DHOW_F32, DHOW_SHAPE(COUNT), &copy));
    TRY(dhow_tensor_create(device, DHOW_F32, DHOW_SHAPE(COUNT), &y));
    TRY(dhow_copy(x, copy));
    TRY(dhow_relu(NULL, copy, y));
    TRY(dhow_tensor_read(y, y_data, sizeof y_data));
    for (int i = 0; i < COUNT; i++) {
        float expected = x_data[i] > 0 ? x_data[i] : 0;
        if (y_data[i] < expected || y_data[i] > expected) *right = 0;
    }
cleanup:
    dhow_tensor_release(x);
    dhow_tensor_release(y);
    dhow_tensor_release(copy);
    return status;
}

int devinfo_check(dhow_context *context) {
    int failures = 0;
    printf("\nCheck: allocate, copy, launch, verify\n");
    for (uint32_t i = 0; i < dhow_device_count(context); i++) {
        dhow_device *device;
        int right = 0;
        if (dhow_device_at(context, i, &device) != DHOW_OK) continue;
        dhow_status status = round_trip(device, &right);
        if (status != DHOW_OK) {
            printf("  %-10s FAILED  %s: %s\n", dhow_device_name(device), dhow_status_name(status),
                   dhow_last_error());
        } else {
            printf("  %-10s %s\n", dhow_device_name(device),
                   right ? "ok" : "FAILED  wrong values came back");
        }
        failures += status != DHOW_OK || !right;
    }
    return failures;
}
