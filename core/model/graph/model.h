/* SPDX-License-Identifier: Apache-2.0
 *
 * Models inside core: values, and nodes that compute them. A model built in C and one from a file
 * are the same thing: a node is a row of the operator table with its attributes.
 */
#ifndef DHOWI_MODEL_MODEL_H_
#define DHOWI_MODEL_MODEL_H_

#include <pthread.h>

#include "base/memory/arena.h"
#include "dhow/model.h"
#include "formats/onnx.h"
#include "model/graph/datum.h"
#include "ops/run/op.h"

typedef struct dhowi_operator dhowi_operator;
typedef struct dhowi_model_plan dhowi_model_plan;

typedef enum dhowi_value_kind {
    DHOWI_VALUE_INPUT,
    DHOWI_VALUE_PARAMETER, /* from a file, or made by the builder: has a name and a tensor */
    DHOWI_VALUE_RESULT
} dhowi_value_kind;

typedef struct dhowi_value {
    dhowi_value_kind kind;
    char *name;                      /* NULL where it has none */
    dhowi_tensor_desc desc;          /* extents of -1 are open; dtype 0: not known before a run */
    dhow_datum_kind form;            /* declared; of a sequence, desc is its elements' */
    bool optional;                   /* it may be missing */
    bool known;                      /* a parameter, or computed from parameters alone */
    _Atomic bool keyed;              /* an input whose values decide the plan */
    const dhowi_onnx_tensor *source; /* in the file, unless it was replaced */
    int64_t written[2];              /* when that file was last, see dhowi_onnx_tensor_find() */
    dhow_tensor *tensor;             /* on the CPU */
    dhow_tensor *resident;           /* on the model's device, where that is another */
    /* The same as 16-bit floats, of a model that computes in them, see dhowi_model_half(). */
    dhow_tensor *half, *half_resident;
    bool half_tried; /* no `half` then: its numbers exceed the type */
} dhowi_value;

typedef struct dhowi_subgraph dhowi_subgraph;

/* What a folding is made of, see dhowi_branch; NULL for none. */
typedef struct dhowi_folded {
    dhow_tensor *weight, *bias, *scale, *shift;
    int64_t at[3];
    bool minus;
} dhowi_folded;

/* A node's weight and bias with a scale and shift that follow it, or with those of convolutions
 * that are added to it, kept for later plans. What follows in turn is another folding of the node
 * by the result. */
typedef struct dhowi_folding {
    struct dhowi_folding *next;
    dhow_tensor *weight, *bias;
    uint32_t count;
    dhowi_folded of[];
} dhowi_folding;

typedef struct dhowi_node {
    const dhowi_operator *op;
    const char *operation;         /* "Conv", "linear"; static */
    const dhowi_onnx_node *source; /* its attributes, for nodes from a file */
    dhowi_op_id row;               /* for nodes made by the builder */
    const dhowi_attrs *attrs;
    const char *name; /* in messages, NULL when it has none */
    int32_t opset;
    int32_t *in, *out; /* values, -1 for one not given */
    uint32_t in_count, out_count;
    dhowi_subgraph *branch[2]; /* of If: then, else; or the body of a loop */
    dhowi_folding *foldings;
    bool stays_wide; /* f32 in a model that computes in 16 bits, whatever its operator says */
} dhowi_node;

struct dhowi_subgraph {
    dhowi_node *nodes;
    int32_t *inputs, *outputs; /* inputs: of a body */
    uint32_t node_count, node_capacity, input_count, output_count;
};

enum { DHOWI_SCOPE = 256, DHOWI_SCOPES = 16 };

struct dhow_model {
    dhowi_handle handle;
    char scope[DHOWI_SCOPE]; /* "encoder.layers.0.", before the names that the builder gives */
    uint32_t scope_ends[DHOWI_SCOPES], scope_count; /* its length before each */
    dhow_context *context;
    dhow_device *device;
    dhowi_arena arena;       /* of the graph */
    dhowi_onnx_file *file;   /* of the origin, where there is one */
    uint64_t external_bytes; /* read from further files */
    dhow_model *origin;      /* whose graph this is a copy of; retained */
    const dhow_model *near;  /* another copy, whose device this one's reaches: while it is placed,
                                parameters come from there; NULL: from the host */
    const char *name;        /* for messages */
    dhowi_value *values;
    uint32_t value_count, value_capacity;
    dhowi_subgraph graph;
    int32_t *inputs, *outputs, *parameters; /* values */
    char **output_names;
    uint32_t input_count, output_count, parameter_count;
    uint32_t moving; /* 1 + the parameter that is on its way to the device; 0: none */
    bool profiling;
    bool parameters_given; /* one was loaded or set */
    bool keeps_results;    /* the making of a plan left known results or foldings */
    uint64_t memory_limit; /* 0: by the sizes of the file and the inputs */
    dhow_placement placement;
    dhow_precision precision;
    _Atomic int64_t time_limit; /* of each run in nanoseconds; 0: none */
    _Atomic uint64_t cancels;   /* calls of dhow_model_cancel() */
    /* Runs of several threads, see access.c and run/cache.c: `mutex` guards what follows, `making`
     * what the making of a plan writes to - values, foldings - and is taken before it. */
    pthread_mutex_t making, mutex;
    dhowi_model_plan *plans; /* the latest used first */
    void (*end_plans)(dhow_model *m);
    uint32_t running;
    bool changing, warned;
};

