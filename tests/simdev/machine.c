/* SPDX-License-Identifier: Apache-2.0
 *
 * The machine, its devices and how they fail.
 */
#include <stdarg.h>
#include <stdio.h>
#include <string.h>

#include "internal.h"

/* ---- helpers ---- */

void *simdev_new(const simdev_machine *machine, size_t bytes) {
    SIMDEV_PRIVATE_BEGIN();
    void *memory = machine->config.alloc(machine->config.user, bytes, 64);
    if (memory != NULL) memset(memory, 0, bytes);
    SIMDEV_PRIVATE_END();
    return memory;
}

void simdev_delete(const simdev_machine *machine, void *memory) {
    SIMDEV_PRIVATE_BEGIN();
    if (memory != NULL) machine->config.free(machine->config.user, memory);
    SIMDEV_PRIVATE_END();
}

int32_t simdev_fail(dhow_error *err, int32_t status, const char *format, ...) {
    va_list list;
    va_start(list, format);
    (void)vsnprintf(err->message, sizeof err->message, format, list);
    va_end(list);
    err->code = status;
    err->native_code = SIMDEV_NATIVE_ERROR + status;
    return status;
}

int32_t simdev_report(dhow_error *err, const simdev_failure *failure) {
    if (failure->status == DHOW_OK) return DHOW_OK;
    return simdev_fail(err, failure->status, "%s", failure->message);
}

void simdev_set_failure(simdev_failure *failure, int32_t status, const char *format, ...) {
    va_list list;
    if (failure->status != DHOW_OK) return; /* the first one counts */
    va_start(list, format);
    (void)vsnprintf(failure->message, sizeof failure->message, format, list);
    va_end(list);
    failure->status = status;
}

void simdev_complain(const simdev_machine *machine, const char *format, ...) {
    char message[256];
    va_list list;
    va_start(list, format);
    (void)vsnprintf(message, sizeof message, format, list);
    va_end(list);
    if (machine->config.complain != NULL) machine->config.complain(machine->config.user, message);
}

/* ---- machine ---- */

int32_t simdev_machine_create(const simdev_config *config, simdev_machine **out, dhow_error *err) {
    simdev_machine *machine = config->alloc(config->user, sizeof *machine, 64);
    *out = NULL;
    if (machine == NULL)
        return simdev_fail(err, DHOW_OUT_OF_MEMORY, "cannot allocate the simulated machine");
    memset(machine, 0, sizeof *machine);
    machine->config = *config;
    (void)pthread_mutex_init(&machine->lock, NULL);
    (void)pthread_cond_init(&machine->progress, NULL);
    *out = machine;
    return DHOW_OK;
}

void simdev_machine_destroy(simdev_machine *machine) {
    if (machine == NULL) return;
    simdev_lock(&machine->lock);
    simdev_blocks_drop(machine, NULL);
    simdev_unlock(&machine->lock);
    simdev_delete(machine, machine->blocks);
    (void)pthread_cond_destroy(&machine->progress);
    (void)pthread_mutex_destroy(&machine->lock);
    machine->config.free(machine->config.user, machine);
}

uint32_t simdev_machine_device_count(const simdev_machine *machine) {
    return machine->config.device_count;
}

const simdev_config *simdev_machine_config(const simdev_machine *machine) {
    return &machine->config;
}

/* ---- failing ---- */

void simdev_lose_locked(simdev_device *device, const simdev_failure *why) {
    simdev_failure *lost = simdev_lost(device);
    if (lost->status != DHOW_OK) return;
    simdev_set_failure(lost, DHOW_DEVICE_LOST, "simulated device %u is lost: %.150s", device->index,
                       why->message);
    simdev_cond_broadcast(&device->machine->progress);
}

void simdev_device_lose(simdev_device *device, const char *reason) {
    simdev_failure why = {DHOW_OK, ""};
    simdev_set_failure(&why, DHOW_DEVICE_LOST, "%s", reason);
    simdev_lock(&device->machine->lock);
    simdev_lose_locked(device, &why);
    simdev_unlock(&device->machine->lock);
}

static void describe_fault(const simdev_fault *fault, simdev_failure *out) {
    simdev_set_failure(out, fault->status, "scripted fault: %s, call %llu", fault->point,
                       (unsigned long long)fault->seen);
}

int32_t simdev_machine_enter(simdev_machine *machine, const char *point, dhow_error *err) {
    simdev_failure failure = {DHOW_OK, ""};
    simdev_lock(&machine->lock);
    const simdev_fault *fault = simdev_fault_hit(&machine->config, point, -1);
    if (fault != NULL) describe_fault(fault, &failure);
    simdev_unlock(&machine->lock);
    return simdev_report(err, &failure);
}

int32_t simdev_enter(simdev_device *device, const char *point, simdev_op *out_async,
                     dhow_error *err) {
    simdev_machine *machine = device->machine;
    simdev_failure failure = {DHOW_OK, ""};
    simdev_lock(&machine->lock);
    const simdev_fault *fault = simdev_fault_hit(&machine->config, point, (int32_t)device->index);
    if (simdev_lost(device)->status != DHOW_OK) {
        failure = *simdev_lost(device);
    } else if (fault != NULL && fault->async && out_async != NULL) {
        describe_fault(fault, &out_async->fault);
        out_async->fault_loses = fault->loses;
    } else if (fault != NULL) {
        describe_fault(fault, &failure);
        if (fault->loses) simdev_lose_locked(device, &failure);
    }
    simdev_unlock(&machine->lock);
    return simdev_report(err, &failure);
}

/* ---- devices ---- */

int32_t simdev_device_open(simdev_machine *machine, uint32_t index, simdev_device **out,
                           dhow_error *err) {
    *out = NULL;
    if (index >= machine->config.device_count) {
        return simdev_fail(err, DHOW_OUT_OF_RANGE,
                           "the simulated machine has %u devices, asked for number %u",
                           machine->config.device_count, index);
    }
    simdev_device *device = simdev_new(machine, sizeof *device);
    if (device == NULL)
        return simdev_fail(err, DHOW_OUT_OF_MEMORY, "cannot allocate simulated device %u", index);
    device->machine = machine;
    device->index = index;
    int32_t status = simdev_enter(device, "device_open", NULL, err);
    if (status != DHOW_OK) {
        simdev_delete(machine, device);
        return status;
    }
    *out = device;
    return DHOW_OK;
}

uint32_t simdev_device_images(const simdev_device *device) {
    return device->machine->config.images;
}

uint32_t simdev_device_index(const simdev_device *device) { return device->index; }

void simdev_device_close(simdev_device *device) {
    if (device == NULL) return;
    simdev_machine *machine = device->machine;
    while (device->streams != NULL) {
        simdev_complain(machine,
                        "simulated device %u is closed with a stream that was not destroyed",
                        device->index);
        simdev_stream_destroy(device->streams);
    }
    if (device->event_count != 0) {
        simdev_complain(machine,
                        "simulated device %u is closed with %u events that were not destroyed",
                        device->index, device->event_count);
    }
    simdev_lock(&machine->lock);
    simdev_blocks_drop(machine, device);
    simdev_unlock(&machine->lock);
    while (device->kernels != NULL) {
        simdev_kernel *next = device->kernels->next;
        simdev_delete(machine, device->kernels);
        device->kernels = next;
    }
    simdev_delete(machine, device);
}
