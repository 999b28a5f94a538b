/* SPDX-License-Identifier: Apache-2.0
 *
 * Windows over volumes as windows over images, which have more and faster kernels.
 */
#include "base/errors/planted.h"
#include "kernel/optimise.h"
#include "model/operators/nn/nn.h"

/* Whether the result has an axis as it is. */
static bool leaves(const dhowi_window3d *s, int axis) {
    return s->kernel[axis] == 1 && s->stride[axis] == 1 && s->before[axis] == 0 &&
           s->after[axis] == 0;
}

static void copy_axis(dhowi_window3d *s, int to, int from) {
    int64_t *const all[] = {s->in, s->out, s->kernel, s->stride, s->dilation, s->before, s->after};
    for (size_t i = 0; i < sizeof all / sizeof *all; i++) all[i][to] = all[i][from];
}

static void leave_axis(dhowi_window3d *s, int axis, int64_t extent) {
    s->in[axis] = s->out[axis] = extent;
    s->kernel[axis] = s->stride[axis] = s->dilation[axis] = 1;
    s->before[axis] = s->after[axis] = 0;
}

dhowi_volume_form dhowi_volume_as_image(const dhowi_lowering *b, const dhowi_tensor_desc *x,
                                        dhowi_window3d *s) {
    if (x->rank != 5 || !dhowi_optimises(DHOWI_OPTIMISE_VOLUMES)) return DHOWI_VOLUME;
    const bool high = DHOWI_GUARD(rows_of_windows, leaves(s, 1));
    if (high && leaves(s, 2)) {
        leave_axis(s, 2, s->in[1] * s->in[2]);
        copy_axis(s, 1, 0);
    } else if (high && leaves(s, 0)) {
        leave_axis(s, 1, s->in[0] * s->in[1]);
    } else if (DHOWI_GUARD(slices_of_windows, leaves(s, 0)) && dhowi_device_is_host(b->device)) {
        return DHOWI_SLICES;
    } else {
        return DHOWI_VOLUME;
    }
    leave_axis(s, 0, 1);
    return DHOWI_JOINED;
}
