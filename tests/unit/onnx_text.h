/* SPDX-License-Identifier: Apache-2.0
 *
 * Graphs of ONNX files from short texts, for tests with many of them. Statements end at ';':
 *
 *   input x 8 -1        a float input, -1 for an open extent
 *   output y            an output of any shape
 *   ints s 2 3          an initializer: int64 of rank 1
 *   number n 7          an initializer: an int64 scalar
 *   floats w 2 3        an initializer: floats 0.1, 0.2, ... of rank 1 or 2
 *   double x 8 3        an input of f64
 *   result y 8 3        an output of f64
 *   doubles w 2 3 4     an initializer of f64: between -1 and 1, none near 0
 *   node Op name a b -> c d  axis=1 pads=0,1 scale=0.5 mode='linear' body={ ... }
 *
 * An attribute with a comma is a list (`axes=1,` is one of length 1), one with a point a float; '-'
 * is an input that is left out.
 */
#ifndef TESTS_UNIT_ONNX_TEXT_H_
#define TESTS_UNIT_ONNX_TEXT_H_

#include "onnx_writer.h"

bytes graph_of_text(const char *text);

#endif /* TESTS_UNIT_ONNX_TEXT_H_ */
