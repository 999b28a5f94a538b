/* SPDX-License-Identifier: Apache-2.0
 *
 * From the text of an opcode to what it means: the instruction's name, then modifiers and types.
 */
#include <string.h>

#include "program.h"

/* kinds: the types that the interpreter executes */
static const struct {
    const char *name;
    ptx_op op;
    const char *kinds;
} k_names[] = {{"abs", PTX_ABS, "sf"},
               {"add", PTX_ADD, "usf"},
               {"addc", PTX_ADD, "u"},
               {"and", PTX_AND, "bp"},
               {"atom", PTX_ATOM, "u"},
               {"bar", PTX_BAR, ""},
               {"bfe", PTX_BFE, "u"},
               {"bfi", PTX_BFI, "b"},
               {"bra", PTX_BRA, ""},
               {"call", PTX_CALL, ""},
               {"clz", PTX_CLZ, "b"},
               {"copysign", PTX_COPYSIGN, "f"},
               {"cos", PTX_COS, "f"},
               {"cp", PTX_CP, ""},
               {"cvt", PTX_CVT, "usfg"},
               {"cvta", PTX_CVTA, "u"},
               {"ldmatrix", PTX_LDMATRIX, "b"},
               {"mma", PTX_MMA, "f"},
               {"div", PTX_DIV, "usf"},
               {"ex2", PTX_EX2, "f"},
               {"exit", PTX_EXIT, ""},
               {"fma", PTX_FMA, "f"},
               {"ld", PTX_LD, "busf"},
               {"lg2", PTX_LG2, "f"},
               {"mad", PTX_MAD, "us"},
               {"madc", PTX_MAD, "u"},
               {"max", PTX_MAX, "usf"},
               {"min", PTX_MIN, "usf"},
               {"mov", PTX_MOV, "busfp"},
               {"mul", PTX_MUL, "usf"},
               {"neg", PTX_NEG, "sf"},
               {"not", PTX_NOT, "bp"},
               {"or", PTX_OR, "bp"},
               {"prmt", PTX_PRMT, "b"},
               {"rcp", PTX_RCP, "f"},
               {"rem", PTX_REM, "us"},
               {"ret", PTX_RET, ""},
               {"rsqrt", PTX_RSQRT, "f"},
               {"selp", PTX_SELP, "busf"},
               {"setp", PTX_SETP, "busf"},
               {"shfl", PTX_SHFL, "b"},
               {"shl", PTX_SHL, "b"},
               {"shr", PTX_SHR, "bus"},
               {"sin", PTX_SIN, "f"},
               {"sqrt", PTX_SQRT, "f"},
               {"st", PTX_ST, "busf"},
               {"sub", PTX_SUB, "usf"},
               {"subc", PTX_SUB, "u"},
               {"xor", PTX_XOR, "bp"}};

typedef struct word {
    const char *name;
    int value;
} word;

static const word k_types[] = {{"pred", 'p' << 8 | 1},    {"b8", 'b' << 8 | 8},
                               {"b16", 'b' << 8 | 16},    {"b32", 'b' << 8 | 32},
                               {"b64", 'b' << 8 | 64},    {"u8", 'u' << 8 | 8},
                               {"u16", 'u' << 8 | 16},    {"u32", 'u' << 8 | 32},
                               {"u64", 'u' << 8 | 64},    {"s8", 's' << 8 | 8},
                               {"s16", 's' << 8 | 16},    {"s32", 's' << 8 | 32},
                               {"s64", 's' << 8 | 64},    {"f16", 'f' << 8 | 16},
                               {"f32", 'f' << 8 | 32},    {"f64", 'f' << 8 | 64},
                               {"bf16", 'g' << 8 | 16},   {"f16x2", 'f' << 8 | 16},
                               {"bf16x2", 'g' << 8 | 16}, {NULL, 0}};
static const word k_rounds[] = {{"rn", PTX_RN},   {"rz", PTX_RZ},   {"rm", PTX_RM},
                                {"rp", PTX_RP},   {"rni", PTX_RNI}, {"rzi", PTX_RZI},
                                {"rmi", PTX_RMI}, {"rpi", PTX_RPI}, {NULL, 0}};
static const word k_compares[] = {
    {"eq", PTX_EQ},   {"ne", PTX_NE},   {"lt", PTX_LT},   {"le", PTX_LE},   {"gt", PTX_GT},
    {"ge", PTX_GE},   {"lo", PTX_LT},   {"ls", PTX_LE},   {"hi", PTX_GT},   {"hs", PTX_GE},
    {"equ", PTX_EQU}, {"neu", PTX_NEU}, {"ltu", PTX_LTU}, {"leu", PTX_LEU}, {"gtu", PTX_GTU},
    {"geu", PTX_GEU}, {"num", PTX_NUM}, {"nan", PTX_NAN}, {NULL, 0}};
