/* SPDX-License-Identifier: Apache-2.0
 *
 * Lowering: an operator of a graph becomes views and steps of the operation table, once the shapes
 * of its inputs are known. What depends on known values alone is computed at once, so shape
 * arithmetic and constants leave no steps.
 */
#ifndef DHOWI_MODEL_LOWER_H_
#define DHOWI_MODEL_LOWER_H_

#include "model/graph/model.h"
#include "ops/run/map.h"

/* A status of our own: the lowering needs the values of `wanted`, which are on the device. Not one
 * of dhow_status, so that what a lowering calls, down to the plugin, cannot have it by chance. */
#define DHOWI_NEEDS_VALUES ((dhow_status)1000)

/* A tensor inside a plan: known values, or a view of a buffer. Refs are numbers, -1 is none. */
typedef struct dhowi_item {
    dhowi_tensor_desc desc;
    int64_t strides[DHOW_MAX_RANK], offset; /* elements, in the buffer */
    bool contiguous;
    bool fixed;            /* made of constants alone, but too large to be made by the host */
    bool half;             /* 16-bit floats in place of f32, see precision.c */
    int32_t buffer;        /* -1: known */
    dhow_tensor *tensor;   /* known values, on the CPU; joined weights have theirs on the device */
    dhow_tensor *resident; /* on the device, once a step needed them there */
    int32_t value;         /* of the model, whose resident copy it shares; -1 */
    /* Of f32 that is (codes - zero) scale with codes of 8 bits: one more than these items, 0 for
     * one that there is not. Products then add up integers, see product.c. */
    int32_t codes, zero, scale;
    int32_t bytes, byte_sums, byte_shifts; /* what products add up of it, as weights; likewise */
    int32_t padding;                       /* 1 + what of `paddings` it is; 0: nothing */
    int32_t twin;          /* 1 + the item of the same values as f32 or 16-bit floats; 0: none */
    dhow_dtype wide;       /* f32 in place of these 16-bit floats, see widen.c; 0: it is not */
    dhow_datum_kind kind;  /* what is no tensor has none of the above */
    uint32_t first, count; /* of a sequence: its items, in `elements` */
    int32_t late;          /* 1 + what makes the known values when they are read; 0: nothing */
    dhow_datum *texts;
} dhowi_item;

/* An item that is another one with a value around it: zeros, also as codes, are what convolutions
 * can add by themselves. */
typedef struct dhowi_padding {
    int32_t of;
    double value;
    int64_t before[DHOW_MAX_RANK], after[DHOW_MAX_RANK]; /* 0 or more, by dimension */
} dhowi_padding;

typedef struct dhowi_buffer {
    uint64_t bytes;
    int32_t external;    /* 0, or 1 + the input, or -1 - the output that it is */
    int32_t first, last; /* steps */
    bool kept;           /* until the end of the segment */
} dhowi_buffer;

typedef struct dhowi_step {
    dhowi_op_id op;
    int32_t in[DHOWI_OP_MAX_INPUTS]; /* items, -1 for none */
    int32_t out, second;
    bool on_host; /* on the CPU, which the caller has allowed */
    const dhowi_node *node;
    dhowi_attrs attrs;
} dhowi_step;

/* i8 weights of sums: codes [results][terms], or [terms][results] where `columns`, less a zero
 * point and a shift of each result; items, -1 for none. Made [results][terms] where `turned`, else
 * in the order of the codes; i16 where `wide`. */
typedef struct dhowi_centred_codes {
    int32_t codes, zero, shifts, made;
    int64_t results, terms;
    bool columns, turned, wide;
} dhowi_centred_codes;

/* One of several convolutions of an image that are added up, as items, -1 for none: its weight,
 * which begins at a place of the largest one's window, and bias. In place of these a number that
 * each channel of the image is multiplied by, and one that is added to it. */
typedef struct dhowi_branch {
    int32_t weight, bias, scale, shift;
    int64_t at[3];
    bool minus; /* it is taken off */
} dhowi_branch;

