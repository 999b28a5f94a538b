/* SPDX-License-Identifier: Apache-2.0
 *
 * Values of a launch as one argument. Runtimes for processors copy each argument by itself, PoCL
 * into memory of its own twice, which is most of what a small launch takes.
 */
#include <string.h>

#include "opencl.h"

/* Where a field of this size begins that is not before `at`: as C aligns it. */
static size_t aligned(size_t at, size_t bytes) { return (at + bytes - 1) / bytes * bytes; }

static size_t put(unsigned char *to, size_t at, const void *from, size_t bytes, size_t align) {
    at = aligned(at, align);
    if (to != NULL) memcpy(to + at, from, bytes);
    return at + bytes;
}

/* Lays offsets, then values out in `to`, which may be NULL. Returns the size of the struct. */
static size_t lay_out(unsigned char *to, const dhow_arg *args, uint32_t count) {
    size_t at = 0;
    for (uint32_t i = 0; i < count; i++)
        if (args[i].kind == DHOW_ARG_BUFFER)
            at = put(to, at, &args[i].u.buffer.offset, sizeof(cl_ulong), sizeof(cl_ulong));
    const size_t offsets = at;
    size_t widest = offsets > 0 ? sizeof(cl_ulong) : 1;
    for (uint32_t i = 0; i < count; i++) {
        if (args[i].kind == DHOW_ARG_BUFFER) continue;
        const bool is_dims = args[i].kind == DHOW_ARG_DIMS;
        const size_t bytes = is_dims ? sizeof *args[i].u.dims : args[i].bytes;
        const size_t align = is_dims ? sizeof(cl_ulong) : args[i].bytes;
        at = put(to, at, is_dims ? (const void *)args[i].u.dims : &args[i].u.value, bytes, align);
        widest = widest > align ? widest : align;
    }
    return aligned(at, widest);
}

/* Room for two, cleared, since the bytes between fields are compared as well. */
static cl_int make_room(const dhow_host *host, dhowi_cl_form *form, size_t bytes) {
    if (form->values_bytes == bytes) return CL_SUCCESS;
    dhowi_cl_delete(host, form->values);
    form->values_bytes = 0;
    form->values_known = false;
    form->values = dhowi_cl_new(host, 2 * bytes);
    if (form->values == NULL) return CL_OUT_OF_HOST_MEMORY;
    memset(form->values, 0, 2 * bytes);
    form->values_bytes = bytes;
    return CL_SUCCESS;
}

cl_int dhowi_cl_set_values(const dhow_host *host, dhowi_cl_form *form, cl_uint at,
                           const dhow_arg *args, uint32_t count) {
    const size_t bytes = lay_out(NULL, args, count);
    cl_int code = make_room(host, form, bytes);
    if (code != CL_SUCCESS) return code;
    unsigned char *next = form->values + bytes;
    (void)lay_out(next, args, count);
    if (form->values_known && memcmp(form->values, next, bytes) == 0) return CL_SUCCESS;
    code = dhowi_cl.SetKernelArg(form->kernel, at, bytes, next);
    form->values_known = code == CL_SUCCESS;
    memcpy(form->values, next, bytes);
    return code;
}
