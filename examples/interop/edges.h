/* SPDX-License-Identifier: Apache-2.0
 *
 * What both programs do with dhow: a model that finds the edges of a picture, and its answer on the
 * CPU to compare with.
 */
#ifndef EXAMPLES_INTEROP_EDGES_H_
#define EXAMPLES_INTEROP_EDGES_H_

#include "dhow/dhow.h"

enum { WIDTH = 256, HEIGHT = 192, PIXELS = WIDTH * HEIGHT, PICTURE_BYTES = PIXELS * 4 };

/* Prints "interop: <what>: <dhow's message>" and returns 0. */
int give_up(const char *what);

/* y[1, 1, HEIGHT, WIDTH] = relu(conv2d(x)), with a kernel that answers where x changes. */
int make_edges(dhow_device *device, dhow_model **out);

/* A tensor [1, 1, HEIGHT, WIDTH] over the program's device memory. */
int show_picture(dhow_device *device, uint64_t native, dhow_tensor **out);

/* Computes the picture's edges on the CPU, compares and prints the result. */
int check_edges(dhow_context *context, const float *picture, const float *edges);

#endif /* EXAMPLES_INTEROP_EDGES_H_ */
