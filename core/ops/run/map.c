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

/* The operands as the kernel has them: strides of a, b and y in d, of c and e in f. */
typedef struct map_dims {
    dhow_dims d, f;
} map_dims;

static int64_t *strides_of(map_dims *m, uint32_t operand) {
    return operand < 2                     ? m->d.stride[operand]
           : operand == DHOWI_MAP_OPERANDS ? m->d.stride[2]
                                           : m->f.stride[operand - 2];
}

/* Shape and strides, with dimensions merged. */
static void lay_out(map_dims *m, dhow_tensor *const *operands) {
    const dhow_tensor *y = operands[DHOWI_MAP_OPERANDS];
    int64_t n = 0;
    memset(m, 0, sizeof *m);
    for (int32_t i = 0; i < y->rank; i++) {
        if (y->shape[i] == 1) continue;
        int64_t stride[DHOWI_MAP_OPERANDS + 1];
        bool joins = n > 0;
        for (uint32_t k = 0; k <= DHOWI_MAP_OPERANDS; k++) {
            int32_t own = i - (y->rank - operands[k]->rank);
            bool moves = own >= 0 && operands[k]->shape[own] != 1;
            stride[k] = moves ? operands[k]->strides[own] : 0;
            joins = joins && strides_of(m, k)[n - 1] == stride[k] * y->shape[i];
        }
        int64_t at = joins ? n - 1 : n++;
        m->d.shape[at] = joins ? m->d.shape[at] * y->shape[i] : y->shape[i];
        for (uint32_t k = 0; k <= DHOWI_MAP_OPERANDS; k++) strides_of(m, k)[at] = stride[k];
    }
    if (n == 0) m->d.shape[n++] = 1;
    m->d.rank = n;
}

/* Says where items may take packs instead of elements. */
static void mark_packs(map_dims *m, dhow_dtype dtype, dhow_dims *program) {
    const int64_t *strides[DHOWI_MAP_OPERANDS];
    for (uint32_t k = 0; k < DHOWI_MAP_OPERANDS; k++) strides[k] = strides_of(m, k);
    const dhowi_packs packs =
        dhowi_packs_of(&m->d, strides, DHOWI_MAP_OPERANDS, m->d.stride[2], dtype);
    m->d.offset[2] = packs.mode;
    for (int k = 0; k < 2; k++) {
        m->d.offset[k] = packs.kind[k];
        m->f.offset[k] = packs.kind[2 + k];
    }
    program->offset[0] = packs.length;
    program->offset[1] = packs.multiplier;
}

/* What a call's kernel is launched with. */
typedef struct map_launch {
    dhow_tensor *operands[DHOWI_MAP_OPERANDS + 1];
    uint32_t count; /* of the inputs; the first stands for those that are not there */
    int64_t span;
    map_dims m;
    dhow_dims program;
} map_launch;

static void take_operands(const dhowi_call *call, map_launch *l) {
    l->count = 0;
    while (l->count < DHOWI_MAP_OPERANDS && call->in[l->count] != NULL) l->count++;
    l->operands[DHOWI_MAP_OPERANDS] = call->out;
    l->span = dhowi_span_of(call->out);
    for (uint32_t i = 0; i < DHOWI_MAP_OPERANDS; i++) {
        l->operands[i] = i < l->count ? call->in[i] : call->in[0];
        l->span = DHOWI_MAX(l->span, dhowi_span_of(l->operands[i]));
    }
    lay_out(&l->m, l->operands);
    l->m.f.rank = l->count;
}

static dhow_status launch(const dhowi_call *call, map_launch *l, dhow_kernel *kernel) {
    dhow_tensor *const *o = l->operands, *y = call->out;
    const int64_t span = dhowi_multipliers(call->stream->device, &l->m.d, l->span, l->m.f.shape);
    const dhow_arg args[] = {dhowi_arg_buffer(o[0], DHOW_ACCESS_READ),
                             dhowi_arg_buffer(o[1], DHOW_ACCESS_READ),
                             dhowi_arg_buffer(o[2], DHOW_ACCESS_READ),
                             dhowi_arg_buffer(o[3], DHOW_ACCESS_READ),
                             dhowi_arg_buffer(y, DHOW_ACCESS_WRITE),
                             dhowi_arg_dims(&l->m.d),
                             dhowi_arg_dims(&l->m.f),
                             dhowi_arg_dims(&l->program)};
    dhowi_use uses[DHOWI_MAP_OPERANDS + 1] = {dhowi_use_of(y, DHOW_ACCESS_WRITE)};
    for (uint32_t i = 0; i < l->count; i++)
        uses[1 + i] = (dhowi_use){o[i]->storage, DHOW_ACCESS_READ};
    return dhowi_launch(call->stream, kernel, y->count, span, args, 8, uses, 1 + l->count);
}

dhow_status dhowi_run_map(const dhowi_call *call) {
    const dhow_dtype own = call->out->dtype, dtype = own == DHOW_BOOL ? DHOW_U8 : own;
    map_launch l;
    dhow_kernel *kernel;
    take_operands(call, &l);
    encode(&call->attrs->program, dtype, &l.program);
    mark_packs(&l.m, dtype, &l.program);
    l.m.f.offset[2] = call->attrs->program.word[0] == DHOWI_MAP_LOAD;
    DHOWI_TRY(dhowi_op_kernel(call->op, dtype, call->stream->device, &kernel));
    return launch(call, &l, kernel);
}

/* ---- codes ---- */

static int64_t kind_of(dhow_dtype dtype) {
    return dtype == DHOW_U8 ? 1 : dtype == DHOW_I8 ? 2 : dtype == DHOW_I32 ? 3 : 0;
}

/* What operand or result o is, as the kernel has it. */
static void encode_kind(const dhowi_coded *coded, uint32_t o, dhow_dtype dtype, dhow_dims *out) {
    const int64_t kind = kind_of(dtype);
    out->stride[1][o] = bits_of(DHOW_F32, (double)coded->scale[o]);
    out->stride[2][o] = kind << 32 | bits_of(DHOW_F32, (double)coded->zero[o]);
}

static bool has_kernel(dhow_device *device, const char *name) {
    dhow_kernel *kernel;
    void *native;
    return dhowi_kernel_of(device, name, DHOW_F32, &kernel) == DHOW_OK &&
           dhowi_kernel_native(kernel, dhowi_index_width(device, 0), &native) == DHOW_OK;
}

bool dhowi_maps_codes(dhow_device *device) { return has_kernel(device, "map_codes"); }

bool dhowi_quantizes(dhow_device *device) {
    return has_kernel(device, "quantize") && has_kernel(device, "scale_of_range");
}

bool dhowi_averages_codes(dhow_device *device) { return has_kernel(device, "mean_codes"); }

dhow_status dhowi_run_map_codes(const dhowi_call *call) {
    const dhowi_coded *coded = &call->attrs->coded;
    map_launch l;
    dhow_kernel *kernel;
    take_operands(call, &l);
    encode(&coded->program, DHOW_F32, &l.program);
    for (uint32_t i = 0; i <= DHOWI_MAP_OPERANDS; i++)
        encode_kind(coded, i, l.operands[i]->dtype, &l.program);
    DHOWI_TRY(dhowi_kernel_of(call->stream->device, "map_codes", DHOW_F32, &kernel));
    return launch(call, &l, kernel);
}