dhow_status dhowi_model_check(const dhow_model *model, const char *function);
/* "Conv (node 'conv1', opset 11)", "linear (layer 'fc1')" */
const char *dhowi_node_text(const dhowi_node *node, char *buffer, size_t capacity);
/* The parameter of a name, or NULL. */
dhowi_value *dhowi_model_find_parameter(const dhow_model *model, const char *name);
/* A parameter's values on the CPU, read from the file on first use; borrowed. They stay there. */
dhow_status dhowi_model_tensor(dhow_model *model, dhowi_value *value, dhow_tensor **out);
/* The same for the making of a plan: where `later`, values that are missing are read by
 * dhowi_model_read(), and may be shed when they have been packed. */
dhow_status dhowi_model_tensor_later(dhow_model *model, dhowi_value *value, dhow_tensor **out,
                                     bool *later);
dhow_status dhowi_model_read(dhow_model *model, dhowi_value *value);
/* Its values are on their way to the device; and after the last of several such parameters. */
void dhowi_model_moved(dhow_model *model, const dhowi_value *value);
void dhowi_model_end_move(dhow_model *model);
/* The same on the model's device. */
dhow_status dhowi_model_resident(dhow_model *model, dhowi_value *value, dhow_tensor **out);
/* From where `host`, a parameter's tensor or its 16-bit one, goes to the model's device. */
dhow_tensor *dhowi_model_source(const dhow_model *model, const dhowi_value *value,
                                dhow_tensor *host);
/* ---- who runs it, who changes it ---- */

/* Whether nobody runs or changes it now; what is built is for one thread. */
dhow_status dhowi_model_check_idle(const dhow_model *model, const char *function);
/* Between these a model is changed: refused while it runs on another thread. */
dhow_status dhowi_model_begin_change(dhow_model *model, const char *function);
void dhowi_model_end_change(dhow_model *model);
/* A value of f32 as the 16-bit floats that the model computes in, made once; borrowed. NULL where
 * its numbers exceed the type, see dhowi_fits_half(). */
dhow_status dhowi_model_half(dhow_model *model, dhowi_value *value, dhow_tensor **out);
/* A value of 16-bit floats as f32, in the same place: a model computes in one or the other. *later
 * says that who reads it casts it first, where it is missing. */
dhow_status dhowi_model_wide(dhow_model *model, dhowi_value *value, dhow_tensor **out, bool *later);
/* The same on the model's device. */
dhow_status dhowi_model_half_resident(dhow_model *model, dhowi_value *value, dhow_tensor **out);
void dhowi_value_drop_half(dhowi_value *value);
/* Those of all values. */
void dhowi_model_drop_halves(dhow_model *model);
/* Whether numbers of f32 on the CPU survive as floats of 16 bits: none overflows, and they do not
 * all vanish, as an epsilon does in f16; what is added to a sum may. Infinities stay what they
 * are. */
dhow_status dhowi_fits_half(dhow_tensor *t, dhow_dtype half, bool added, bool *fits);
/* The 16-bit floats that a model of f32 computes in; 0 for none. */
static inline dhow_dtype dhowi_half_of(dhow_precision precision) {
    return precision == DHOW_PRECISION_BF16  ? DHOW_BF16
           : precision == DHOW_PRECISION_F16 ? DHOW_F16
                                             : (dhow_dtype)0;
}
static inline dhow_dtype dhowi_model_half_type(const dhow_model *m) {
    return dhowi_half_of(m->precision);
}
/* What its products and convolutions of f32 compute in. */
static inline dhowi_inside dhowi_model_inside(const dhow_model *m) {
    return m->precision == DHOW_PRECISION_DEVICE    ? DHOWI_AS_DEVICE
           : m->precision == DHOW_PRECISION_REDUCED ? DHOWI_REDUCED
                                                    : DHOWI_EXACT;
}
/* Forgets plans and everything computed from parameters. */
void dhowi_model_forget(dhow_model *model);

/* ---- making graphs ---- */

dhow_status dhowi_model_new_value(dhow_model *model, dhowi_value_kind kind, const char *name,
                                  const dhowi_tensor_desc *desc, int32_t *out);
dhow_status dhowi_model_add_output(dhow_model *model, const char *name, int32_t value);
bool dhowi_model_append(int32_t **array, uint32_t count, int32_t value);
/* Fills an empty model from a file, which becomes the model's. */
dhow_status dhowi_model_import(dhow_model *model, dhowi_onnx_file *file);

#endif /* DHOWI_MODEL_MODEL_H_ */
