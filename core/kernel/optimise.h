/* SPDX-License-Identifier: Apache-2.0
 *
 * Optimisations that can be switched off, each by itself, so that tests can compare both ways. A
 * program cannot: what is optimised computes the same. (But SPLITS, by DHOW_SPLITS: sums differ in
 * their last digits.)
 */
#ifndef DHOWI_OPS_OPTIMISE_H_
#define DHOWI_OPS_OPTIMISE_H_

#include <stdbool.h>
#include <stdint.h>

/* X(NAME, bit, what it does) */
#define DHOWI_OPTIMISATIONS(X)                                                           \
    X(VENDOR, 0, "products and convolutions by vendor libraries")                        \
    X(NORMS, 1, "a normalisation in single nodes becomes one step")                      \
    X(WEIGHTS, 2, "scales and biases go into the weights before them")                   \
    X(NUMBERS, 3, "known single numbers become constants of a program")                  \
    X(CHAINS, 4, "elementwise steps become one")                                         \
    X(ACTIVATIONS, 5, "GELU spelt in single operations becomes one")                     \
    X(ENDS, 6, "activations and residuals become the end of a product")                  \
    X(LAYOUTS, 7, "images keep the layout that convolutions like")                       \
    X(IN_PLACE, 8, "elementwise steps write over an input")                              \
    X(ARENA, 9, "buffers that do not live at once share memory")                         \
    X(SHARES, 10, "items of GPUs take several elements of a row")                        \
    X(MULTIPLIERS, 11, "GPUs divide by extents by multiplying")                          \
    X(PARTS, 12, "maps of values side by side go part by part")                          \
    X(PRODUCTS, 13, "products of one value with weights side by side become one")        \
    X(ATTENTION, 14, "attention is one step, without scores in memory")                  \
    X(TILED_CONV, 15, "convolution without a library is a product of tiles")             \
    X(INTEGERS, 16, "quantised values are computed with as integers")                    \
    X(CACHES, 17, "caches that an output shares with an input are written in place")     \
    X(STARTS, 18, "a convolution reads its image through an activation")                 \
    X(RECURRENT, 19, "all time steps of a recurrent layer are one step on processors")   \
    X(SHEDDING, 20, "weights are not kept beside what was packed of them")               \
    X(SPLITS, 21, "long rows of few results are cut into parts for several groups")      \
    X(PADS, 22, "zeros around an image become the padding of its convolution")           \
    X(ROWS, 23, "rows beside convolutions are taken for images")                         \
    X(OPERANDS, 24, "rows of softmax and norms take scale, mask and residual on GPUs")   \
    X(BRANCHES, 25, "convolutions of one image whose results are added become one")      \
    X(VOLUMES, 26, "windows over volumes are taken for windows over images")             \
    X(SEGMENTS, 27, "steps before a value that decides on shapes are optimised as well") \
    X(WIDE, 28, "models of 16-bit floats are computed in f32 on the CPU")

enum {
#define DHOWI_OPTIMISATION_ENUM_(name, bit, text) DHOWI_OPTIMISE_##name = 1 << bit,
    DHOWI_OPTIMISATIONS(DHOWI_OPTIMISATION_ENUM_)
#undef DHOWI_OPTIMISATION_ENUM_
#define DHOWI_OPTIMISATION_BIT_(name, bit, text) | 1 << bit
        DHOWI_OPTIMISE_ALL = 0 DHOWI_OPTIMISATIONS(DHOWI_OPTIMISATION_BIT_)
#undef DHOWI_OPTIMISATION_BIT_
};

/* What is switched on. Set by tests alone, while nothing else uses the library; plans that exist
 * stay as they are. */
extern uint32_t dhowi_optimisations;
/* Weights of fewer bytes are kept in any case: 64 KiB, unless a test has it otherwise. */
extern uint64_t dhowi_least_shed;

static inline bool dhowi_optimises(uint32_t which) { return (dhowi_optimisations & which) != 0; }

#endif /* DHOWI_OPS_OPTIMISE_H_ */
