/* SPDX-License-Identifier: Apache-2.0
 *
 * A device's vendor extensions for matrix products and convolution, with the plans that were used
 * last. Where a plan is refused the portable kernel runs.
 */
#ifndef DHOWI_OPS_VENDOR_H_
#define DHOWI_OPS_VENDOR_H_

#include "ops/run/op.h"

typedef struct dhowi_vendor_plan {
    struct dhowi_vendor_plan *next;
    bool conv;
    uint64_t hash, used;    /* used: by which look-up last */
    uint64_t serial;        /* no two plans of a device have the same */
    _Atomic uint32_t users; /* the device's list, callers, recorded commands */
    void (*destroy)(void *native);
    union {
        dhow_blas_desc blas;
        dhow_conv_desc conv;
    } desc;
    void *native;                      /* NULL: refused, or another's */
    struct dhowi_vendor_plan *settled; /* of any layouts: the plan of those it settled on */
    uint64_t workspace_bytes, packed_bytes;
    uint64_t packed_form;            /* the same for plans that pack a weight alike */
    uint32_t src_layout, dst_layout; /* of a convolution */
} dhowi_vendor_plan;

const dhow_blas *dhowi_blas_of(dhow_device *device);
const dhow_conv *dhowi_conv_of(dhow_device *device);

/* The plan of a description, made on first use; *out is NULL when the extension is missing or
 * refuses, else release it with dhowi_vendor_plan_drop(). Of the plans that nobody holds a device
 * keeps the latest. */
dhow_status dhowi_blas_plan(dhow_device *device, const dhow_blas_desc *desc,
                            const dhowi_vendor_plan **out);
dhow_status dhowi_conv_plan(dhow_device *device, const dhow_conv_desc *desc,
                            const dhowi_vendor_plan **out);

void dhowi_vendor_plan_drop(const dhowi_vendor_plan *plan);

/* The packed form of a frozen tensor for a plan, kept beside its storage and shared by plans that
 * pack alike; release it. */
dhow_status dhowi_vendor_plan_packed(dhow_stream *stream, const dhowi_vendor_plan *plan,
                                     dhow_tensor *weight, dhowi_storage **out);

/* Submits a plan: packs the weight `b` on first use and takes a workspace where the plan wants
 * them. bias and residual may be NULL. */
dhow_status dhowi_vendor_plan_run(dhow_stream *stream, const dhowi_vendor_plan *plan,
                                  dhow_tensor *a, dhow_tensor *b, dhow_tensor *c, dhow_tensor *bias,
                                  dhow_tensor *residual);

/* A convolution over attrs->space, or its transpose; *done says whether the vendor took it. */
dhow_status dhowi_conv_in_space(const dhowi_call *call, bool transposed, bool *done);

static inline dhow_buffer dhowi_buffer_of(const dhow_tensor *t) {
    if (t == NULL) return (dhow_buffer){0, 0};
    return (dhow_buffer){t->storage->native, dhowi_tensor_offset_bytes(t)};
}

#endif /* DHOWI_OPS_VENDOR_H_ */
