/* SPDX-License-Identifier: Apache-2.0
 *
 * Arrays in which tensors of a model lie side by side.
 */
#include "base/memory/size.h"
#include "dhow/copy.h"
#include "dhow/create.h"
#include "tensor/tensor.h"
#include "train/train.h"

enum { APART = 64 }; /* bytes: where a tensor may begin */

int64_t dhowi_flat_take(dhow_dtype dtype, const dhowi_tensor_desc *desc, int64_t *count) {
    const int64_t apart = APART / (int64_t)dhow_dtype_bytes(dtype), first = *count;
    *count += dhowi_ceil_div(dhowi_count_of(desc), apart) * apart;
    return first;
}

dhow_status dhowi_flat(const dhow_trainer *t, int64_t count, dhow_tensor **out) {
    DHOWI_TRY(dhowi_tensor_new(t->graph->device, t->dtype, 1, &count, out));
    return count > 0 ? dhow_fill(NULL, *out, 0) : DHOW_OK;
}

dhow_status dhowi_flat_part(const dhow_trainer *t, int32_t value, int64_t first, dhow_tensor *whole,
                            dhow_tensor **out) {
    const dhowi_tensor_desc *desc = &t->model->values[value].desc;
    dhow_tensor *line;
    DHOWI_TRY(dhow_tensor_narrow(whole, 0, first, dhowi_count_of(desc), &line));
    dhow_status status = dhow_tensor_reshape(line, desc->rank, desc->shape, out);
    dhow_tensor_release(line);
    return status;
}

dhow_status dhowi_flat_copy_in(const dhow_trainer *t, int32_t value, dhow_tensor *part) {
    dhow_tensor *host;
    DHOWI_TRY(dhowi_model_tensor(t->model, &t->model->values[value], &host));
    return host->count > 0 ? dhow_copy(host, part) : DHOW_OK;
}
