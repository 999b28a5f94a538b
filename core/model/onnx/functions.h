/* SPDX-License-Identifier: Apache-2.0
 *
 * Functions of a file.
 */
#ifndef DHOWI_MODEL_ONNX_FUNCTIONS_H_
#define DHOWI_MODEL_ONNX_FUNCTIONS_H_

#include "model/graph/model.h"

/* Puts the nodes of the file's functions in the place of the nodes that call them, for which the
 * arena of the model may grow: CORRUPT, UNSUPPORTED for calls without an end, OUT_OF_MEMORY. */
dhow_status dhowi_inline_functions(dhowi_onnx_file *file, dhowi_arena *model);

#endif /* DHOWI_MODEL_ONNX_FUNCTIONS_H_ */
