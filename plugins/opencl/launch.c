/* SPDX-License-Identifier: Apache-2.0
 *
 * Kernels and their launches. An argument that is what it was at the kernel's last launch is not
 * set again, which is where the time of a small launch goes.
 *
 * Native kernels take a buffer as one `__global` pointer; a buffer that begins inside an allocation
 * is passed as a sub-buffer, which OpenCL allows at multiples of CL_DEVICE_MEM_BASE_ADDR_ALIGN
 * only. With shared_bytes, the kernel's last parameter is the `__local` pointer that gets them.
 */
#include <string.h>

#include "module.h"

/* ---- kernels -------------------------------------------------------------------------------- */

static void end_form(const dhow_host *host, dhowi_cl_form *form) {
    for (size_t i = 0; i < DHOW_MAX_KERNEL_ARGS; i++) dhowi_cl_delete(host, form->slots[i].dims);
    dhowi_cl_delete(host, form->values);
    if (form->kernel != NULL) dhowi_cl.ReleaseKernel(form->kernel);
}

void dhowi_cl_kernel_destroy(dhowi_cl_kernel *kernel) {
    if (kernel == NULL) return;
    const dhow_host *host = kernel->device->host;
    for (int i = 0; i < DHOWI_CL_FORMS; i++) end_form(host, &kernel->forms[i]);
    pthread_mutex_destroy(&kernel->lock);
    dhowi_cl_delete(host, kernel->name);
    dhowi_cl_delete(host, kernel);
}

static int32_t make_form(dhowi_cl_kernel *kernel, int which, dhow_error *err) {
    cl_int code = CL_SUCCESS;
    cl_uint native_args = 0;
    cl_program program;
    size_t group[3] = {0, 0, 0};
    dhowi_cl_form *form = &kernel->forms[which];
    int32_t status = dhowi_cl_module_program(kernel->module, kernel->name, which, &program, err);
    if (status != DHOW_OK) return status;
    form->kernel = dhowi_cl.CreateKernel(program, kernel->name, &code);
    dhowi_cl.ReleaseProgram(program); /* the kernel holds it */
    if (code == CL_SUCCESS)
        code = dhowi_cl.GetKernelInfo(form->kernel, CL_KERNEL_NUM_ARGS, sizeof native_args,
                                      &native_args, NULL);
    if (code == CL_SUCCESS)
        code = dhowi_cl.GetKernelWorkGroupInfo(form->kernel, kernel->device->id,
                                               CL_KERNEL_COMPILE_WORK_GROUP_SIZE, sizeof group,
                                               group, NULL);
    form->native_args = native_args;
    form->group_items = group[0];
    if (code == CL_SUCCESS) return DHOW_OK;
    if (form->kernel != NULL) dhowi_cl.ReleaseKernel(form->kernel);
    form->kernel = NULL;
    return dhowi_cl_fail(err, code, "%s: kernel '%.200s'", kernel->device->name, kernel->name);
}

int32_t dhowi_cl_kernel_create(dhowi_cl_device *device, struct dhowi_cl_module *module,
                               const char *name, bool portable, dhowi_cl_kernel **out_kernel,
                               dhow_error *err) {
    *out_kernel = NULL;
    dhowi_cl_kernel *kernel = dhowi_cl_new(device->host, sizeof *kernel);
    char *own_name = dhowi_cl_new(device->host, strlen(name) + 1);
    if (kernel == NULL || own_name == NULL) {
        dhowi_cl_delete(device->host, kernel);
        dhowi_cl_delete(device->host, own_name);
        return dhowi_cl_refuse(err, DHOW_OUT_OF_MEMORY, "%s: no host memory", device->name);
    }
    memcpy(own_name, name, strlen(name) + 1);
    kernel->device = device;
    kernel->module = module;
    kernel->name = own_name;
    kernel->portable = portable;
    pthread_mutex_init(&kernel->lock, NULL);
    int32_t status = make_form(kernel, module->first_form, err);
    if (status != DHOW_OK) {
        dhowi_cl_kernel_destroy(kernel);
        return status;
    }
    *out_kernel = kernel;
    return DHOW_OK;
}

