/* SPDX-License-Identifier: Apache-2.0
 *
 * Copies and fills. A copy is a box of bytes with pitches on both ends; a vendor with one- and
 * two-dimensional copies only gets it cut into those (plugins/opencl/copy.c folds it first). Host
 * ends are read and written when the copy runs: the host keeps that memory alive and unchanged
 * until then.
 */
#include "sim.h"

int32_t sim_copy(void *stream, const dhow_copy_rect *rect, dhow_error *err) {
    return simdev_copy(((sim_stream *)stream)->native, rect, err);
}

int32_t sim_fill(void *stream, uint64_t handle, uint64_t offset, uint64_t bytes, uint64_t pattern,
                 uint32_t pattern_bytes, dhow_error *err) {
    return simdev_fill(((sim_stream *)stream)->native, handle, offset, bytes, pattern,
                       pattern_bytes, err);
}

int32_t sim_can_copy(void *dst_device, void *src_device, dhow_error *err) {
    return simdev_can_copy(((sim_device *)dst_device)->native, ((sim_device *)src_device)->native,
                           err);
}

int32_t sim_peer_copy(void *stream, void *src_device, uint64_t src_handle, uint64_t src_offset,
                      uint64_t dst_handle, uint64_t dst_offset, uint64_t bytes, dhow_error *err) {
    const dhow_buffer from = {src_handle, src_offset}, to = {dst_handle, dst_offset};
    return simdev_peer_copy(((sim_stream *)stream)->native, ((sim_device *)src_device)->native,
                            from, to, bytes, err);
}