/* Fills in an item. */
struct dhowi_lowering;
struct dhowi_late_values;
typedef dhow_status dhowi_make_values_fn(struct dhowi_lowering *b,
                                         const struct dhowi_late_values *late);

/* What makes known values when they are read, if they ever are: a product of integers reads the
 * codes of its weights, not what they stand for, and another plan may have packed them. Values
 * that were packed are shed, and made again for who reads them after all. */
typedef struct dhowi_late_values {
    int32_t parameter; /* a value of the model that is read from its file; -1: */
    dhowi_step step;   /* of known operands, unless there is a function: */
    int32_t value;     /* of the model, which keeps the step's result once it is made; -1 */
    dhowi_make_values_fn *make;
    dhowi_centred_codes centred;
    int32_t summed; /* an item: the weight, or the bias, that is the sum of branches */
    uint32_t first, count;
} dhowi_late_values;

enum { DHOWI_MAX_OUTPUTS_OF_NODE = 1024 };

/* ONNX's AttributeProto.AttributeType. */
typedef enum dhowi_attribute_type {
    DHOWI_ATTRIBUTE_ANY,
    DHOWI_ATTRIBUTE_FLOAT,
    DHOWI_ATTRIBUTE_INT,
    DHOWI_ATTRIBUTE_STRING,
    DHOWI_ATTRIBUTE_TENSOR,
    DHOWI_ATTRIBUTE_GRAPH,
    DHOWI_ATTRIBUTE_FLOATS,
    DHOWI_ATTRIBUTE_INTS,
    DHOWI_ATTRIBUTE_STRINGS
} dhowi_attribute_type;

/* An attribute of the node being lowered that was asked for as another type than it has. */
typedef struct dhowi_misread {
    const dhowi_onnx_attribute *attribute;
    dhowi_attribute_type wanted;
} dhowi_misread;

/* Numbers of an input that no run may leave: lengths of caches and places in them. */
typedef struct dhowi_bounds {
    const dhowi_node *node;
    const char *name; /* for messages */
    int64_t least, most;
    int32_t slot, item; /* of the run's inputs, and what the operator takes of that one */
} dhowi_bounds;

/* A node that a plan is in the middle of: a loop, see operators/shape/control.c, or one that makes
 * texts of what a device computes, see operators/ml/scores.c. */
typedef struct dhowi_frame {
    struct dhowi_frame *outer;
    const dhowi_node *node;
    int64_t iteration, trips;
    int64_t condition;
    bool inside; /* of an iteration that stopped */
    uint32_t in_count, out_count;
    int32_t in[DHOWI_MAX_OUTPUTS_OF_NODE]; /* carried values; inputs of a SequenceMap */
    int32_t *gathered;                     /* scan outputs of each iteration */
    uint32_t gathered_count, gathered_capacity;
} dhowi_frame;

typedef struct dhowi_lowering {
    dhow_model *model;
    dhow_device *device;
    dhowi_item *items;
    dhowi_step *steps;
    dhowi_buffer *buffers;
    uint32_t item_count, item_capacity, step_count, step_capacity, buffer_count, buffer_capacity;
    int32_t *refs;     /* by value of the model: the item, -1 when there is none yet */
    int32_t *elements; /* of sequences */
    uint32_t element_count, element_capacity;
    int32_t *results; /* the tensors of all outputs in order, those of sequences included */
    uint32_t result_count, result_capacity;
    const uint32_t *shares; /* while a plan is made: as in dhowi_run_io, or NULL */
    uint32_t share_count;
    dhowi_bounds *bounds;
    uint32_t bound_count, bound_capacity;
    dhowi_late_values *late;
    uint32_t late_count, late_capacity;
    dhowi_padding *paddings;
    uint32_t padding_count, padding_capacity;
    dhowi_branch *branches;
    uint32_t branch_count, branch_capacity;
    bool defers; /* steps of known operands are taken late */
    uint64_t host_limit, input_limit, folded_bytes, fixed_bytes, taken_bytes; /* see budget.c */
    bool free_of_limit;
    dhowi_frame *frames; /* the innermost first */
    uint32_t looped_nodes;
    int32_t wanted;
    bool dry;        /* no values of inputs are at hand */
    dhow_dtype half; /* 16-bit floats that f32 is computed in, see precision.c; 0: none */
    bool widens;     /* 16-bit floats are computed in f32, see widen.c */
    int half_before; /* of a node that is lowered again: 1 if it computed in them, -1 if not */
    /* the node being lowered */
    const dhowi_node *node;
    int32_t *in, out[DHOWI_MAX_OUTPUTS_OF_NODE];
    uint32_t in_count, out_count;
    dhowi_misread *misread;
} dhowi_lowering;