/* The form for these arguments, made on first use. Under the kernel's lock. */
static int32_t form_for(dhowi_cl_kernel *kernel, const dhow_arg *args, uint32_t count,
                        dhowi_cl_form **out, dhow_error *err) {
    int which = kernel->module->first_form;
    for (uint32_t i = 0; kernel->portable && which == DHOWI_CL_PLAIN && i < count; i++)
        if (args[i].kind == DHOW_ARG_BUFFER && args[i].u.buffer.offset != 0)
            which = DHOWI_CL_OFFSETS;
    *out = &kernel->forms[which];
    return (*out)->kernel != NULL ? DHOW_OK : make_form(kernel, which, err);
}

/* ---- arguments ------------------------------------------------------------------------------ */

/* A kernel does not look at a buffer without a handle. */
static cl_int set_no_buffer(const dhowi_cl_form *form, dhowi_cl_slot *slot, cl_uint at) {
    const cl_mem none = NULL;
    slot->buffer_id = 0;
    return dhowi_cl.SetKernelArg(form->kernel, at, sizeof none, &none);
}

static cl_int set_portable_buffer(const dhowi_cl_form *form, dhowi_cl_slot *slot, cl_uint at,
                                  const dhow_arg *arg) {
    if (arg->u.buffer.handle == 0) return set_no_buffer(form, slot, at);
    const dhowi_cl_buffer *buffer = dhowi_cl_buffer_of(arg->u.buffer.handle);
    if (slot->buffer_id == buffer->id) return CL_SUCCESS;
    slot->buffer_id = 0;
    cl_int code = dhowi_cl.SetKernelArg(form->kernel, at, sizeof buffer->mem, &buffer->mem);
    if (code == CL_SUCCESS) slot->buffer_id = buffer->id;
    return code;
}

static cl_int set_offsets(dhowi_cl_form *form, cl_uint at, const dhow_arg *args, uint32_t count) {
    uint32_t buffers = 0;
    bool known = form->offsets_known;
    for (uint32_t i = 0; i < count; i++) {
        if (args[i].kind != DHOW_ARG_BUFFER) continue;
        known = known && form->offsets[buffers] == args[i].u.buffer.offset;
        form->offsets[buffers++] = args[i].u.buffer.offset;
    }
    if (known || buffers == 0) return CL_SUCCESS;
    cl_int code =
        dhowi_cl.SetKernelArg(form->kernel, at, buffers * sizeof form->offsets[0], form->offsets);
    form->offsets_known = code == CL_SUCCESS;
    return code;
}

static cl_int set_native_buffer(dhowi_cl_kernel *kernel, dhowi_cl_slot *slot, cl_uint at,
                                const dhow_arg *arg) {
    if (arg->u.buffer.handle == 0) return set_no_buffer(&kernel->forms[DHOWI_CL_PLAIN], slot, at);
    const dhowi_cl_buffer *buffer = dhowi_cl_buffer_of(arg->u.buffer.handle);
    const uint64_t offset = arg->u.buffer.offset;
    cl_int code = CL_SUCCESS;
    if (slot->buffer_id == buffer->id && offset == 0) return CL_SUCCESS;
    slot->buffer_id = 0;
    if (offset == 0) {
        code = dhowi_cl.SetKernelArg(kernel->forms[DHOWI_CL_PLAIN].kernel, at, sizeof buffer->mem,
                                     &buffer->mem);
        if (code == CL_SUCCESS) slot->buffer_id = buffer->id;
        return code;
    }
    if (offset % kernel->device->sub_buffer_align != 0 || offset >= buffer->bytes)
        return CL_MISALIGNED_SUB_BUFFER_OFFSET;
    const cl_buffer_region region = {(size_t)offset, (size_t)(buffer->bytes - offset)};
    cl_mem part = dhowi_cl.CreateSubBuffer(buffer->mem, CL_MEM_READ_WRITE,
                                           CL_BUFFER_CREATE_TYPE_REGION, &region, &code);
    if (code == CL_SUCCESS)
        code = dhowi_cl.SetKernelArg(kernel->forms[DHOWI_CL_PLAIN].kernel, at, sizeof part, &part);
    slot->bits = (uint64_t)(uintptr_t)part; /* released behind the enqueue, see release_parts() */
    slot->bytes = part != NULL ? (uint32_t)sizeof part : 0;
    return code;
}