static const word k_logics[] = {{"and", '&'}, {"or", '|'}, {"xor", '^'}, {NULL, 0}};
static const word k_modes[] = {{"lo", PTX_LO}, {"hi", PTX_HI}, {"wide", PTX_WIDE}, {NULL, 0}};
static const word k_spaces[] = {{"global", PTX_GLOBAL},
                                {"shared", PTX_SHARED},
                                {"local", PTX_LOCAL},
                                {"param", PTX_PARAM},
                                {NULL, 0}};
static const word k_lanes[] = {
    {"bfly", PTX_BFLY}, {"idx", PTX_IDX}, {"up", PTX_UP}, {"down", PTX_DOWN}, {NULL, 0}};

static const word k_asyncs[] = {
    {"async", PTX_COPY}, {"commit_group", PTX_COMMIT}, {"wait_group", PTX_WAIT}, {NULL, 0}};

static bool look_up(const word *words, const char *text, size_t length, int *value) {
    for (; words->name != NULL; words++) {
        if (strlen(words->name) != length || memcmp(words->name, text, length) != 0) continue;
        *value = words->value;
        return true;
    }
    return false;
}

static bool is(const char *name, const char *text, size_t length) {
    return strlen(name) == length && memcmp(name, text, length) == 0;
}

static bool same_type(ptx_type a, ptx_type b) { return a.kind == b.kind && a.bits == b.bits; }

/* Parts of the instructions of tensor cores: the one shape of each that is executed. */
static bool matrix_modifier(ptx_opcode *code, const char *part, size_t length) {
    if (is("trans", part, length) && code->op == PTX_LDMATRIX) return code->turned = true;
    if (is("sync", part, length) || is("aligned", part, length)) return true;
    return code->op == PTX_MMA
               ? is("m16n8k16", part, length) || is("row", part, length) || is("col", part, length)
               : is("m8n8", part, length) || is("x4", part, length);
}

/* One part between dots. */
static bool modifier(ptx_opcode *code, const char *part, size_t length) {
    int value = 0;
    if (look_up(k_types, part, length, &value)) {
        const ptx_type type = {(char)(value >> 8), (unsigned char)(value & 255)};
        if (code->op == PTX_MMA && code->from.kind != 0) /* .f32.f16.f16.f32 */
            return same_type(type, code->from) || same_type(type, code->type);
        if (code->type.kind != 0 && code->op != PTX_MMA &&
            (code->op != PTX_CVT || code->from.kind != 0))
            return false;
        code->pair = code->pair || part[length - 2] == 'x';
        *(code->type.kind == 0 ? &code->type : &code->from) = type;
    } else if (code->op == PTX_SETP && look_up(k_compares, part, length, &value)) {
        code->compare = (ptx_compare)value;
    } else if (code->op == PTX_SETP && look_up(k_logics, part, length, &value)) {
        code->logic = (char)value;
    } else if ((code->op == PTX_MUL || code->op == PTX_MAD) &&
               look_up(k_modes, part, length, &value)) {
        code->mode = (ptx_mode)value;
    } else if (code->op == PTX_CP && look_up(k_asyncs, part, length, &value)) {
        code->async = (ptx_async)value;
    } else if (look_up(k_rounds, part, length, &value)) {
        code->round = (ptx_round)value;
    } else if (look_up(k_spaces, part, length, &value)) {
        code->space = (ptx_space)value;
    } else if (code->op == PTX_SHFL && look_up(k_lanes, part, length, &value)) {
        code->lane = (ptx_lane)value;
    } else if (is("v2", part, length) || is("v4", part, length)) {
        code->vector = (unsigned)(part[1] - '0');
    } else if (is("ftz", part, length)) {
        code->ftz = true;
    } else if (is("sat", part, length)) {
        code->sat = true;
    } else if (is("approx", part, length)) {
        code->approx = true;
    } else if (is("NaN", part, length)) {
        code->keeps_nan = true;
        return code->op == PTX_MIN || code->op == PTX_MAX;
    } else if (is("cc", part, length)) {
        code->carry_out = true;
        return code->op == PTX_ADD || code->op == PTX_SUB || code->op == PTX_MAD;
    } else if (is("cg", part, length)) {
        return code->op == PTX_CP;
    } else if (code->op == PTX_MMA || code->op == PTX_LDMATRIX) {
        return matrix_modifier(code, part, length);
    } else if (is("sync", part, length)) {
        return code->op == PTX_BAR || code->op == PTX_SHFL;
    } else if (is("uni", part, length)) {
        return code->op == PTX_BRA || code->op == PTX_CALL;
    } else if (is("add", part, length)) {
        return code->op == PTX_ATOM;
    } else if (is("nc", part, length)) {
        return code->op == PTX_LD;
    } else {
        return is("to", part, length) && code->op == PTX_CVTA;
    }
    return true;
}

