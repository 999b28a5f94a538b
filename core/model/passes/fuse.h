/* SPDX-License-Identifier: Apache-2.0
 *
 * What the files that join steps share.
 */
#ifndef DHOWI_MODEL_PASSES_FUSE_H_
#define DHOWI_MODEL_PASSES_FUSE_H_

#include "model/passes/passes.h"

/* Who reads a buffer: the number of operands, and the only step that does. */
typedef struct dhowi_readers {
    uint32_t count;
    int32_t step; /* -1: none, -2: several, or an output */
} dhowi_readers;

typedef struct dhowi_fuser {
    dhowi_lowering *b;
    uint32_t first;
    dhowi_readers *readers; /* by buffer */
} dhowi_fuser;

static inline bool dhowi_is_removed(const dhowi_step *s) { return s->op == DHOWI_OP_COUNT; }
static inline void dhowi_remove_step(dhowi_step *s) { s->op = DHOWI_OP_COUNT; }
static inline uint32_t dhowi_word_op(uint32_t word) { return word & 255; }
static inline uint32_t dhowi_word_source(uint32_t word) { return word >> 8 & 255; }
/* The number of an instruction's first constant. */
static inline uint32_t dhowi_word_constant(uint32_t word) { return word >> 16 & 255; }
static inline uint32_t dhowi_word_with_source(uint32_t word, uint32_t source) {
    return (word & ~UINT32_C(0xff00)) | source << 8;
}

/* Closes the gaps of removed steps. */
void dhowi_compact(dhowi_lowering *b, uint32_t first);

/* ---- query.c ---- */

/* Counts the readers of all buffers anew. */
void dhowi_count_readers(dhowi_fuser *f);
/* Removes steps whose results nobody reads, as the f32 of quantised values that a product takes as
 * integers. */
void dhowi_remove_unread(dhowi_fuser *f);
/* The item covers its buffer, in order. */
bool dhowi_is_whole(const dhowi_lowering *b, int32_t ref);
bool dhowi_same_shape(const dhowi_lowering *b, int32_t x, int32_t y);
/* Two views of the same elements in the same shape. */
bool dhowi_same_item(const dhowi_lowering *b, int32_t x, int32_t y);

/* ---- forms.c ---- */

/* Who writes and who reads a buffer. */
typedef struct dhowi_traffic {
    uint32_t reads, writes; /* operands; outputs are reads that no step does */
    int32_t writer, reader; /* the latest */
} dhowi_traffic;

typedef struct dhowi_finder {
    dhowi_lowering *b;
    dhowi_traffic *of; /* by buffer */
} dhowi_finder;

/* A map of one operation: op(x), op(x, y) or op(x, number). */
typedef struct dhowi_form {
    uint32_t op;
    int32_t x, y; /* items; y is -1 for one without, or with a number */
    double number;
} dhowi_form;

/* Counts the traffic of all buffers. */
dhow_status dhowi_finder_begin(dhowi_finder *f, dhowi_lowering *b, uint32_t first_step);
void dhowi_finder_end(dhowi_finder *f);
/* Whether a step is such a map, with what is known second where the operands may change places. */
bool dhowi_read_form(const dhowi_finder *f, int32_t step, dhowi_form *out);
/* The step that alone writes what an item is of, -1 for none. */
int32_t dhowi_writer_of(const dhowi_finder *f, int32_t ref);
/* Two views of the same elements in the same order. */
bool dhowi_same_elements(const dhowi_lowering *b, int32_t x, int32_t y);
/* A known single number. */
bool dhowi_number_of(dhowi_lowering *b, int32_t ref, double *out);

/* ---- program.c ---- */

uint32_t dhowi_operands_of(const dhowi_step *s);
/* Whether an instruction looks at its operand. */
bool dhowi_reads_operand(uint32_t word);
/* How many constants an instruction asks for. */
uint32_t dhowi_word_constants(uint32_t word);
/* Whether instructions from `from` on read an operand. */
bool dhowi_is_used(const dhowi_program *p, uint32_t from, uint32_t source);
/* Drops an operand that no instruction reads any more. */
void dhowi_drop_operand(dhowi_step *s, uint32_t k);
/* One operand for each item: what follows asks which operand is a step's result. */
void dhowi_merge_operands(const dhowi_lowering *b, dhowi_step *s);
/* Known single numbers become constants of the program. */
dhow_status dhowi_inline_numbers(dhowi_fuser *f, dhowi_step *s);
/* A known operand that is loaded first, as in bias + product, changes places with the next. */
void dhowi_load_result_first(const dhowi_lowering *b, dhowi_step *s);
/* p's program, then q's with p's result where q loaded it; false where that is not possible. */
bool dhowi_join_programs(const dhowi_lowering *b, const dhowi_step *p, const dhowi_step *q,
                         dhowi_step *out);
/* The same where q reads p's result behind other instructions: v op p becomes p op' saved v. */
bool dhowi_join_within(const dhowi_lowering *b, const dhowi_step *p, const dhowi_step *q,
                       dhowi_step *out);

/* ---- joint.c ---- */

/* Maps over values side by side go part by part. */
dhow_status dhowi_map_parts(dhowi_fuser *f);

/* ---- merge_products.c ---- */

/* Products of one row with weights side by side, see run/join_weights.c, become one. */
dhow_status dhowi_merge_products(dhowi_fuser *f);

/* ---- join_rows.c ---- */

/* Scales, masks and sums go into the softmax and the norms behind them. */
dhow_status dhowi_join_rows(dhowi_lowering *b, uint32_t first_step);

/* ---- merge_branches.c ---- */

/* A sum of convolutions of one image becomes one convolution. */
dhow_status dhowi_merge_branches(dhowi_fuser *f, bool *changed);

/* ---- fold.c ---- */

/* What an instruction does to all elements of a channel: known numbers, one for each or the same.
 */
typedef struct dhowi_by_channel {
    bool found;
    int32_t ref; /* -1: all have `number` */
    double number;
} dhowi_by_channel;
/* Of the n channels along an axis, by an instruction of a map that is this operation. */
dhowi_by_channel dhowi_by_channel_at(const dhowi_lowering *b, const dhowi_step *q, uint32_t word,
                                     dhowi_map_op op, int32_t axis, int64_t n);
/* The numbers as a row of n; -1 where there are none. */
dhow_status dhowi_as_row(dhowi_lowering *b, const dhowi_by_channel *c, dhow_dtype dtype, int64_t n,
                         int32_t *out);
/* Keeps what was made of parts with a node, for later plans; finds what was kept; lets an item have
 * it, with its values or without. */
void dhowi_keep_folding(const dhowi_lowering *b, const dhowi_node *of, const dhowi_branch *parts,
                        uint32_t part_count, int32_t weight, int32_t bias);
const dhowi_folding *dhowi_find_folding(const dhowi_lowering *b, const dhowi_node *node,
                                        const dhowi_branch *parts, uint32_t count);
void dhowi_replace_known(dhowi_lowering *b, int32_t ref, dhow_tensor *t);

/* The map that alone reads a step's result, loading it first. */
dhowi_step *dhowi_next_map(dhowi_fuser *f, const dhowi_step *s);
/* s computes what q did; it takes q's place, where all operands exist. */
dhowi_step *dhowi_take_over(dhowi_step *s, dhowi_step *q);
dhow_status dhowi_fold_into_weights(dhowi_fuser *f, dhowi_step *s, bool *changed);

#endif /* DHOWI_MODEL_PASSES_FUSE_H_ */