/* The command holds what it uses; our references to sub-buffers end here. */
static void release_parts(dhowi_cl_kernel *kernel, const dhow_arg *args, uint32_t count) {
    if (kernel->portable) return;
    for (uint32_t i = 0; i < count; i++) {
        dhowi_cl_slot *slot = &kernel->forms[DHOWI_CL_PLAIN].slots[i];
        if (args[i].kind != DHOW_ARG_BUFFER || slot->bytes == 0) continue;
        dhowi_cl.ReleaseMemObject((cl_mem)(uintptr_t)slot->bits);
        slot->bytes = 0;
    }
}

static cl_int set_value(const dhowi_cl_form *form, dhowi_cl_slot *slot, cl_uint at,
                        const dhow_arg *arg) {
    if (slot->bytes == arg->bytes && slot->bits == arg->u.value) return CL_SUCCESS;
    slot->bytes = 0;
    cl_int code = dhowi_cl.SetKernelArg(form->kernel, at, arg->bytes, &arg->u.value);
    if (code != CL_SUCCESS) return code;
    slot->bytes = arg->bytes;
    slot->bits = arg->u.value;
    return CL_SUCCESS;
}

static cl_int set_dims(const dhowi_cl_kernel *kernel, const dhowi_cl_form *form,
                       dhowi_cl_slot *slot, cl_uint at, const dhow_arg *arg) {
    if (slot->dims == NULL) {
        slot->dims = dhowi_cl_new(kernel->device->host, sizeof *slot->dims);
        if (slot->dims == NULL) return CL_OUT_OF_HOST_MEMORY;
        slot->bytes = 0;
    }
    if (slot->bytes == sizeof *slot->dims &&
        memcmp(slot->dims, arg->u.dims, sizeof *slot->dims) == 0)
        return CL_SUCCESS;
    slot->bytes = 0;
    cl_int code = dhowi_cl.SetKernelArg(form->kernel, at, sizeof *arg->u.dims, arg->u.dims);
    if (code != CL_SUCCESS) return code;
    memcpy(slot->dims, arg->u.dims, sizeof *slot->dims);
    slot->bytes = (uint32_t)sizeof *slot->dims;
    return CL_SUCCESS;
}

static int32_t fail_argument(const dhowi_cl_kernel *kernel, const dhow_arg *arg, uint32_t index,
                             cl_int code, dhow_error *err) {
    if (code == CL_MISALIGNED_SUB_BUFFER_OFFSET)
        return dhowi_cl_fail(
            err, code,
            "kernel '%.100s', argument %u begins at byte %llu of its allocation; native OpenCL "
            "kernels "
            "take buffers at multiples of %llu on %.60s: pass a copy, or use a portable kernel",
            kernel->name, index + 1, (unsigned long long)arg->u.buffer.offset,
            (unsigned long long)kernel->device->sub_buffer_align, kernel->device->name);
    return dhowi_cl_fail(err, code, "kernel '%.200s', argument %u", kernel->name, index + 1);
}

static uint32_t count_buffers(const dhow_arg *args, uint32_t count) {
    uint32_t buffers = 0;
    for (uint32_t i = 0; i < count; i++) buffers += args[i].kind == DHOW_ARG_BUFFER;
    return buffers;
}

/* How many arguments the compiled kernel has for these: of portable ones with the offsets of
 * buffers, or all values as one, of native ones with local memory. */
static uint32_t count_native(const dhowi_cl_kernel *kernel, const dhowi_cl_form *form,
                             const dhow_geometry *geometry, const dhow_arg *args, uint32_t count) {
    if (!kernel->portable) return count + (geometry->shared_bytes > 0);
    const uint32_t buffers = count_buffers(args, count);
    if (form == &kernel->forms[DHOWI_CL_JOINED]) return buffers + 1;
    return count + (form == &kernel->forms[DHOWI_CL_OFFSETS] && buffers > 0);
}

