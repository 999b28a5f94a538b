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
    GENERATE_BYTES = 256,       /* what a token may be */
    GENERATE_HEAD_FEATURES = 32 /* of each head of attention */
};

/* What a network is made for; its weights tell it. */
typedef struct generate_size {
    int64_t layers, width, context; /* blocks; features of a byte; bytes that it looks back on */
} generate_size;

/* tokens i64[n, context] to logits f32[n, 256, context], as a loss by class takes them. */
dhow_status generate_network_to_train(dhow_context *context, const generate_size *size,
                                      dhow_model **out);

/* tokens i64[1, context] and last i64[1], the place of the last one that counts, to logits
 * f32[1, 256] of the byte that follows it. */
dhow_status generate_network_to_run(dhow_context *context, const generate_size *size,
                                    dhow_model **out);

/* The size of the network whose weights a file has. */
dhow_status generate_size_of(dhow_context *context, const char *path, generate_size *out);

#endif /* GENERATE_NETWORK_H_ */
