/* SPDX-License-Identifier: Apache-2.0
 *
 * The network of this folder: a transformer that says of each byte of a text which one follows
 * (Radford et al., 2019): embeddings of bytes and of their places, blocks of causal attention and
 * two linear layers, each behind a layer norm and added to what it was given, a linear layer.
 */
#ifndef GENERATE_NETWORK_H_
#define GENERATE_NETWORK_H_

#include "dhow/dhow.h"

enum {
    GENERATE_BYTES = 256,        /* what a token may be */
    GENERATE_HEAD_FEATURES = 32, /* of each head of attention */
    GENERATE_MAX_LAYERS = 64
};

/* What a network is made for; its weights tell it. */
typedef struct generate_size {
    int64_t layers, width, context; /* blocks; features of a byte; bytes that it looks back on */
} generate_size;

/* tokens i64[n, context] to logits f32[n, 256, context], as a loss by class takes them. */
dhow_status generate_network_to_train(dhow_context *context, const generate_size *size,
                                      dhow_model **out);

/* tokens i64[1, n] with places i64[1, n] in the text, of which the first is start i64[1] and one
 * more than the last length i64[1], then keys.0, values.0, ... f32[1, heads, context, 32] of what
 * was read before; to new_keys.0, new_values.0, ..., and in the end logits f32[1, 256] of the byte
 * that follows. A run gives one tensor for keys.0 and new_keys.0, and so on: it writes n rows of
 * each, and nothing depends on how many there are but the numbers. */
dhow_status generate_network_to_run(dhow_context *context, const generate_size *size,
                                    dhow_model **out);

/* The size of the network whose weights a file has. */
dhow_status generate_size_of(dhow_context *context, const char *path, generate_size *out);

#endif /* GENERATE_NETWORK_H_ */