/* Of the JOINED form: buffers, then the rest. */
static int32_t set_joined(dhowi_cl_kernel *kernel, dhowi_cl_form *form, const dhow_arg *args,
                          uint32_t count, dhow_error *err) {
    cl_uint at = 0;
    for (uint32_t i = 0; i < count; i++) {
        if (args[i].kind != DHOW_ARG_BUFFER) continue;
        cl_int code = set_portable_buffer(form, &form->slots[i], at++, &args[i]);
        if (code != CL_SUCCESS) return fail_argument(kernel, &args[i], i, code, err);
    }
    cl_int code = dhowi_cl_set_values(kernel->device->host, form, at, args, count);
    if (code == CL_SUCCESS) return DHOW_OK;
    return dhowi_cl_fail(err, code, "kernel '%.200s': its last argument takes no values",
                         kernel->name);
}

static int32_t set_arguments(dhowi_cl_kernel *kernel, dhowi_cl_form *form,
                             const dhow_geometry *geometry, const dhow_arg *args, uint32_t count,
                             dhow_error *err) {
    cl_int code = CL_SUCCESS;
    if (form == &kernel->forms[DHOWI_CL_JOINED]) return set_joined(kernel, form, args, count, err);
    for (uint32_t i = 0; i < count; i++) {
        dhowi_cl_slot *slot = &form->slots[i];
        if (args[i].kind == DHOW_ARG_VALUE)
            code = set_value(form, slot, i, &args[i]);
        else if (args[i].kind == DHOW_ARG_DIMS)
            code = set_dims(kernel, form, slot, i, &args[i]);
        else if (kernel->portable)
            code = set_portable_buffer(form, slot, i, &args[i]);
        else
            code = set_native_buffer(kernel, slot, i, &args[i]);
        if (code != CL_SUCCESS) return fail_argument(kernel, &args[i], i, code, err);
    }
    if (kernel->portable && count_native(kernel, form, geometry, args, count) > count)
        code = set_offsets(form, count, args, count);
    else if (geometry->shared_bytes > 0)
        code = dhowi_cl.SetKernelArg(form->kernel, count, geometry->shared_bytes, NULL);
    if (code != CL_SUCCESS)
        return dhowi_cl_fail(err, code, "kernel '%.200s': its last argument takes no %s",
                             kernel->name, kernel->portable ? "offsets" : "local memory");
    return DHOW_OK;
}

/* ---- launch --------------------------------------------------------------------------------- */

/* Portable kernels are right for any number of groups, so this is about speed alone. On a processor
 * a group is one thread's share: small work stays on one thread, since waking the others takes
 * longer. */
static size_t choose_groups(const dhowi_cl_kernel *kernel, size_t group_items, uint64_t work) {
    enum {
        LOOP_WORK_PER_GROUP = 4096,
        LOOP_GROUPS_PER_UNIT = 2,
        ITEM_WORK = 4,
        GROUPS_PER_UNIT = 32
    };
    const dhowi_cl_device *device = kernel->device;
    const uint64_t share = device->is_cpu ? LOOP_WORK_PER_GROUP : (uint64_t)group_items * ITEM_WORK;
    const uint64_t most =
        (uint64_t)device->compute_units * (device->is_cpu ? LOOP_GROUPS_PER_UNIT : GROUPS_PER_UNIT);
    const uint64_t groups = work / share + (work % share != 0);
    return (size_t)(groups < 1 ? 1 : groups > most ? most : groups);
}

static cl_int enqueue(dhowi_cl_stream *stream, const dhowi_cl_kernel *kernel,
                      const dhowi_cl_form *form, const dhow_geometry *geometry) {
    size_t global[3], local[3] = {1, 1, 1};
    cl_uint dimensions = 1;
    if (kernel->portable) {
        local[0] = form->group_items > 0 ? form->group_items : 1;
        global[0] = local[0] * choose_groups(kernel, local[0], geometry->work);
    } else {
        for (cl_uint d = 0; d < 3; d++) {
            local[d] = geometry->block[d] > 0 ? geometry->block[d] : 1;
            global[d] = local[d] * (geometry->grid[d] > 0 ? geometry->grid[d] : 1);
            if (global[d] > 1) dimensions = d + 1;
        }
    }
    return dhowi_cl.EnqueueNDRangeKernel(stream->queue, form->kernel, dimensions, NULL, global,
                                         local, 0, NULL, NULL);
}

