/* SPDX-License-Identifier: Apache-2.0
 *
 * See map.h.
 */
#include "ops/run/map.h"

#include <string.h>

#include "base/memory/size.h"
#include "ops/run/rows.h"

uint32_t dhowi_map_constants(dhowi_map_op op) {
    switch (op) {
#define CASE(name, number, constants, text) \
    case DHOWI_MAP_##name:                  \
        return constants;
        DHOWI_MAP_OPS(CASE)
#undef CASE
        default:
            return 0;
    }
}

bool dhowi_program_add(dhowi_program *p, dhowi_map_op op, int source) {
    if (p->words == DHOWI_MAP_WORDS) return false;
    p->word[p->words++] = (uint32_t)op | (uint32_t)source << 8;
    return true;
}

bool dhowi_program_constants(dhowi_program *p, dhowi_map_op op, uint32_t count, double c,
                             double q) {
    if (p->words == DHOWI_MAP_WORDS || p->constants + count > DHOWI_MAP_CONSTANTS) return false;
    p->word[p->words++] = (uint32_t)op | (uint32_t)DHOWI_MAP_CONSTANT << 8 | p->constants << 16;
    if (count > 0) p->constant[p->constants++] = c;
    if (count > 1) p->constant[p->constants++] = q;
    return true;
}

/* A constant in the bits of the type that is computed in. */
static int64_t bits_of(dhow_dtype dtype, double value) {
    dhow_dtype real = dtype == DHOW_F16 || dtype == DHOW_BF16 ? DHOW_F32 : dtype;
    return (int64_t)dhowi_dtype_encode(real, value);
}

static void encode(const dhowi_program *p, dhow_dtype dtype, dhow_dims *out) {
    memset(out, 0, sizeof *out);
    out->rank = p->words;
    for (uint32_t i = 0; i < p->words; i++) out->shape[i] = p->word[i];
    for (uint32_t i = 0; i < p->constants; i++) out->stride[0][i] = bits_of(dtype, p->constant[i]);
}

dhow_status dhowi_run_map(const dhowi_call *call) {
    dhow_tensor *y = call->out, *operands[DHOWI_MAP_OPERANDS + 1];
    dhow_dims shape = {0}, d, f, program;
    int64_t n = 0, span = dhowi_span_of(y);
    uint32_t count = 0;
    while (count < DHOWI_MAP_OPERANDS && call->in[count] != NULL) count++;
    for (uint32_t i = 0; i < DHOWI_MAP_OPERANDS; i++) {
        operands[i] = i < count ? call->in[i] : call->in[0];
        span = DHOWI_MAX(span, dhowi_span_of(operands[i]));
    }
    operands[DHOWI_MAP_OPERANDS] = y;
    memset(&d, 0, sizeof d);
    memset(&f, 0, sizeof f);
    (void)shape;
    for (int32_t i = 0; i < y->rank; i++) {
        if (y->shape[i] == 1) continue;
        int64_t stride[DHOWI_MAP_OPERANDS + 1], last[DHOWI_MAP_OPERANDS + 1];
        bool joins = n > 0;
        for (uint32_t k = 0; k <= DHOWI_MAP_OPERANDS; k++) {
            int32_t own = i - (y->rank - operands[k]->rank);
            bool moves = own >= 0 && operands[k]->shape[own] != 1;
            stride[k] = moves ? operands[k]->strides[own] : 0;
            last[k] = n == 0                    ? 0
                      : k < 2                   ? d.stride[k][n - 1]
                      : k == DHOWI_MAP_OPERANDS ? d.stride[2][n - 1]
                                                : f.stride[k - 2][n - 1];
            joins = joins && last[k] == stride[k] * y->shape[i];
        }
        int64_t at = joins ? n - 1 : n++;
        d.shape[at] = joins ? d.shape[at] * y->shape[i] : y->shape[i];
        d.stride[0][at] = stride[0];
        d.stride[1][at] = stride[1];
        f.stride[0][at] = stride[2];
        f.stride[1][at] = stride[3];
        d.stride[2][at] = stride[DHOWI_MAP_OPERANDS];
    }
    if (n == 0) d.shape[n++] = 1;
    d.rank = n;
    f.rank = count;
    dhow_dtype dtype = y->dtype == DHOW_BOOL ? DHOW_U8 : y->dtype;
    encode(&call->attrs->program, dtype, &program);
    dhow_kernel *kernel;
    DHOWI_TRY(dhowi_op_kernel(call->op, dtype, call->stream->device, &kernel));
    const dhow_arg args[] = {dhowi_arg_buffer(operands[0], DHOW_ACCESS_READ),
                             dhowi_arg_buffer(operands[1], DHOW_ACCESS_READ),
                             dhowi_arg_buffer(operands[2], DHOW_ACCESS_READ),
                             dhowi_arg_buffer(operands[3], DHOW_ACCESS_READ),
                             dhowi_arg_buffer(y, DHOW_ACCESS_WRITE),
                             dhowi_arg_dims(&d),
                             dhowi_arg_dims(&f),
                             dhowi_arg_dims(&program)};
    dhowi_use uses[DHOWI_MAP_OPERANDS + 1] = {{y->storage, DHOW_ACCESS_WRITE}};
    for (uint32_t i = 0; i < count; i++)
        uses[1 + i] = (dhowi_use){operands[i]->storage, DHOW_ACCESS_READ};
    return dhowi_launch(call->stream, kernel, y->count, span, args, 8, uses, 1 + count);
}
