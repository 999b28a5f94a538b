/* SPDX-License-Identifier: Apache-2.0
 *
 * What the builders of steps and of layers share. A layer that cannot be built adds nothing.
 */
#ifndef DHOWI_MODEL_BUILD_H_
#define DHOWI_MODEL_BUILD_H_

#include "dhow/model_steps.h"
#include "model/operators/nn/layer.h"
#include "model/operators/row.h"

enum { DHOWI_LAYER_INPUTS = 12, DHOWI_LAYER_NAME = 128 };

/* What a model held before a layer or several steps. */
typedef struct dhowi_build_mark {
    uint32_t values, parameters, nodes;
} dhowi_build_mark;

/* A step that is an operator of ONNX: its lowering, kernels and checks of values are those of
 * models from files. What fails on the way is kept until dhowi_step_end(), which takes away what
 * the step had added. */
enum { DHOWI_STEP_ATTRIBUTES = 8 };
typedef struct dhowi_build_step {
    const char *function, *op, *layer; /* for messages; the operator's name; NULL or the layer's */
    dhow_status status;
    dhowi_build_mark mark;
    int32_t in[DHOWI_LAYER_INPUTS]; /* -1: not given */
    dhowi_onnx_attribute attributes[DHOWI_STEP_ATTRIBUTES];
    dhowi_tensor_desc result[2]; /* the first one is set to that of the first input */
    uint32_t in_count, attribute_count, result_count;
} dhowi_build_step;

/* Refuses inputs that are no values of the model or have no known rank; *out = -1. */
dhow_status dhowi_step_begin(dhow_model *m, dhowi_build_step *s, const char *function,
                             const char *op, const int32_t *in, uint32_t count,
                             dhow_model_value *out);
void dhowi_step_int(dhowi_build_step *s, const char *name, int64_t value);
void dhowi_step_float(dhowi_build_step *s, const char *name, float value);
void dhowi_step_text(dhowi_build_step *s, const char *name, const char *value);
void dhowi_step_ints(dhow_model *m, dhowi_build_step *s, const char *name, const int64_t *values,
                     uint32_t count);
/* A further input of constant values; `rank` is 0 for one number. */
void dhowi_step_constant(dhow_model *m, dhowi_build_step *s, dhow_dtype dtype, int32_t rank,
                         int64_t count, const void *data);
/* `out` has room for s->result_count values, 1 if nothing else was said. */
dhow_status dhowi_step_end(dhow_model *m, dhowi_build_step *s, dhow_model_value *out);

/* *out = -1; refuses a model that is complete. */
dhow_status dhowi_build_begin(dhow_model *m, const char *function, dhow_model_value *out);
dhow_status dhowi_build_value(const dhow_model *m, const char *function, dhow_model_value value);
dhow_status dhowi_build_extent(const char *function, const char *what, int64_t extent);
/* A parameter "<scopes><owner>.<name>" with all elements of a value. */
dhow_status dhowi_build_parameter(dhow_model *m, const char *function, const char *owner,
                                  const char *name, const dhowi_tensor_desc *desc, double value,
                                  int32_t *out);
dhow_status dhowi_build_node(dhow_model *m, const dhowi_operator *op, const char *layer,
                             const int32_t *in, uint32_t count, const dhowi_attrs *attrs,
                             const dhowi_tensor_desc *result, dhow_model_value *out);
/* `source` has the attributes. */
dhow_status dhowi_build_operator(dhow_model *m, const dhowi_build_step *s, const dhowi_operator *op,
                                 const dhowi_onnx_node *source, dhow_model_value *out);
/* A value that no step computes: one number, or a row of them. */
dhow_status dhowi_build_constant(dhow_model *m, dhow_dtype dtype, int32_t rank, int64_t count,
                                 const void *data, int32_t *out);
dhowi_build_mark dhowi_build_here(const dhow_model *m);
/* Takes away what came since; returns the status. */
dhow_status dhowi_build_undo(dhow_model *m, dhowi_build_mark mark, dhow_status status);

/* Steps that eager functions are as well; `function` begins messages. */
dhow_status dhowi_build_index_select(dhow_model *m, const char *function, dhow_model_value x,
                                     int32_t dim, dhow_model_value index, dhow_model_value *out);
dhow_status dhowi_build_embedding(dhow_model *m, const char *function, dhow_model_value index,
                                  dhow_model_value weight, dhow_model_value *out);
dhow_status dhowi_build_take_along_dim(dhow_model *m, const char *function, dhow_model_value x,
                                       dhow_model_value index, int32_t dim, dhow_model_value *out);
dhow_status dhowi_build_scatter(dhow_model *m, const char *function, dhow_model_value x,
                                int32_t dim, dhow_model_value index, dhow_model_value source,
                                dhow_scatter_mode reduce, dhow_model_value *out);
dhow_status dhowi_build_pad(dhow_model *m, const char *function, dhow_model_value x,
                            const int64_t *pads, uint32_t count, dhow_pad_mode mode, double value,
                            dhow_model_value *out);
/* in: x, weight, bias or -1 */
dhow_status dhowi_build_conv(dhow_model *m, const char *function, const char *layer,
                             const int32_t in[3], int spatial, bool transposed,
                             const dhow_conv_options *options, dhow_model_value *out);
dhow_status dhowi_build_interpolate(dhow_model *m, const char *function, dhow_model_value x,
                                    const int64_t *size, const double *scales,
                                    dhow_interpolation mode, int32_t align_corners,
                                    dhow_model_value *out);
/* in: x, weight, bias, running mean, running variance */
dhow_status dhowi_build_batchnorm(dhow_model *m, const char *function, const int32_t in[5],
                                  float eps, dhow_model_value *out);
dhow_status dhowi_build_groupnorm(dhow_model *m, const char *function, const char *layer,
                                  const int32_t in[3], int64_t groups, float eps,
                                  dhow_model_value *out);
/* x and the key of the mask; -1: x itself until it is trained */
dhow_status dhowi_build_dropout(dhow_model *m, const char *function, const int32_t in[2], double p,
                                dhow_model_value *out);
dhow_status dhowi_build_rmsnorm(dhow_model *m, const char *function, const char *layer,
                                const int32_t in[2], float eps, dhow_model_value *out);
/* in: query, key, value, mask or -1 */
dhow_status dhowi_build_attention(dhow_model *m, const char *function, const int32_t in[4],
                                  int32_t is_causal, double scale, dhow_model_value *out);

#endif /* DHOWI_MODEL_BUILD_H_ */
