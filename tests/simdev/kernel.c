/* SPDX-License-Identifier: Apache-2.0
 *
 * Kernels of the CPU table as device kernels: what their signatures say, and launches that are
 * checked against it.
 */
#include <stdio.h>
#include <string.h>

#include "internal.h"

static uint8_t type_bytes(const char *type, size_t length) {
    static const struct {
        const char *name;
        uint8_t bytes;
    } types[] = {{"f32", 4}, {"f64", 8}, {"f16", 2}, {"bf16", 2}, {"i8", 1},  {"u8", 1},
                 {"i16", 2}, {"u16", 2}, {"i32", 4}, {"u32", 4},  {"i64", 8}, {"u64", 8}};
    for (size_t i = 0; i < sizeof types / sizeof types[0]; i++) {
        if (strlen(types[i].name) == length && memcmp(types[i].name, type, length) == 0)
            return types[i].bytes;
    }
    return 0;
}

static uint8_t access_of(const char *word) {
    if (strncmp(word, "INOUT(", 6) == 0) return DHOW_ACCESS_READ | DHOW_ACCESS_WRITE;
    if (strncmp(word, "OUT(", 4) == 0 || strncmp(word, "ALIAS_OUT(", 10) == 0)
        return DHOW_ACCESS_WRITE;
    return DHOW_ACCESS_READ;
}

/* Reads "(IN(f32,x), OUT(f32,y), VAL(i64,n))". */
static bool parse_signature(simdev_kernel *kernel, const char *text) {
    const char *p = text;
    uint32_t dims = 0;
    if (*p++ != '(') return false;
    while (*p != '\0' && *p != ')') {
        const char *open = strchr(p, '('), *comma = open != NULL ? strchr(open, ',') : NULL;
        const char *close = comma != NULL ? strchr(comma, ')') : NULL;
        if (close == NULL || kernel->arg_count == DHOW_MAX_KERNEL_ARGS) return false;
        const uint32_t i = kernel->arg_count++;
        const char *type = open + 1;
        const bool is_dims = comma - type == 4 && memcmp(type, "dims", 4) == 0;
        if (strncmp(p, "VAL(", 4) != 0) {
            kernel->kind[i] = DHOW_ARG_BUFFER;
            kernel->access[i] = access_of(p);
        } else {
            kernel->kind[i] = is_dims ? DHOW_ARG_DIMS : DHOW_ARG_VALUE;
        }
        kernel->bytes[i] = type_bytes(type, (size_t)(comma - type));
        if (is_dims && (++dims > SIMDEV_MAX_DIMS || kernel->kind[i] != DHOW_ARG_DIMS)) return false;
        if (!is_dims && kernel->bytes[i] == 0) return false;
        p = close + 1;
        p += strspn(p, ", \n\t");
    }
    kernel->strided = dims != 0;
    return *p == ')';
}

static simdev_kernel *known(simdev_device *device, const k_info *info) {
    simdev_kernel *kernel = device->kernels;
    while (kernel != NULL && kernel->info != info) kernel = kernel->next;
    return kernel;
}

int32_t simdev_kernel_make(simdev_machine *machine, const k_info *info, simdev_kernel **out,
                           dhow_error *err) {
    simdev_kernel *made = simdev_new(machine, sizeof *made);
    *out = NULL;
    if (made == NULL)
        return simdev_fail(err, DHOW_OUT_OF_MEMORY, "no host memory for kernel %s", info->name);
    made->info = info;
    made->any_offset = true;
    if (!parse_signature(made, info->sig)) {
        simdev_delete(machine, made);
        return simdev_fail(err, DHOW_INTERNAL, "kernel %s has a signature that makes no sense: %s",
                           info->name, info->sig);
    }
    *out = made;
    return DHOW_OK;
}

void simdev_kernel_free(simdev_machine *machine, simdev_kernel *kernel) {
    simdev_delete(machine, kernel);
}

bool simdev_kernel_arg(const simdev_kernel *kernel, uint32_t index, uint32_t *out_kind,
                       uint32_t *out_bytes) {
    if (index >= kernel->arg_count) return false;
    *out_kind = kernel->kind[index];
    *out_bytes = kernel->kind[index] == DHOW_ARG_BUFFER ? 8
                 : kernel->kind[index] == DHOW_ARG_DIMS ? (uint32_t)sizeof(dhow_dims)
                                                        : kernel->bytes[index];
    return true;
}

uint32_t simdev_kernel_access(const simdev_kernel *kernel, uint32_t index) {
    return kernel->access[index];
}