/* A walk back over a graph for derivatives, see operators/backward/backward.h. */
struct dhowi_reverser;

/* What an operator of f32 does in a model that computes in 16-bit floats, see precision.c. */
typedef enum dhowi_half {
    DHOWI_HALF_NOT,     /* it computes in f32 */
    DHOWI_HALF_FOLLOWS, /* in 16 bits where all that it is given has been computed in them */
    DHOWI_HALF_COMPUTES /* in 16 bits, whatever it is given */
} dhowi_half;

/* A row of the operator table. */
typedef dhow_status dhowi_lower_fn(dhowi_lowering *b);
struct dhowi_operator {
    const char *name;
    int32_t since, until; /* opsets */
    dhowi_lower_fn *lower;
    int32_t arg;          /* tells rows of one function apart */
    uint32_t least, most; /* inputs */
    uint32_t takes;       /* DHOWI_TAKES_..., besides tensors */
    const char *meaning;  /* for docs/operators.md, where table.c is compiled with it, else NULL */
    dhow_status (*back)(struct dhowi_reverser *r); /* its derivative; NULL: dhow has none */
    bool back_all; /* it takes those of all outputs, not of the first alone */
    /* Bits of inputs: those that the derivative takes for constants, and those by which it is 0. */
    uint32_t constants, flat;
    dhowi_half half;
    bool
        typed; /* types of its results follow from its inputs' types: f32 will not do for 16 bits */
    bool squares;      /* of a value with itself, which are f32 as other powers are */
    int32_t half_rank; /* the largest rank of input 0 that has kernels of 16 bits; 0: any */
    /* Bits of inputs: those that stay f32 beside 16 bits, what may be an additive mask, and what
     * may be a cache. */
    uint32_t whole, masks, caches;
    /* In rows of other domains: makes constants of the attributes, once for all plans, which follow
     * the inputs, `least` in number. */
    const dhowi_operator *prepared;
};
enum {
    DHOWI_TAKES_TEXTS = 1 << DHOW_DATUM_TEXTS,
    DHOWI_TAKES_SEQUENCES = 1 << DHOW_DATUM_SEQUENCE,
    DHOWI_TAKES_NOTHING = 1 << DHOW_DATUM_NONE,
    DHOWI_TAKES_SMALL = 1 << 16 /* small types, see codes.c */
};

/* ---- the node's attributes ---- */

/* NULL when it is missing. One of another type than asked for makes the node's lowering fail. */
const dhowi_onnx_attribute *dhowi_attr(const dhowi_lowering *b, const char *name,
                                       dhowi_attribute_type type);
dhow_status dhowi_refuse_misread(const dhowi_misread *m);
int64_t dhowi_attr_int(const dhowi_lowering *b, const char *name, int64_t otherwise);
/* One that ONNX has no default for: a node without it is refused. */
dhow_status dhowi_attr_needed(const dhowi_lowering *b, const char *name, int64_t *out);
/* Refuses another number than the one that dhow has, and that it is where it is missing. */
dhow_status dhowi_attr_only(const dhowi_lowering *b, const char *name, int64_t value);
/* An integer that is 0 or 1; another is refused by its name. */
dhow_status dhowi_attr_flag(const dhowi_lowering *b, const char *name, bool otherwise, bool *out);
/* Refuses a text attribute by its name and value: "unsupported mode 'area'". */
dhow_status dhowi_refuse_text(const dhowi_lowering *b, const char *name);
/* Refuses an input of the node that is not of floats with so many dimensions; `name` is what it is
 * called. */
