/* SPDX-License-Identifier: Apache-2.0
 *
 * See message.h and engine.h.
 */
#include <stdlib.h>
#include <string.h>

#include "engine.h"

dhow_status mpi_describe(dhow_tensor *t, message_tensor *out, void **out_data) {
    dhow_tensor_info info = DHOW_INIT(dhow_tensor_info);
    TRY(dhow_tensor_get_info(t, &info));
    *out = (message_tensor){.dtype = (int32_t)info.dtype, .rank = info.rank, .bytes = info.bytes};
    memcpy(out->shape, info.shape, sizeof out->shape);
    return dhow_tensor_host_ptr(t, out_data);
}

dhow_status mpi_make(dhow_mpi *m, const message_tensor *like, dhow_tensor **out, void **out_data) {
    if (like->rank < 0 || like->rank > DHOW_MAX_RANK)
        return dhow_set_error(DHOW_CORRUPT, "a message of another version of dhow");
    TRY(dhow_tensor_create(m->cpu, (dhow_dtype)like->dtype, like->rank, like->shape, out));
    return dhow_tensor_host_ptr(*out, out_data);
}

void mpi_release_all(dhow_tensor **tensors) {
    for (int i = 0; i < DHOW_MAX_COLUMNS; i++) {
        dhow_tensor_release(tensors[i]);
        tensors[i] = NULL;
    }
}

dhow_status mpi_check_message(const message *got, uint32_t kind, int rank) {
    if (got->magic == MESSAGE_MAGIC && got->kind == kind && got->tensor_count <= DHOW_MAX_COLUMNS)
        return DHOW_OK;
    return dhow_set_error(DHOW_INCOMPATIBLE,
                          "rank %d: an unexpected message; do all ranks run the same program and "
                          "version of dhow?",
                          rank);
}

void mpi_add(dhow_dtype dtype, void *sums, const void *more, int64_t count) {
    float *narrow = sums;
    double *wide = sums;
    for (int64_t i = 0; dtype == DHOW_F32 && i < count; i++) narrow[i] += ((const float *)more)[i];
    for (int64_t i = 0; dtype == DHOW_F64 && i < count; i++) wide[i] += ((const double *)more)[i];
}

dhow_status mpi_make_room(dhow_mpi *m, size_t bytes) {
    if (m->room_bytes >= bytes) return DHOW_OK;
    free(m->room);
    m->room_bytes = 0;
    m->room = malloc(bytes);
    if (m->room == NULL)
        return dhow_set_error(DHOW_OUT_OF_MEMORY, "rank %d: host memory is exhausted",
                              m->wire.rank);
    m->room_bytes = bytes;
    return DHOW_OK;
}
