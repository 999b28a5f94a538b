/* SPDX-License-Identifier: Apache-2.0
 *
 * A parsed PTX module: kernels, their variables and their decoded instructions.
 */
#ifndef PTX_PROGRAM_H_
#define PTX_PROGRAM_H_

#include "ptx.h"

typedef enum ptx_op {
    PTX_ABS,
    PTX_ADD,
    PTX_AND,
    PTX_ATOM,
    PTX_BAR,
    PTX_BFE,
    PTX_BFI,
    PTX_BRA,
    PTX_CALL,
    PTX_CLZ,
    PTX_COPYSIGN,
    PTX_COS,
    PTX_CP,
    PTX_CVT,
    PTX_CVTA,
    PTX_DIV,
    PTX_EX2,
    PTX_EXIT,
    PTX_FMA,
    PTX_LD,
    PTX_LDMATRIX,
    PTX_LG2,
    PTX_MAD,
    PTX_MAX,
    PTX_MIN,
    PTX_MMA,
    PTX_MOV,
    PTX_MUL,
    PTX_NEG,
    PTX_NOT,
    PTX_OR,
    PTX_PRMT,
    PTX_RCP,
    PTX_REM,
    PTX_RET,
    PTX_RSQRT,
    PTX_SELP,
    PTX_SETP,
    PTX_SHFL,
    PTX_SHL,
    PTX_SHR,
    PTX_SIN,
    PTX_SQRT,
    PTX_ST,
    PTX_SUB,
    PTX_XOR
} ptx_op;

/* kind: b u s f, g for bf16, or p for predicates of one bit; 0 where an instruction has no type */
typedef struct ptx_type {
    char kind;
    unsigned char bits;
} ptx_type;

typedef enum ptx_round {
    PTX_RN,
    PTX_RZ,
    PTX_RM,
    PTX_RP,
    PTX_RNI,
    PTX_RZI,
    PTX_RMI,
    PTX_RPI
} ptx_round;
typedef enum ptx_compare {
    PTX_EQ,
    PTX_NE,
    PTX_LT,
    PTX_LE,
    PTX_GT,
    PTX_GE,
    PTX_EQU,
    PTX_NEU,
    PTX_LTU,
    PTX_LEU,
    PTX_GTU,
    PTX_GEU,
    PTX_NUM,
    PTX_NAN
} ptx_compare;
typedef enum ptx_mode { PTX_WHOLE, PTX_LO, PTX_HI, PTX_WIDE } ptx_mode;
typedef enum ptx_space { PTX_GLOBAL, PTX_SHARED, PTX_LOCAL, PTX_PARAM } ptx_space;
typedef enum ptx_async { PTX_COPY, PTX_COMMIT, PTX_WAIT } ptx_async;
typedef enum ptx_lane { PTX_BFLY, PTX_IDX, PTX_UP, PTX_DOWN } ptx_lane;

/* What the parts of an opcode after its name say. */
typedef struct ptx_opcode {
    ptx_op op;
    ptx_type type, from; /* from: the source of cvt, the factors of mma */
    ptx_round round;
    ptx_compare compare;
    char logic; /* & | ^ of setp, 0 without */
    ptx_mode mode;
    ptx_space space;
    ptx_lane lane;
    ptx_async async;
    bool ftz, sat, approx;
    bool keeps_nan; /* min and max */
    bool carry_in, carry_out;
    bool pair;   /* cvt makes two */
    bool turned; /* ldmatrix.trans */
    unsigned vector;
} ptx_opcode;

/* How many instructions of the machine ptxas makes of one, as found in the code for sm_80 and
 * sm_90: a division is a sequence, and most moves are nothing but another name for a register. */
float ptx_machine_instructions(const ptx_opcode *code);

/* NULL, or what is not known about "add.rn.f32". */
const char *ptx_decode(const char *text, size_t length, ptx_opcode *opcode);

typedef enum ptx_operand_kind {
    PTX_REGISTER,
    PTX_CONSTANT,
    PTX_TID,
    PTX_CTAID,
    PTX_NTID,
    PTX_NCTAID,
    PTX_LANEID,
    PTX_ADDRESS,      /* a constant */
    PTX_BASE_ADDRESS, /* a register and a constant */
    PTX_DISCARD       /* _ */
} ptx_operand_kind;

typedef struct ptx_operand {
    ptx_operand_kind kind;
    unsigned reg, bits;
    uint64_t value;
} ptx_operand;

enum { PTX_MAX_OUT = 4, PTX_MAX_IN = 10, PTX_WARP = 32 };

/* Arithmetic of all lanes of a warp: in[operand][lane] are bits in the low end, as the results. */
typedef void ptx_form(const ptx_opcode *code, const uint64_t *const *in, uint64_t *out);

/* What computes an instruction without side effects; those that kernels use most have loops of
 * their own. */
ptx_form *ptx_form_of(const ptx_opcode *code);

typedef struct ptx_instruction {
    ptx_opcode code;
    int line, guard; /* guard: a predicate register, -1 without */
    bool guard_negated;
    unsigned out_count, in_count, target; /* target: an instruction, of a call a function */
    float machine;                        /* instructions of the machine for it */
    ptx_form *form;
    ptx_operand out[PTX_MAX_OUT], in[PTX_MAX_IN];
    char text[64]; /* the opcode as written */
} ptx_instruction;

/* offset: in its space; for global variables the host's address */
typedef struct ptx_variable {
    char name[96];
    ptx_space space;
    uint64_t offset;
    size_t bytes;
} ptx_variable;

typedef struct ptx_variables {
    ptx_variable *at;
    size_t count, capacity;
} ptx_variables;

/* A function too: its results, then its parameters are its first variables, in local memory. */
struct ptx_kernel {
    char name[96];
    ptx_variables variables; /* parameters first, in order */
    size_t param_count, param_bytes, shared_bytes, local_bytes;
    ptx_instruction *code;
    size_t code_count, code_capacity;
    unsigned registers;
    const ptx_module *module;
    bool *told; /* whether PTX_EXECUTED has its name */
};

struct ptx_module {
    ptx_variables globals;
    ptx_kernel *kernels, *functions;
    size_t kernel_count, kernel_capacity, function_count, function_capacity;
};

#endif /* PTX_PROGRAM_H_ */