static int32_t check_call(const dhowi_cl_kernel *kernel, const dhow_geometry *geometry,
                          uint32_t count, dhow_error *err) {
    if (count > DHOW_MAX_KERNEL_ARGS)
        return dhowi_cl_refuse(err, DHOW_INVALID_ARGUMENT,
                               "kernel '%.200s': %u arguments, at most %d are possible",
                               kernel->name, count, (int)DHOW_MAX_KERNEL_ARGS);
    if ((geometry->native != 0) == kernel->portable)
        return dhowi_cl_refuse(err, DHOW_INVALID_ARGUMENT,
                               "kernel '%.200s' is %s and was launched with %s", kernel->name,
                               kernel->portable ? "portable" : "native OpenCL C",
                               geometry->native ? "a grid" : "an amount of work");
    return DHOW_OK;
}

static int32_t check_count(const dhowi_cl_kernel *kernel, const dhowi_cl_form *form,
                           const dhow_geometry *geometry, const dhow_arg *args, uint32_t count,
                           dhow_error *err) {
    const uint32_t wanted = count_native(kernel, form, geometry, args, count);
    if (form->native_args == wanted) return DHOW_OK;
    if (form == &kernel->forms[DHOWI_CL_JOINED])
        return dhowi_cl_refuse(err, DHOW_INVALID_ARGUMENT,
                               "kernel '%.200s' takes %u buffers, not %u", kernel->name,
                               form->native_args > 0 ? form->native_args - 1 : 0, wanted - 1);
    const uint32_t added = wanted - count;
    return dhowi_cl_refuse(err, DHOW_INVALID_ARGUMENT,
                           "kernel '%.200s' takes %u arguments%s, not %u", kernel->name,
                           form->native_args > added ? form->native_args - added : 0,
                           kernel->portable || added == 0 ? "" : " besides local memory", count);
}

/* Under the kernel's lock. *code is what the runtime said of the launch. */
static int32_t launch_once(dhowi_cl_stream *stream, dhowi_cl_kernel *kernel,
                           const dhow_geometry *geometry, const dhow_arg *args, uint32_t count,
                           size_t *group_items, cl_int *code, dhow_error *err) {
    dhowi_cl_form *form;
    *code = CL_SUCCESS;
    int32_t status = form_for(kernel, args, count, &form, err);
    if (status == DHOW_OK) status = check_count(kernel, form, geometry, args, count, err);
    if (status != DHOW_OK) return status;
    *group_items = form->group_items;
    status = set_arguments(kernel, form, geometry, args, count, err);
    if (status == DHOW_OK) *code = enqueue(stream, kernel, form, geometry);
    release_parts(kernel, args, count);
    return status;
}

static void forget_forms(dhowi_cl_kernel *kernel) {
    for (int i = 0; i < DHOWI_CL_FORMS; i++) {
        end_form(kernel->device->host, &kernel->forms[i]);
        memset(&kernel->forms[i], 0, sizeof kernel->forms[i]);
    }
}

int32_t dhowi_cl_launch(void *stream_pointer, void *kernel_pointer, const dhow_geometry *geometry,
                        const dhow_arg *args, uint32_t arg_count, dhow_error *err) {
    dhowi_cl_stream *stream = stream_pointer;
    dhowi_cl_kernel *kernel = kernel_pointer;
    int32_t status = check_call(kernel, geometry, arg_count, err);
    if (status != DHOW_OK) return status;
    cl_int code = CL_SUCCESS;
    size_t items = 0;
    pthread_mutex_lock(&kernel->lock);
    status = launch_once(stream, kernel, geometry, args, arg_count, &items, &code, err);
    while (status == DHOW_OK && code != CL_SUCCESS && kernel->portable &&
           dhowi_cl_module_halve(kernel->module, items, code)) {
        forget_forms(kernel);
        status = launch_once(stream, kernel, geometry, args, arg_count, &items, &code, err);
    }
    pthread_mutex_unlock(&kernel->lock);
    if (status != DHOW_OK) return status;
    if (code != CL_SUCCESS)
        return dhowi_cl_fail(err, code, "kernel '%.200s' was not launched", kernel->name);
    dhowi_cl_stream_submitted(stream);
    return DHOW_OK;
}