dhow_status dhowi_expect_floats(const dhowi_lowering *b, uint32_t input, const char *name,
                                int32_t rank);
/* Refuses an input whose shape or type does not fit. */
dhow_status dhowi_refuse_input(const dhowi_lowering *b, uint32_t input, const char *name);
float dhowi_attr_float(const dhowi_lowering *b, const char *name, float otherwise);
/* The list, or NULL; *count is 0 when it is missing. */
const int64_t *dhowi_attr_ints(const dhowi_lowering *b, const char *name, uint32_t *count);
/* Whether a text attribute says `text`; a missing one says `otherwise`. */
bool dhowi_attr_is(const dhowi_lowering *b, const char *name, const char *text,
                   const char *otherwise);
/* The axes of a reduction, Squeeze or Unsqueeze: the attribute, or input `from` where it is given.
 */
dhow_status dhowi_axes(dhowi_lowering *b, uint32_t from, int64_t *out, uint32_t *count);
/* The numbers of an input that gives one for each dimension, `name` in messages. */
dhow_status dhowi_shape_values(dhowi_lowering *b, int32_t ref, const char *name,
                               int64_t out[DHOW_MAX_RANK], uint32_t *count);
/* Refuses the node: a message that names it is put in front by the caller. */
#define DHOWI_REFUSE(...) return dhowi_fail(DHOW_INVALID_ARGUMENT, __VA_ARGS__)

/* ---- items ---- */

static inline const dhowi_tensor_desc *dhowi_desc_at(const dhowi_lowering *b, int32_t ref) {
    return &b->items[ref].desc;
}
static inline bool dhowi_given(const dhowi_lowering *b, uint32_t i) {
    return i < b->in_count && b->in[i] >= 0;
}
static inline bool dhowi_is_known(const dhowi_lowering *b, int32_t ref) {
    return b->items[ref].tensor != NULL;
}
/* The values of a known item, on the CPU: whoever reads them asks here. */
dhow_status dhowi_known_values(dhowi_lowering *b, int32_t ref, dhow_tensor **out);
/* A step of known operands: its results at once, or when they are read. */
dhow_status dhowi_run_now(dhowi_lowering *b, const dhowi_step *s);
dhow_status dhowi_run_later(dhowi_lowering *b, const dhowi_step *s);
/* A function makes the values of an item when they are missing. */
dhow_status dhowi_make_later(dhowi_lowering *b, int32_t ref, const dhowi_late_values *late);
/* The values of an item are a parameter's, which is in its model's file. */
dhow_status dhowi_read_later(dhowi_lowering *b, int32_t ref, int32_t value);
/* Nothing in the making reads them any more, it seems. */
void dhowi_shed_known(const dhowi_lowering *b, int32_t ref);
/* The same as a pointer to the first one of the memory that they lie in. */
dhow_status dhowi_known_data(dhowi_lowering *b, int32_t ref, void **out);
int64_t dhowi_count_of(const dhowi_tensor_desc *desc);
/* Extents from `begin` to before `end`, multiplied. */
int64_t dhowi_extent(const dhowi_tensor_desc *desc, int32_t begin, int32_t end);
/* Items of a shape: without anything, with known values to be filled in, with a buffer. `fixed`
 * says that it depends on constants alone. The shape may be another item's, which may move. */
dhow_status dhowi_item_new(dhowi_lowering *b, const dhowi_tensor_desc *desc, int32_t *out);
dhow_status dhowi_item_known(dhowi_lowering *b, const dhowi_tensor_desc *desc, int32_t *out);
dhow_status dhowi_item_unknown(dhowi_lowering *b, const dhowi_tensor_desc *desc, bool fixed,
                               int32_t *out);