int32_t simdev_kernel_find(simdev_device *device, const char *name, simdev_kernel **out,
                           dhow_error *err) {
    static const char *const any_offset[] = {"unary", "binary", "cast", "layout", "map", "scalar"};
    simdev_machine *machine = device->machine;
    simdev_kernel *made = NULL;
    *out = NULL;
    int32_t status = simdev_enter(device, "builtin_kernel", NULL, err);
    if (status != DHOW_OK) return status;
    const char *without = machine->config.without;
    const bool missing = without[0] != '\0' && strncmp(name, without, strlen(without)) == 0;
    const cpu_kernel *entry = missing ? NULL : dhow_cpu_kernel_entry(name);
    if (entry == NULL)
        return simdev_fail(err, DHOW_NOT_FOUND, "simulated devices have no kernel %s", name);
    status = simdev_kernel_make(machine, entry->isa[CPU_ISA_V2], &made, err);
    if (status != DHOW_OK) return status;
    made->any_offset = false;
    for (size_t i = 0; i < sizeof any_offset / sizeof any_offset[0]; i++) {
        if (strcmp(entry->unit, any_offset[i]) == 0) made->any_offset = true;
    }
    simdev_lock(&machine->lock);
    simdev_kernel *kernel = known(device, made->info);
    if (kernel == NULL) {
        kernel = made;
        kernel->next = device->kernels;
        device->kernels = kernel;
        made = NULL;
    }
    simdev_unlock(&machine->lock);
    simdev_delete(machine, made);
    *out = kernel;
    return DHOW_OK;
}

/* ---- launch ---- */

static int32_t check_buffer(simdev_device *device, const simdev_kernel *kernel, const dhow_arg *arg,
                            uint32_t i, dhow_error *err) {
    const uint32_t unit =
        kernel->any_offset ? kernel->bytes[i] : device->machine->config.offset_align;
    if ((arg->bytes & kernel->access[i]) != kernel->access[i])
        return simdev_fail(err, DHOW_INVALID_ARGUMENT,
                           "kernel %s, argument %u: declared with access %u, needs %u",
                           kernel->info->name, i, arg->bytes, kernel->access[i]);
    if (arg->u.buffer.offset % unit != 0)
        return simdev_fail(err, DHOW_INVALID_ARGUMENT,
                           "kernel %s, argument %u: offset %llu is no multiple of %u",
                           kernel->info->name, i, (unsigned long long)arg->u.buffer.offset, unit);
    return DHOW_OK;
}

static int32_t take_arguments(simdev_device *device, simdev_op *op, const dhow_arg *args,
                              uint32_t count, dhow_error *err) {
    const simdev_kernel *kernel = op->u.launch.kernel;
    uint32_t dims = 0;
    if (count != kernel->arg_count)
        return simdev_fail(err, DHOW_INVALID_ARGUMENT, "kernel %s takes %u arguments, given %u",
                           kernel->info->name, kernel->arg_count, count);
    for (uint32_t i = 0; i < count; i++) {
        const dhow_arg *arg = &args[i];
        if (arg->kind != kernel->kind[i] ||
            (arg->kind == DHOW_ARG_VALUE && arg->bytes != kernel->bytes[i]))
            return simdev_fail(err, DHOW_INVALID_ARGUMENT,
                               "kernel %s, argument %u: kind %u of %u bytes does not fit %s",
                               kernel->info->name, i, arg->kind, arg->bytes, kernel->info->sig);
        op->u.launch.args[i] = *arg;
        if (arg->kind == DHOW_ARG_DIMS) { /* the copy is found by its index */
            op->u.launch.dims[dims] = *arg->u.dims;
            op->u.launch.args[i].u.value = dims++;
        } else if (arg->kind == DHOW_ARG_BUFFER && arg->u.buffer.handle != 0) {
            int32_t status = check_buffer(device, kernel, arg, i, err);
            if (status != DHOW_OK) return status;
        }
    }
    return DHOW_OK;
}

int32_t simdev_launch(simdev_stream *stream, simdev_kernel *kernel, uint64_t work,
                      const dhow_arg *args, uint32_t arg_count, dhow_error *err) {
    simdev_device *device = stream->device;
    char point[sizeof(((simdev_fault *)NULL)->point)];
    if (stream->flags & DHOW_STREAM_COPIES_ONLY)
        return simdev_fail(err, DHOW_INVALID_ARGUMENT,
                           "kernel %s is launched on a stream made for copies only",
                           kernel->info->name);
    simdev_op *op = simdev_op_new(stream, SIMDEV_KERNEL, err);
    if (op == NULL) return DHOW_OUT_OF_MEMORY;
    op->u.launch.kernel = kernel;
    op->u.launch.work = work;
    (void)snprintf(point, sizeof point, "kernel:%s", kernel->info->name);
    int32_t status = simdev_enter(device, "launch", op, err);
    if (status == DHOW_OK) status = simdev_enter(device, point, op, err);
    if (status == DHOW_OK) status = take_arguments(device, op, args, arg_count, err);
    if (status != DHOW_OK) {
        simdev_op_delete(device->machine, op);
        return status;
    }
    return simdev_submit(stream, op, false, err);
}
