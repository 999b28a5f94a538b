/* SPDX-License-Identifier: Apache-2.0
 *
 * Packed weights that plans of dhow.blas/1 and dhow.conv/1 share, since they say that they pack
 * alike: the bytes are the same, whatever the size of the other operand.
 */
#include <string.h>

#include "vendor.h"

enum { WEIGHT = 64 * 64 * 9, SIZES = 5 };

typedef struct packed_weight {
    uint64_t number, bytes;
    unsigned char *content;
} packed_weight;

typedef struct packer {
    void *plan;
    int32_t (*pack)(void *plan, void *stream, dhow_buffer weight, dhow_buffer packed,
                    dhow_error *err);
    void (*destroy)(void *plan);
    uint64_t (*packed_form)(void *plan);
    uint64_t packed_bytes;
} packer;

/* False where the table has no such plan. */
static bool plan_product(conform_env *env, int64_t rows, packer *out) {
    const dhow_blas *blas =
        API->get_extension != NULL ? API->get_extension(DEVICE, "dhow.blas/1") : NULL;
    const dhow_blas_desc d = {.struct_size = sizeof d,
                              .flags = DHOW_BLAS_CONSTANT_B,
                              .dtype_a = DHOW_F32,
                              .dtype_b = DHOW_F32,
                              .dtype_c = DHOW_F32,
                              .compute = DHOW_F32,
                              .m = rows,
                              .n = 192,
                              .k = 192,
                              .batch = 1,
                              .lda = 192,
                              .ldb = 192,
                              .ldc = 192,
                              .alpha = 1};
    uint64_t workspace;
    if (blas == NULL || blas->struct_size < sizeof *blas || blas->packed_form == NULL) return false;
    *out = (packer){.pack = blas->pack, .destroy = blas->destroy, .packed_form = blas->packed_form};
    return blas->plan(DEVICE, &d, &out->plan, &workspace, &out->packed_bytes, ERR) == DHOW_OK;
}

static bool plan_convolution(conform_env *env, int64_t width, packer *out) {
    const dhow_conv *conv =
        API->get_extension != NULL ? API->get_extension(DEVICE, "dhow.conv/1") : NULL;
    const dhow_conv_desc d = {.struct_size = sizeof d,
                              .flags = DHOW_BLAS_CONSTANT_B,
                              .dtype = DHOW_F32,
                              .weight_dtype = DHOW_F32,
                              .compute = DHOW_F32,
                              .src_layout = DHOW_LAYOUT_ANY,
                              .dst_layout = DHOW_LAYOUT_ANY,
                              .n = 1,
                              .c = 64,
                              .h = 3,
                              .w = width,
                              .k = 64,
                              .kh = 3,
                              .kw = 3,
                              .groups = 1,
                              .stride = {1, 1},
                              .dilation = {1, 1},
                              .pad = {1, 1, 1, 1}};
    dhow_conv_plan_info info = {.struct_size = sizeof info};
    if (conv == NULL || conv->struct_size < sizeof *conv || conv->packed_form == NULL) return false;
    *out = (packer){.pack = conv->pack, .destroy = conv->destroy, .packed_form = conv->packed_form};
    const bool planned = conv->plan(DEVICE, &d, &out->plan, &info, ERR) == DHOW_OK;
    out->packed_bytes = info.packed_bytes;
    return planned;
}

static conform_result pack(conform_env *env, const packer *p, void *stream, uint64_t weight,
                           packed_weight *out) {
    uint64_t packed;
    out->number = p->packed_form(p->plan);
    out->bytes = p->packed_bytes;
    out->content = conform_memory(env, p->packed_bytes);
    TRY(slot_memory(env, p->packed_bytes, &packed));
    SLOT(p->pack(p->plan, stream, (dhow_buffer){weight, 0}, (dhow_buffer){packed, 0}, ERR));
    return slot_read(env, stream, packed, 0, out->content, p->packed_bytes);
}

static conform_result compare(conform_env *env, const packed_weight *of, int64_t count,
                              const char *what) {
    for (int64_t i = 0; i < count; i++) {
        for (int64_t k = 0; k < i; k++) {
            if (of[i].number == 0 || of[i].number != of[k].number) continue;
            CHECK(of[i].bytes == of[k].bytes &&
                      memcmp(of[i].content, of[k].content, of[i].bytes) == 0,
                  "%s number %d and %d both pack as form %llu, but not alike", what, (int)k, (int)i,
                  (unsigned long long)of[i].number);
        }
    }
    return CONFORM_PASS;
}

conform_result conform_packed_forms(conform_env *env) {
    static const int64_t sizes[SIZES] = {1, 5, 24, 100, 333};
    float *values = conform_memory(env, WEIGHT * sizeof *values);
    packed_weight packed[SIZES];
    void *stream;
    uint64_t weight;
    int64_t all = 0;
    for (int i = 0; i < WEIGHT; i++) values[i] = (float)i;
    TRY(slot_stream(env, &stream));
    TRY(slot_memory(env, WEIGHT * sizeof *values, &weight));
    TRY(slot_write(env, stream, weight, 0, values, WEIGHT * sizeof *values));
    for (int convolves = 0; convolves < 2; convolves++) {
        int64_t count = 0;
        for (int i = 0; i < SIZES; i++) {
            packer p;
            if (!(convolves ? plan_convolution : plan_product)(env, sizes[i], &p)) continue;
            conform_result result = CONFORM_PASS;
            if (p.packed_bytes > 0) result = pack(env, &p, stream, weight, &packed[count++]);
            p.destroy(p.plan);
            TRY(result);
        }
        TRY(compare(env, packed, count, convolves ? "convolution" : "product"));
        all += count;
    }
    if (all == 0) return conform_unsupported(env, "nothing is packed in a form with a number");
    (void)snprintf(env->message, sizeof env->message, "%d packed weights", (int)all);
    return CONFORM_PASS;
}