/* An axis that may be negative: 0 .. rank-1. */
dhow_status dhowi_axis(const dhowi_tensor_desc *desc, int64_t axis, int32_t *out);
bool dhowi_is_float(dhow_dtype dtype);

/* ---- what a file may make the host compute, see budget.c ---- */

void dhowi_limit_host(dhowi_lowering *b, uint64_t input_bytes);
/* Whether a result may be made by the host while planning; takes its bytes from the budget. */
bool dhowi_fold(dhowi_lowering *b, uint64_t bytes);
/* Takes from what a device may be asked to make of constants alone. */
dhow_status dhowi_fix(dhowi_lowering *b, uint64_t bytes);
/* Refuses a result that no plan within the model's limit has room for, even where it is merged into
 * others. */
dhow_status dhowi_limit_result(const dhowi_lowering *b, uint64_t bytes);
/* Takes what the plan keeps from the memory that the file may ask for in all. */
dhow_status dhowi_take_memory(dhowi_lowering *b, uint64_t bytes, const char *what);
/* Refuses a passing array that exceeds the budget by itself. */
dhow_status dhowi_host_room(const dhowi_lowering *b, int64_t count, size_t element_bytes);

/* Whether it is an input whose memory the run has given for an output, too. */
bool dhowi_is_shared(const dhowi_lowering *b, int32_t ref);

/* The host's numbers of a known item; DHOWI_NEEDS_VALUES when it is not known. */
dhow_status dhowi_ints(dhowi_lowering *b, int32_t ref, int64_t *out, uint32_t most,
                       uint32_t *count);
dhow_status dhowi_floats(dhowi_lowering *b, int32_t ref, double *out, uint32_t most,
                         uint32_t *count);
/* Exactly one number; `name` is what a message calls it. */
dhow_status dhowi_one_int(dhowi_lowering *b, int32_t ref, const char *name, int64_t *out);
dhow_status dhowi_one_float(dhowi_lowering *b, int32_t ref, const char *name, double *out);
dhow_status dhowi_need(dhowi_lowering *b, int32_t ref);
/* Refuses numbers of an item below `least` or beyond `most`, now where they are known, and of an
 * input in each run; kernels see to what is computed. */
dhow_status dhowi_keep_within(dhowi_lowering *b, int32_t ref, const char *name, int64_t least,
                              int64_t most);
dhow_status dhowi_check_bounds(const int64_t *values, uint32_t count, const dhowi_bounds *range);
/* A known item from host data. */
dhow_status dhowi_constant(dhowi_lowering *b, dhow_dtype dtype, int32_t rank, const int64_t *shape,
                           const void *data, int32_t *out);
dhow_status dhowi_known(dhowi_lowering *b, dhow_tensor *tensor, int32_t value, int32_t *out);

/* ---- what is no tensor: it exists while plans are made, and takes no memory of a device ---- */

static inline dhow_datum_kind dhowi_kind_of(const dhowi_lowering *b, int32_t ref) {
    return b->items[ref].kind;
}
dhow_status dhowi_texts(dhowi_lowering *b, dhow_datum *texts, int32_t *out);
dhow_status dhowi_nothing(dhowi_lowering *b, int32_t *out);
/* A sequence of `count` items, which the caller stores at *elements before another is made. */
dhow_status dhowi_sequence(dhowi_lowering *b, uint32_t count, int32_t *out, int32_t **elements);
static inline const int32_t *dhowi_elements(const dhowi_lowering *b, int32_t ref) {
    return b->elements + b->items[ref].first;
}

/* ---- views ---- */

dhow_status dhowi_view(dhowi_lowering *b, int32_t x, int32_t rank, const int64_t *shape,
                       const int64_t *strides, int64_t offset, int32_t *out);
