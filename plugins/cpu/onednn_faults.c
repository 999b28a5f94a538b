/* SPDX-License-Identifier: Apache-2.0
 *
 * What implementations of oneDNN compute wrong: sums of bytes, shapes of convolutions.
 */
#include <string.h>

#include "onednn.h"

int onednn_is_called(dnnl_primitive_desc_t pd, const char *part) {
    const char *name = NULL;
    return onednn_loaded.dnnl_primitive_desc_query(pd, dnnl_query_impl_info_str, 0, &name) ==
               dnnl_success &&
           name != NULL && strstr(name, part) != NULL;
}

int onednn_adds_bytes(const onednn_library *dnnl) {
    return onednn_computes_with(dnnl, dnnl_cpu_isa_avx512_core_vnni) ||
           onednn_computes_with(dnnl, dnnl_cpu_isa_avx2_vnni);
}

/* Convolutions by "brg" of one channel read other rows where those of the result hold one element
 * and the two strides differ: in 382 of 101,940 shapes with oneDNN 3.7. */
static int reads_wrong_rows(dnnl_primitive_desc_t pd, const dhow_conv_desc *d) {
    return d->c == 1 && onednn_extent(d, 1) == 1 && d->stride[0] != d->stride[1] &&
           onednn_is_called(pd, "brg");
}

/* Whether a row of the result (i = 0) or a column (1) sees nothing but padding. */
static int sees_padding_alone(const dhow_conv_desc *d, int i) {
    const int64_t results = onednn_extent(d, i);
    const int64_t extent = i == 0 ? d->h : d->w, kernel = i == 0 ? d->kh : d->kw;
    for (int64_t r = 0; r < results; r++) {
        int64_t t = 0, at = r * d->stride[i] - d->pad[i];
        for (; t < kernel && (at < 0 || at >= extent); t++) at += d->dilation[i];
        if (t == kernel) return 1;
    }
    return 0;
}

/* Convolutions by "brg" go wrong there: with oneDNN 2.6 they crash where the activation needs
 * constants, and add other elements of a sum. */
static int stumbles_over_padding(dnnl_primitive_desc_t pd, const dhow_conv_desc *d) {
    return onednn_is_called(pd, "brg") && (sees_padding_alone(d, 0) || sees_padding_alone(d, 1));
}

int onednn_conv_is_wrong(dnnl_primitive_desc_t pd, const dhow_conv_desc *d) {
    return reads_wrong_rows(pd, d) || stumbles_over_padding(pd, d);
}

/* Convolutions of bytes in groups take numbers of other channels into a post-op where a group's
 * results fill some blocks of 16 channels, and one in part: in all shapes of groups of 33 results
 * with oneDNN 2.6. */
int onednn_integers_are_wrong(const dhow_conv_desc *d) {
    const int64_t results = d->k / d->groups;
    return d->groups > 1 && results > 16 && results % 16 != 0;
}
