/* SPDX-License-Identifier: Apache-2.0
 *
 * What both programs do with dhow: a model that finds the edges of a picture, and its answer on the
 * CPU to compare with.
 */
#ifndef EXAMPLES_INTEROP_EDGES_H_
#define EXAMPLES_INTEROP_EDGES_H_

#include "dhow/dhow.h"

enum { WIDTH = 256, HEIGHT = 192, PIXELS = WIDTH * HEIGHT, PICTURE_BYTES = PIXELS * 4 };

/* The device that --device names, else `usual`; NULL after a word on how the program is called. */
const char *device_named(int argc, char **argv, const char *usual);

/* Prints "interop: <what>: <dhow's message>" and returns 0. */
int give_up(const char *what);

/* What dhow knows of the program: its stream or queue, its two pictures, and the model. */
typedef struct wrapped {
    dhow_stream *stream;
    dhow_model *model;
    dhow_tensor *picture, *edges; /* [1, 1, HEIGHT, WIDTH] over the program's device memory */
} wrapped;

/* Numbers are the vendor's own handles of the program's objects, which stay the program's. */
int wrap_program(dhow_device *device, uint64_t stream, uint64_t picture, uint64_t edges,
                 wrapped *out);
/* Submits the model behind what the program has submitted; nobody waits. */
int find_edges(wrapped *w);
/* Also of one that could not be wrapped. */
void unwrap_program(wrapped *w);

/* Computes the picture's edges on the CPU, compares and prints the result. */
int check_edges(dhow_context *context, const float *picture, const float *edges);

#endif /* EXAMPLES_INTEROP_EDGES_H_ */