/* Every view of the buffer `from` becomes one of `to`, so many elements further on. */
void dhowi_move_views(dhowi_lowering *b, int32_t from, int32_t to, int64_t offset);
static inline bool dhowi_step_writes(const dhowi_lowering *b, const dhowi_step *s, int32_t buffer) {
    return b->items[s->out].buffer == buffer ||
           (s->second >= 0 && b->items[s->second].buffer == buffer);
}
dhow_status dhowi_reshape(dhowi_lowering *b, int32_t x, int32_t rank, const int64_t *shape,
                          int32_t *out);
/* The same, as a view where the strides of x allow it. */
dhow_status dhowi_regroup(dhowi_lowering *b, int32_t x, int32_t rank, const int64_t *shape,
                          int32_t *out);
dhow_status dhowi_permute(dhowi_lowering *b, int32_t x, const int32_t *order, int32_t *out);
/* x at an index of an axis, without the axis: a view. */
dhow_status dhowi_part_of(dhowi_lowering *b, int32_t x, int32_t axis, int64_t index, int32_t *out);
/* start .. start + (count - 1) step of a dimension */
dhow_status dhowi_narrow(dhowi_lowering *b, int32_t x, int32_t dim, int64_t start, int64_t count,
                         int64_t step, int32_t *out);
dhow_status dhowi_expand(dhowi_lowering *b, int32_t x, int32_t rank, const int64_t *shape,
                         int32_t *out);
/* Whether the buffer of a kernel may begin there on the device. */
bool dhowi_is_aligned(const dhowi_lowering *b, int32_t x);
dhow_status dhowi_dense(dhowi_lowering *b, int32_t x, int32_t *out);

/* ---- steps ---- */

/* A step with a new result; at once where all inputs are known. `second` may be NULL. */
dhow_status dhowi_emit(dhowi_lowering *b, dhowi_op_id op, const int32_t *in, uint32_t count,
                       const dhowi_attrs *attrs, const dhowi_tensor_desc *desc, int32_t *out);
dhow_status dhowi_emit_two(dhowi_lowering *b, dhowi_op_id op, const int32_t *in, uint32_t count,
                           const dhowi_attrs *attrs, const dhowi_tensor_desc *desc,
                           const dhowi_tensor_desc *second, int32_t *out, int32_t *out_second);
/* A step as it is, which is none of b's. */
dhow_status dhowi_append_step(dhowi_lowering *b, const dhowi_step *s);
/* A result without values, to be written by steps. */
dhow_status dhowi_blank(dhowi_lowering *b, const dhowi_tensor_desc *desc, int32_t *out);
/* One to be written in parts by dhowi_emit_into(), from some items: it is known if they all are and
 * it is not too large. */
dhow_status dhowi_blank_of(dhowi_lowering *b, const dhowi_tensor_desc *desc, const int32_t *in,
                           uint32_t count, int32_t *out);
dhow_status dhowi_emit_into(dhowi_lowering *b, dhowi_op_id op, const int32_t *in, uint32_t count,
                            const dhowi_attrs *attrs, int32_t to);
/* One with all elements of a value. */
dhow_status dhowi_filled(dhowi_lowering *b, const dhowi_tensor_desc *desc, double value,
                         int32_t *out);
dhow_status dhowi_cast_to(dhowi_lowering *b, int32_t x, dhow_dtype dtype, int32_t *out);
/* x as a type that the operation's kernels have: f32 for narrow floats. */
dhow_status dhowi_widened(dhowi_lowering *b, dhowi_op_id op, int32_t x, int32_t *out);

/* Elementwise. Operands broadcast; all have one dtype. */
dhow_status dhowi_map(dhowi_lowering *b, const dhowi_program *program, const int32_t *in,
                      uint32_t count, int32_t *out);
dhow_status dhowi_map_one(dhowi_lowering *b, dhowi_map_op op, double c, double q, int32_t x,
                          int32_t *out);
