/* SPDX-License-Identifier: Apache-2.0
 *
 * Elementwise programs. X(NAME, number in kernels/map.k, constants it takes, what it makes of the
 * accumulator v, the operand w and constants c and q).
 */
#ifndef DHOWI_OPS_MAP_H_
#define DHOWI_OPS_MAP_H_

#include "ops/run/op.h"

#define DHOWI_MAP_OPS(X)                                               \
    X(LOAD, 1, 0, "w")                                                 \
    X(ADD, 2, 0, "v + w")                                              \
    X(SUB, 3, 0, "v - w")                                              \
    X(RSUB, 4, 0, "w - v")                                             \
    X(MUL, 5, 0, "v w")                                                \
    X(DIV, 6, 0, "v / w, 0 for an integer over 0")                     \
    X(RDIV, 7, 0, "w / v")                                             \
    X(MAX, 8, 0, "the larger one, NaN if either is")                   \
    X(MIN, 9, 0, "the smaller one, NaN if either is")                  \
    X(POW, 10, 0, "v^w")                                               \
    X(RPOW, 11, 0, "w^v")                                              \
    X(FMOD, 12, 0, "remainder with the sign of v, as C")               \
    X(MOD, 13, 0, "remainder with the sign of w, as Python")           \
    X(EQ, 15, 0, "v == w")                                             \
    X(NE, 16, 0, "v != w")                                             \
    X(LT, 17, 0, "v < w")                                              \
    X(LE, 18, 0, "v <= w")                                             \
    X(GT, 19, 0, "v > w")                                              \
    X(GE, 20, 0, "v >= w")                                             \
    X(AND, 21, 0, "v and w")                                           \
    X(OR, 22, 0, "v or w")                                             \
    X(XOR, 23, 0, "v or w, not both")                                  \
    X(NOT, 24, 0, "v == 0")                                            \
    X(SELECT, 25, 0, "v where the first saved value is not 0, else w") \
    X(PRELU, 26, 0, "v, w v below 0")                                  \
    X(SAVE, 28, 0, "keeps v as the first saved value")                 \
    X(SAVE2, 29, 0, "keeps v as the second")                           \
    X(NEG, 30, 0, "-v")                                                \
    X(ABS, 31, 0, "|v|")                                               \
    X(SQRT, 32, 0, "square root")                                      \
    X(EXP, 33, 0, "e^v")                                               \
    X(LOG, 34, 0, "natural logarithm")                                 \
    X(RECIPROCAL, 35, 0, "1 / v")                                      \
    X(SIGN, 36, 0, "-1, 0 or 1")                                       \
    X(FLOOR, 37, 0, "the next integer below")                          \
    X(CEIL, 38, 0, "the next integer above")                           \
    X(ROUND, 39, 0, "the nearest integer, the even one of two")        \
    X(RELU, 40, 0, "max(v, 0)")                                        \
    X(GELU, 41, 0, "v/2 (1 + erf(v / sqrt 2))")                        \
    X(GELU_TANH, 42, 0, "its approximation by tanh")                   \
    X(SIGMOID, 43, 0, "1 / (1 + e^-v)")                                \
    X(TANH, 44, 0, "tanh v")                                           \
    X(SILU, 45, 0, "v / (1 + e^-v)")                                   \
    X(ERF, 46, 0, "the error function")                                \
    X(SIN, 47, 0, "sin v")                                             \
    X(COS, 48, 0, "cos v")                                             \
    X(TAN, 49, 0, "tan v")                                             \
    X(ASIN, 50, 0, "arcsin v")                                         \
    X(ACOS, 51, 0, "arccos v")                                         \
    X(ATAN, 52, 0, "arctan v")                                         \
    X(SINH, 53, 0, "sinh v")                                           \
    X(COSH, 54, 0, "cosh v")                                           \
    X(ASINH, 55, 0, "arsinh v")                                        \
    X(ACOSH, 56, 0, "arcosh v")                                        \
    X(ATANH, 57, 0, "artanh v")                                        \
    X(SOFTPLUS, 58, 0, "log(1 + e^v)")                                 \
    X(SOFTSIGN, 59, 0, "v / (1 + |v|)")                                \
    X(MISH, 60, 0, "v tanh(softplus(v))")                              \
    X(ELU, 61, 1, "c (e^v - 1) below 0")                               \
    X(SELU, 62, 2, "q elu(v, c)")                                      \
    X(CELU, 63, 1, "c (e^(v/c) - 1) below 0")                          \
    X(LEAKY, 64, 1, "c v below 0")                                     \
    X(HARD_SIGMOID, 65, 2, "c v + q, held between 0 and 1")            \
    X(HARD_SWISH, 66, 0, "v hard_sigmoid(v, 1/6, 1/2)")                \
    X(THRESHOLD, 67, 1, "v above c, else 0")                           \
    X(SHRINK, 68, 2, "v + q below -c, v - q above c, else 0")          \
    X(CLIP, 69, 2, "v held between c and q")                           \
    X(IS_NAN, 70, 0, "v is no number")                                 \
    X(IS_INF, 71, 2, "v is infinite: -inf if c, +inf if q")            \
    X(SQUARE, 72, 0, "v v")                                            \
    X(LINEAR, 73, 2, "c v + q")                                        \
    X(BIT_AND, 80, 0, "v & w")                                         \
    X(BIT_OR, 81, 0, "v | w")                                          \
    X(BIT_XOR, 82, 0, "v ^ w")                                         \
    X(BIT_NOT, 83, 0, "~v")                                            \
    X(SHIFT_LEFT, 84, 0, "v << w")                                     \
    X(SHIFT_RIGHT, 85, 0, "v >> w")

typedef enum dhowi_map_op {
#define DHOWI_MAP_ENUM_(name, number, constants, text) DHOWI_MAP_##name = number,
    DHOWI_MAP_OPS(DHOWI_MAP_ENUM_)
#undef DHOWI_MAP_ENUM_
} dhowi_map_op;

/* Operands of an instruction: 0 to 3 are inputs. */
enum { DHOWI_MAP_CONSTANT = 4, DHOWI_MAP_SAVED = 5, DHOWI_MAP_SAVED2 = 6 };

/* Appends an instruction; false when the program is full. A program begins with input 0 in v. */
bool dhowi_program_add(dhowi_program *p, dhowi_map_op op, int source);
/* The same with a constant as operand, or with constants of its own. */
bool dhowi_program_constants(dhowi_program *p, dhowi_map_op op, uint32_t count, double c, double q);
/* Whether a device has the kernel of programs on codes: a plugin that is older may have none. */
bool dhowi_maps_codes(dhow_device *device);
/* The same of the kernels that compute a scale, and make codes by it. */
bool dhowi_quantizes(dhow_device *device);
bool dhowi_averages_codes(dhow_device *device);
/* Constants that an operation takes besides its operand. */
uint32_t dhowi_map_constants(dhowi_map_op op);

#endif /* DHOWI_OPS_MAP_H_ */
