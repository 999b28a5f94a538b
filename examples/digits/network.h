/* SPDX-License-Identifier: Apache-2.0
 *
 * The network of this folder: two convolutions and two linear layers, 15 thousand parameters.
 */
#ifndef DIGITS_NETWORK_H_
#define DIGITS_NETWORK_H_

#include "dhow/dhow.h"

enum { DIGITS_CLASSES = 10, DIGITS_SIDE = 8 };

/* image f32[n, 1, 8, 8] to logits f32[n, 10]; parameters are 0. */
dhow_status digits_network(dhow_context *context, dhow_model **out);

#endif /* DIGITS_NETWORK_H_ */