dhow_status dhowi_map_two(dhowi_lowering *b, dhowi_map_op op, int32_t x, int32_t y, int32_t *out);
/* The same with a number as operand. */
dhow_status dhowi_map_number(dhowi_lowering *b, dhowi_map_op op, int32_t x, double number,
                             int32_t *out);
/* where(condition, x, y) */
dhow_status dhowi_select(dhowi_lowering *b, int32_t condition, int32_t x, int32_t y, int32_t *out);

/* ---- 16-bit floats in models of f32, see precision.c ---- */

/* The inputs of a node in the types that it computes in; *half says that these are 16 bits. */
dhow_status dhowi_take_half(dhowi_lowering *b, const dhowi_node *node, int32_t *refs, bool *half);
/* A result of what computed in 16 bits is marked: it stands for f32. */
void dhowi_mark_half(dhowi_lowering *b, int32_t ref);
/* f32, or what stands for it, in 16 bits or in f32; all else stays. */
dhow_status dhowi_in_half(dhowi_lowering *b, int32_t *ref, bool half);
/* A cast. Constants are there already: theirs take nothing from what a file may ask for. */
dhow_status dhowi_cast_constant(dhowi_lowering *b, int32_t ref, dhow_dtype dtype, int32_t *out);
/* What a step writes into, or the run's own memory for an output too. */
bool dhowi_is_cache(const dhowi_lowering *b, int32_t ref);
/* A value that leaves the model or a branch of it: f32 again. */
dhow_status dhowi_end_half(dhowi_lowering *b, int32_t value);

/* ---- f32 in models of 16-bit floats, see widen.c ---- */

/* Whether the CPU is to compute a model's 16-bit floats in f32. */
bool dhowi_widens(const struct dhow_model *m);
/* The inputs of a node in the types that it computes in; *wide is the type that f32 results stand
 * for, 0 where it computes as it is written. */
dhow_status dhowi_take_wide(dhowi_lowering *b, const dhowi_node *node, int32_t *refs,
                            dhow_dtype *wide);
void dhowi_mark_wide(dhowi_lowering *b, const dhowi_node *node, uint32_t output, dhow_dtype wide);
/* What a step's products compute in: as the model's, but those of bf16 in it, where the processor
 * multiplies that itself. */
dhowi_inside dhowi_inside_of(const dhowi_lowering *b, const dhowi_step *s);
/* The type that an item's file has: constants are rounded to it. */
static inline dhow_dtype dhowi_written_dtype(const dhowi_lowering *b, int32_t ref) {
    return b->items[ref].wide != 0 ? b->items[ref].wide : b->items[ref].desc.dtype;
}
/* A value that leaves the model or a branch of it: 16-bit floats again. */
dhow_status dhowi_end_wide(dhowi_lowering *b, int32_t value);

/* Values of the model that follow from its parameters, for the next plan. */
void dhowi_keep_value(dhowi_lowering *b, int32_t ref, int32_t value);
/* Lets go of late values that no step, result or bound of the finished plan has. */
dhow_status dhowi_drop_unread(dhowi_lowering *b);

/* Lowers one node, whose inputs have items; then a whole graph. */
dhow_status dhowi_lower_node(dhowi_lowering *b, const dhowi_node *node);
dhow_status dhowi_lower_branch(dhowi_lowering *b, const dhowi_subgraph *graph);
/* An item for a value of the model, made on first use. */
dhow_status dhowi_ref_of(dhowi_lowering *b, int32_t value, int32_t *out);
/* What a node has come to when it stops to look at values, for when it goes on: NULL where it has
 * not begun. The node being lowered begins one, and ends the innermost. */
dhowi_frame *dhowi_find_frame(const dhowi_lowering *b, const dhowi_node *node);
dhow_status dhowi_open_frame(dhowi_lowering *b, dhowi_frame **out);
void dhowi_close_frame(dhowi_lowering *b);
void dhowi_lowering_end(dhowi_lowering *b);

#endif /* DHOWI_MODEL_LOWER_H_ */