/* Forms that the parts allow and the interpreter does not execute. */
static const char *refuse(const ptx_opcode *code, const char *kinds, bool has_space) {
    if ((code->carry_in || code->carry_out) && code->type.bits != 32)
        return "carries of other than 32 bits";
    const bool is_memory = code->op == PTX_LD || code->op == PTX_ST;
    if (kinds[0] != '\0' && (code->type.kind == 0 || strchr(kinds, code->type.kind) == NULL))
        return "its type";
    if (code->op == PTX_CVT && code->from.kind == 0) return "its type";
    if (code->type.kind == 'f' && code->type.bits == 16 &&
        !(code->op == PTX_CVT && code->from.kind == 'f' && code->from.bits == 32))
        return "f16 other than from and to f32";
    if (code->from.kind == 'f' && code->from.bits == 16 && code->type.bits != 32)
        return "f16 other than from and to f32";
    if (code->type.kind == 'g' && !(code->op == PTX_CVT && code->from.kind == 'f' &&
                                    code->from.bits == 32 && !code->sat && !code->ftz))
        return "bf16 other than from f32";
    if (code->pair && !same_type(code->from, (ptx_type){'f', 32})) return "its type";
    if (code->op == PTX_MMA &&
        (code->type.bits != 32 || code->from.bits != 16 || code->from.kind == 'b'))
        return "its type";
    if (is_memory && !has_space) return "generic addresses";
    if (code->op == PTX_ATOM && (code->space != PTX_SHARED || code->type.bits != 32))
        return "atoms other than of 32 bits in shared memory";
    if (code->keeps_nan && !same_type(code->type, (ptx_type){'f', 32})) return "its type";
    if (code->sat && code->type.kind != 'f') return "sat of integers";
    if (code->op == PTX_SHFL && code->type.bits != 32) return "its type";
    return NULL;
}

const char *ptx_decode(const char *text, size_t length, ptx_opcode *opcode) {
    const char *end = text + length, *dot = memchr(text, '.', length);
    const size_t name = dot != NULL ? (size_t)(dot - text) : length;
    size_t k = 0;
    while (k < sizeof k_names / sizeof k_names[0] && !is(k_names[k].name, text, name)) k++;
    if (k == sizeof k_names / sizeof k_names[0]) return "this instruction";
    memset(opcode, 0, sizeof *opcode);
    opcode->op = k_names[k].op;
    opcode->vector = 1;
    opcode->carry_in = opcode->op != PTX_MAD ? is("addc", text, name) || is("subc", text, name)
                                             : is("madc", text, name);
    bool has_space = false;
    for (const char *part = text + name; part < end;) {
        part++;
        const char *next = memchr(part, '.', (size_t)(end - part));
        const size_t bytes = (size_t)((next != NULL ? next : end) - part);
        int space = 0;
        if (!modifier(opcode, part, bytes)) return "a part of this opcode";
        has_space = has_space || look_up(k_spaces, part, bytes, &space);
        part += bytes;
    }
    return refuse(opcode, k_names[k].kinds, has_space);
}

float ptx_machine_instructions(const ptx_opcode *code) {
    const bool is_float = code->type.kind == 'f', wide = code->type.bits == 64;
    switch (code->op) {
        case PTX_CVTA:
            return 0;
        case PTX_CVT: /* the low half of a pair of registers */
            return !is_float && code->from.kind != 'f' && code->from.bits == 64 && !wide ? 0 : 1;
        case PTX_MOV:
            return 0.35f;
        case PTX_DIV:
        case PTX_REM:
            if (is_float) return wide ? 40 : code->approx ? 3 : 9;
            return wide ? 70 : code->type.kind == 's' ? 29 : 18;
        case PTX_SQRT:
        case PTX_RCP:
            return code->approx ? 1 : wide ? 30 : 8;
        default:
            return 1;
    }
}
