/* SPDX-License-Identifier: Apache-2.0
 *
 * From PTX text to a module: variables, registers, labels and decoded instructions.
 */
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "program.h"
#include "scan.h"

enum { MAX_DEPTH = 16 };

/* .reg .b32 %r<68>: count 68; a single name: count 0 */
typedef struct registers {
    ptx_token name;
    unsigned count, first, bits;
} registers;

typedef struct label {
    ptx_token name;
    unsigned at;
} label;

/* An instruction that calls a function by name, which may come later. */
typedef struct caller {
    ptx_token name;
    bool in_function;
    size_t kernel, instruction;
} caller;

typedef struct parser {
    ptx_scanner scan;
    ptx_module *module;
    ptx_kernel *kernel;
    registers *registers;
    label *labels;
    ptx_token *targets; /* per instruction: the label it names */
    caller *callers;
    bool in_function;
    size_t register_count, register_capacity, label_count, label_capacity, target_count,
        target_capacity, caller_count, caller_capacity;
    char *error;
    size_t error_bytes;
} parser;

static bool fail(parser *p, const ptx_token *at, const char *format, ...)
    __attribute__((format(printf, 3, 4)));
static bool fail(parser *p, const ptx_token *at, const char *format, ...) {
    va_list list;
    const int used = snprintf(p->error, p->error_bytes, "line %d: ", at->line);
    va_start(list, format);
    if (used > 0 && (size_t)used < p->error_bytes)
        (void)vsnprintf(p->error + used, p->error_bytes - (size_t)used, format, list);
    va_end(list);
    return false;
}

static bool no_memory(parser *p) { return fail(p, &p->scan.token, "out of memory"); }

/* Room for one more element; `array` is the address of a pointer to any type. */
static bool grow(void *array, size_t count, size_t *capacity, size_t element_bytes) {
    void *from = NULL;
    if (count < *capacity) return true;
    memcpy(&from, array, sizeof from);
    const size_t more = *capacity == 0 ? 16 : 2 * *capacity;
    void *moved = realloc(from, more * element_bytes);
    if (moved == NULL) return false;
    memcpy(array, &moved, sizeof moved);
    *capacity = more;
    return true;
}

#define GROW(array, count, capacity) grow(&(array), (count), &(capacity), sizeof *(array))

static bool at(const parser *p, const char *text) { return ptx_is(&p->scan.token, text); }

static bool expect(parser *p, const char *text) {
    if (!at(p, text))
        return fail(p, &p->scan.token, "%s expected, not %.*s", text, (int)p->scan.token.length,
                    p->scan.token.text);
    ptx_next(&p->scan);
    return true;
}

static bool name_is(const char *name, const ptx_token *token) { return ptx_is(token, name); }

/* ---- variables ---- */

/* The latest of a name, as with registers. */
static const ptx_variable *find_variable(const parser *p, const ptx_token *name) {
    const ptx_variables *lists[] = {p->kernel != NULL ? &p->kernel->variables : NULL,
                                    &p->module->globals};
    for (size_t k = 0; k < 2; k++)
        for (size_t i = lists[k] != NULL ? lists[k]->count : 0; i-- > 0;)
            if (name_is(lists[k]->at[i].name, name)) return &lists[k]->at[i];
    return NULL;
}

static size_t type_bytes(const ptx_token *type) {
    if (type->length < 3 || strchr("busf", type->text[1]) == NULL) return 0;
    return strtoul(type->text + 2, NULL, 10) / 8;
}

/* ".align 8 .b8 name[288]", after the word that names the space; the offset is set by place(). */
static bool variable(parser *p, ptx_space space, ptx_variable *v, size_t *align) {
    uint64_t number = 0;
    *align = 0;
    memset(v, 0, sizeof *v);
    v->space = space;
    size_t element = 0;
    while (p->scan.token.length > 0 && p->scan.token.text[0] == '.') {
        const bool is_align = at(p, ".align");
        if (type_bytes(&p->scan.token) != 0) element = type_bytes(&p->scan.token);
        ptx_next(&p->scan);
        if (!is_align) continue;
        if (!ptx_number(&p->scan.token, &number)) return fail(p, &p->scan.token, ".align of what");
        *align = (size_t)number;
        ptx_next(&p->scan);
    }
    const ptx_token name = p->scan.token;
    if (element == 0 || name.length >= sizeof v->name)
        return fail(p, &name, "variable %.*s is not understood", (int)name.length, name.text);
    memcpy(v->name, name.text, name.length);
    v->bytes = element;
    if (*align == 0) *align = element;
    ptx_next(&p->scan);
    if (!at(p, "[")) return true;
    ptx_next(&p->scan);
    if (!ptx_number(&p->scan.token, &number)) return fail(p, &name, "an array without a size");
    v->bytes *= (size_t)number;
    ptx_next(&p->scan);
    return expect(p, "]");
}

static bool add_variable(parser *p, ptx_variables *list, const ptx_variable *v) {
    if (!GROW(list->at, list->count, list->capacity)) return no_memory(p);
    list->at[list->count++] = *v;
    return true;
}

/* Gives a variable the next aligned place of its space. */
static bool place(parser *p, ptx_variable *v, size_t align, size_t *used) {
    *used = (*used + align - 1) / align * align;
    v->offset = *used;
    *used += v->bytes;
    return add_variable(p, &p->kernel->variables, v);
}

/* .global .align 4 .b8 name[24] = {65, 144}; */
static bool global_variable(parser *p) {
    ptx_variable v;
    size_t align = 0, filled = 0;
    if (!variable(p, PTX_GLOBAL, &v, &align)) return false;
    unsigned char *bytes = aligned_alloc(256, (v.bytes + 255) / 256 * 256);
    if (bytes == NULL) return no_memory(p);
    memset(bytes, 0, v.bytes);
    v.offset = (uint64_t)(uintptr_t)bytes;
    if (!add_variable(p, &p->module->globals, &v)) {
        free(bytes);
        return false;
    }
    if (at(p, "=")) {
        ptx_next(&p->scan);
        if (!expect(p, "{")) return false;
        for (uint64_t number = 0; ptx_number(&p->scan.token, &number);) {
            if (number > 255 || filled == v.bytes)
                return fail(p, &p->scan.token, "initialisers other than bytes");
            bytes[filled++] = (unsigned char)number;
            ptx_next(&p->scan);
            if (at(p, ",")) ptx_next(&p->scan);
        }
        if (!expect(p, "}")) return false;
    }
    return expect(p, ";");
}

/* ---- registers ---- */

static bool register_names(parser *p) {
    const ptx_token type = p->scan.token;
    const unsigned bits = ptx_is(&type, ".pred") ? 1 : (unsigned)type_bytes(&type) * 8;
    if (bits == 0) return fail(p, &type, "registers of %.*s", (int)type.length, type.text);
    do {
        uint64_t count = 0;
        ptx_next(&p->scan);
        registers r = {p->scan.token, 0, p->kernel->registers, bits};
        ptx_next(&p->scan);
        if (at(p, "<")) {
            ptx_next(&p->scan);
            if (!ptx_number(&p->scan.token, &count) || count > 1 << 20)
                return fail(p, &r.name, "registers without a count");
            ptx_next(&p->scan);
            if (!expect(p, ">")) return false;
        }
        r.count = (unsigned)count;
        p->kernel->registers += r.count == 0 ? 1 : r.count;
        if (!GROW(p->registers, p->register_count, p->register_capacity)) return no_memory(p);
        p->registers[p->register_count++] = r;
    } while (at(p, ","));
    return expect(p, ";");
}

/* The latest of a name: an inner scope hides an outer one. */
static bool find_register(const parser *p, const ptx_token *name, ptx_operand *operand) {
    for (size_t i = p->register_count; i-- > 0;) {
        const registers *r = &p->registers[i];
        const size_t length = r->name.length;
        uint64_t number = 0;
        if (name->length < length || memcmp(name->text, r->name.text, length) != 0) continue;
        const ptx_token rest = {name->text + length, name->length - length, name->line};
        const bool found =
            r->count == 0 ? rest.length == 0 : ptx_number(&rest, &number) && number < r->count;
        if (!found) continue;
        operand->kind = PTX_REGISTER;
        operand->reg = r->first + (unsigned)number;
        operand->bits = r->bits;
        return true;
    }
    return false;
}

/* ---- operands ---- */

static const struct {
    const char *name;
    ptx_operand_kind kind;
} k_specials[] = {{"%tid.x", PTX_TID},       {"%ctaid.x", PTX_CTAID}, {"%ntid.x", PTX_NTID},
                  {"%nctaid.x", PTX_NCTAID}, {"%laneid", PTX_LANEID}, {"_", PTX_DISCARD}};

/* A register, a number, a special register or a variable's address. */
static bool simple_operand(parser *p, ptx_operand *operand) {
    const ptx_token token = p->scan.token;
    memset(operand, 0, sizeof *operand);
    operand->kind = PTX_CONSTANT;
    ptx_next(&p->scan);
    if (ptx_number(&token, &operand->value) || find_register(p, &token, operand)) return true;
    for (size_t i = 0; i < sizeof k_specials / sizeof k_specials[0]; i++) {
        if (!ptx_is(&token, k_specials[i].name)) continue;
        operand->kind = k_specials[i].kind;
        return true;
    }
    const ptx_variable *v = find_variable(p, &token);
    if (v == NULL) return fail(p, &token, "%.*s is unknown", (int)token.length, token.text);
    operand->value = v->offset;
    return true;
}

/* "[%rd1+8]", after the bracket */
static bool address_operand(parser *p, ptx_operand *operand) {
    uint64_t offset = 0;
    if (!simple_operand(p, operand)) return false;
    operand->kind = operand->kind == PTX_REGISTER ? PTX_BASE_ADDRESS : PTX_ADDRESS;
    if (at(p, "+")) {
        ptx_next(&p->scan);
        if (!ptx_number(&p->scan.token, &offset))
            return fail(p, &p->scan.token, "an offset that is no number");
        operand->value += offset;
        ptx_next(&p->scan);
    }
    return expect(p, "]");
}

/* Appends one operand, or those between braces or joined by |. */
static bool operand(parser *p, ptx_operand *list, unsigned *count, unsigned max) {
    const bool braces = at(p, "{");
    do {
        if (*count == max) return fail(p, &p->scan.token, "too many operands");
        if (braces || at(p, "|")) ptx_next(&p->scan);
        if (at(p, "[")) {
            ptx_next(&p->scan);
            if (!address_operand(p, &list[*count])) return false;
        } else if (!simple_operand(p, &list[*count])) {
            return false;
        }
        ++*count;
    } while (at(p, "|") || (braces && at(p, ",")));
    return !braces || expect(p, "}");
}

/* ---- instructions ---- */

static bool guard(parser *p, ptx_instruction *i) {
    ptx_operand predicate;
    ptx_next(&p->scan);
    i->guard_negated = at(p, "!");
    if (i->guard_negated) ptx_next(&p->scan);
    if (!find_register(p, &p->scan.token, &predicate) || predicate.bits != 1)
        return fail(p, &p->scan.token, "a guard that is no predicate");
    i->guard = (int)predicate.reg;
    ptx_next(&p->scan);
    return true;
}

/* Whether an instruction has as many operands as it should. */
static bool counts_fit(const ptx_instruction *i) {
    static const unsigned char ternary[] = {PTX_BFE, PTX_FMA, PTX_MAD, PTX_PRMT, PTX_SELP};
    static const unsigned char unary[] = {PTX_ABS, PTX_CLZ, PTX_COS, PTX_CVTA,  PTX_EX2, PTX_LG2,
                                          PTX_NEG, PTX_NOT, PTX_RCP, PTX_RSQRT, PTX_SIN, PTX_SQRT};
    const ptx_op op = i->code.op;
    if (op == PTX_RET || op == PTX_EXIT) return i->in_count + i->out_count == 0;
    if (op == PTX_BRA || op == PTX_CALL) return true; /* of calls resolve_calls() knows */
    if (op == PTX_BAR)
        return i->in_count == 1 && i->in[0].kind == PTX_CONSTANT && i->in[0].value == 0;
    if (op == PTX_CP)
        return i->in_count == (i->code.async == PTX_COPY   ? 4u
                               : i->code.async == PTX_WAIT ? 1u
                                                           : 0u);
    if (op == PTX_MMA) return i->out_count == 4 && i->in_count == 10;
    if (op == PTX_LDMATRIX) return i->out_count == 4 && i->in_count == 1;
    if (op == PTX_LD) return i->out_count == i->code.vector && i->in_count == 1;
    if (op == PTX_ST) return i->out_count == 0 && i->in_count == 1 + i->code.vector;
    if (op == PTX_MOV)
        return i->out_count >= 1 && i->in_count >= 1 && (i->out_count == 1 || i->in_count == 1);
    if (op == PTX_SHFL) return i->out_count <= 2 && i->in_count == 4;
    if (i->out_count != 1) return false;
    if (op == PTX_BFI) return i->in_count == 4;
    if (op == PTX_CVT) return i->in_count == (i->code.pair ? 2u : 1u);
    if (op == PTX_SETP) return i->in_count == (i->code.logic != 0 ? 3u : 2u);
    if (memchr(ternary, (int)op, sizeof ternary) != NULL) return i->in_count == 3;
    return i->in_count == (memchr(unary, (int)op, sizeof unary) != NULL ? 1u : 2u);
}

static bool operands(parser *p, ptx_instruction *i) {
    const bool has_out = i->code.op != PTX_ST && i->code.op != PTX_BAR && i->code.op != PTX_CP;
    for (unsigned n = 0; !at(p, ";"); n++) {
        if (n > 0 && !expect(p, ",")) return false;
        const bool out = n == 0 && has_out;
        if (!(out ? operand(p, i->out, &i->out_count, PTX_MAX_OUT)
                  : operand(p, i->in, &i->in_count, PTX_MAX_IN)))
            return false;
    }
    for (unsigned n = 0; n < i->out_count; n++)
        if (i->out[n].kind != PTX_REGISTER && i->out[n].kind != PTX_DISCARD)
            return fail(p, &p->scan.token, "%s writes to what is no register", i->text);
    return true;
}

/* What a call passes, "(param0, param1)": variables in local memory. */
static bool passed(parser *p, ptx_operand *list, unsigned *count, unsigned max) {
    if (!expect(p, "(")) return false;
    while (!at(p, ")")) {
        if (*count > 0 && !expect(p, ",")) return false;
        const ptx_variable *v = find_variable(p, &p->scan.token);
        if (v == NULL || v->space != PTX_LOCAL || *count == max)
            return fail(p, &p->scan.token, "a call passes what it cannot");
        list[(*count)++] = (ptx_operand){.kind = PTX_CONSTANT, .value = v->offset};
        ptx_next(&p->scan);
    }
    return expect(p, ")");
}

/* call.uni (retval0), name, (param0); */
static bool call(parser *p, ptx_instruction *i) {
    const bool gives = at(p, "(");
    if (gives && (!passed(p, i->out, &i->out_count, PTX_MAX_OUT) || !expect(p, ","))) return false;
    if (!GROW(p->callers, p->caller_count, p->caller_capacity)) return no_memory(p);
    p->callers[p->caller_count++] =
        (caller){p->scan.token, p->in_function,
                 (p->in_function ? p->module->function_count : p->module->kernel_count) - 1,
                 p->kernel->code_count};
    ptx_next(&p->scan);
    return !at(p, ",") || (expect(p, ",") && passed(p, i->in, &i->in_count, PTX_MAX_IN));
}

/* Parameters of functions and of calls lie in local memory, whatever the instruction says. */
static void place_access(const parser *p, ptx_instruction *i) {
    ptx_scanner ahead = p->scan;
    if ((i->code.op != PTX_LD && i->code.op != PTX_ST) || i->code.space != PTX_PARAM) return;
    while (!ptx_is(&ahead.token, "[") && ahead.token.length > 0) ptx_next(&ahead);
    ptx_next(&ahead);
    const ptx_variable *v = find_variable(p, &ahead.token);
    if (v != NULL) i->code.space = v->space;
}

static bool instruction(parser *p) {
    ptx_kernel *kernel = p->kernel;
    ptx_instruction i = {.line = p->scan.token.line, .guard = -1};
    ptx_token target = {0};
    if (at(p, "@") && !guard(p, &i)) return false;
    const ptx_token opcode = p->scan.token;
    (void)snprintf(i.text, sizeof i.text, "%.*s", (int)opcode.length, opcode.text);
    const char *unknown = ptx_decode(opcode.text, opcode.length, &i.code);
    if (unknown != NULL)
        return fail(p, &opcode, "%s: %s is not executed by this interpreter", i.text, unknown);
    i.machine = ptx_machine_instructions(&i.code);
    i.form = ptx_form_of(&i.code);
    ptx_next(&p->scan);
    place_access(p, &i);
    if (i.code.op == PTX_BRA) {
        target = p->scan.token;
        ptx_next(&p->scan);
    } else if (i.code.op == PTX_CALL ? !call(p, &i) : !operands(p, &i)) {
        return false;
    }
    if (!counts_fit(&i)) return fail(p, &opcode, "%s: its operands are not understood", i.text);
    if (!GROW(kernel->code, kernel->code_count, kernel->code_capacity) ||
        !GROW(p->targets, p->target_count, p->target_capacity))
        return no_memory(p);
    kernel->code[kernel->code_count++] = i;
    p->targets[p->target_count++] = target;
    return expect(p, ";");
}

static bool is_label(const parser *p) {
    ptx_scanner ahead = p->scan;
    ptx_next(&ahead);
    return ptx_is(&ahead.token, ":");
}

static bool add_label(parser *p) {
    if (!GROW(p->labels, p->label_count, p->label_capacity)) return no_memory(p);
    p->labels[p->label_count++] = (label){p->scan.token, (unsigned)p->kernel->code_count};
    ptx_next(&p->scan);
    return expect(p, ":");
}

static bool resolve_labels(parser *p) {
    for (size_t i = 0; i < p->kernel->code_count; i++) {
        const ptx_token *target = &p->targets[i];
        size_t k = 0;
        if (p->kernel->code[i].code.op != PTX_BRA) continue;
        while (k < p->label_count && (p->labels[k].name.length != target->length ||
                                      memcmp(p->labels[k].name.text, target->text, target->length)))
            k++;
        if (k == p->label_count)
            return fail(p, target, "there is no label %.*s", (int)target->length, target->text);
        p->kernel->code[i].target = p->labels[k].at;
    }
    return true;
}

/* ---- kernels ---- */

static bool body_variable(parser *p, ptx_space space) {
    ptx_variable v;
    size_t align = 0;
    ptx_next(&p->scan);
    if (!variable(p, space, &v, &align)) return false;
    size_t *used = space == PTX_SHARED ? &p->kernel->shared_bytes : &p->kernel->local_bytes;
    return place(p, &v, align, used) && expect(p, ";");
}

static bool statement(parser *p) {
    if (at(p, ".reg")) {
        ptx_next(&p->scan);
        return register_names(p);
    }
    if (at(p, ".param")) return body_variable(p, PTX_LOCAL); /* what a call passes */
    if (at(p, ".shared")) return body_variable(p, PTX_SHARED);
    if (at(p, ".local")) return body_variable(p, PTX_LOCAL);
    if (at(p, ".pragma")) {
        while (p->scan.token.length > 0 && !at(p, ";")) ptx_next(&p->scan);
        return expect(p, ";");
    }
    if (is_label(p)) return add_label(p);
    return instruction(p);
}

static bool body(parser *p) {
    size_t outside[MAX_DEPTH]; /* registers that are known around a scope */
    unsigned depth = 1;
    while (depth > 0) {
        if (p->scan.token.length == 0) return fail(p, &p->scan.token, "the kernel has no end");
        if (at(p, "{")) {
            if (depth == MAX_DEPTH) return fail(p, &p->scan.token, "too many scopes");
            outside[depth++] = p->register_count;
            ptx_next(&p->scan);
        } else if (at(p, "}")) {
            if (--depth > 0) p->register_count = outside[depth];
            ptx_next(&p->scan);
        } else if (!statement(p)) {
            return false;
        }
    }
    return resolve_labels(p);
}

/* ".param .u64 a, .param .align 8 .b8 b[288])", into the parameters or, of functions, local memory
 */
static bool parameters(parser *p) {
    ptx_kernel *k = p->kernel;
    while (!at(p, ")")) {
        ptx_variable v;
        size_t align = 0;
        if (at(p, ",")) ptx_next(&p->scan);
        if (!expect(p, ".param") ||
            !variable(p, p->in_function ? PTX_LOCAL : PTX_PARAM, &v, &align) ||
            !place(p, &v, align, p->in_function ? &k->local_bytes : &k->param_bytes))
            return false;
        k->param_count++;
    }
    return expect(p, ")");
}

static bool named(parser *p) {
    const ptx_token name = p->scan.token;
    if (name.length >= sizeof p->kernel->name) return fail(p, &name, "the name is too long");
    memcpy(p->kernel->name, name.text, name.length);
    ptx_next(&p->scan);
    return expect(p, "(") && parameters(p);
}

static bool begin(parser *p, ptx_kernel *kernel) {
    p->kernel = kernel;
    memset(kernel, 0, sizeof *kernel);
    kernel->module = p->module;
    kernel->told = calloc(1, sizeof *kernel->told);
    p->register_count = p->label_count = p->target_count = 0;
    return kernel->told != NULL || no_memory(p);
}

static bool kernel(parser *p) {
    ptx_module *m = p->module;
    if (!GROW(m->kernels, m->kernel_count, m->kernel_capacity)) return no_memory(p);
    p->in_function = false;
    if (!begin(p, &m->kernels[m->kernel_count++]) || !named(p)) return false;
    while (p->scan.token.length > 0 && !at(p, "{")) ptx_next(&p->scan); /* .maxntid 256, 1, 1 */
    const bool good = expect(p, "{") && body(p);
    p->kernel = NULL;
    return good;
}

static bool waits_for_threads(const ptx_kernel *function) {
    bool waits = false;
    for (size_t i = 0; i < function->code_count; i++) {
        const ptx_op op = function->code[i].code.op;
        waits |= op == PTX_BAR || op == PTX_SHFL || op == PTX_LDMATRIX || op == PTX_MMA;
    }
    return waits;
}

/* .func (.param .b64 retval0) name (.param .b64 a), and a body or, declared ahead, none */
static bool function(parser *p) {
    ptx_module *m = p->module;
    const ptx_token start = p->scan.token;
    if (!GROW(m->functions, m->function_count, m->function_capacity)) return no_memory(p);
    p->in_function = true;
    if (!begin(p, &m->functions[m->function_count++])) return false;
    if (at(p, "(") && !(expect(p, "(") && parameters(p))) return false;
    bool good = named(p);
    if (good && at(p, ";")) { /* its body comes later */
        free(p->kernel->variables.at);
        free(p->kernel->told);
        m->function_count--;
    } else {
        good = good && expect(p, "{") && body(p);
        if (good && waits_for_threads(p->kernel))
            good = fail(p, &start, "functions that wait for other threads are not executed");
    }
    p->kernel = NULL;
    return good;
}

static bool resolve_calls(parser *p) {
    ptx_module *m = p->module;
    for (size_t k = 0; k < p->caller_count; k++) {
        const caller *c = &p->callers[k];
        ptx_kernel *from = c->in_function ? &m->functions[c->kernel] : &m->kernels[c->kernel];
        ptx_instruction *i = &from->code[c->instruction];
        size_t to = 0;
        while (to < m->function_count && !name_is(m->functions[to].name, &c->name)) to++;
        if (to == m->function_count)
            return fail(p, &c->name, "there is no function %.*s", (int)c->name.length,
                        c->name.text);
        if (m->functions[to].param_count != i->out_count + i->in_count)
            return fail(p, &c->name, "%s is called with other parameters than it has",
                        m->functions[to].name);
        i->target = (unsigned)to;
    }
    return true;
}

static bool module(parser *p) {
    while (p->scan.token.length > 0) {
        const ptx_token token = p->scan.token;
        ptx_next(&p->scan);
        if (ptx_is(&token, ".extern"))
            return fail(p, &token, "%.*s: what lies elsewhere is not executed by this interpreter",
                        (int)token.length, token.text);
        if (ptx_is(&token, ".func") && !function(p)) return false;
        if (ptx_is(&token, ".entry") && !kernel(p)) return false;
        if (ptx_is(&token, ".global") && !global_variable(p)) return false;
    }
    return resolve_calls(p);
}

ptx_module *ptx_parse(const char *text, char *error, size_t error_bytes) {
    parser p = {.error = error, .error_bytes = error_bytes};
    p.module = calloc(1, sizeof *p.module);
    if (p.module == NULL) return NULL;
    ptx_scan(&p.scan, text);
    const bool good = module(&p);
    free(p.registers);
    free(p.labels);
    free(p.targets);
    free(p.callers);
    if (good) return p.module;
    ptx_free(p.module);
    return NULL;
}

static void free_kernels(ptx_kernel *list, size_t count) {
    for (size_t i = 0; i < count; i++) {
        free(list[i].variables.at);
        free(list[i].code);
        free(list[i].told);
    }
    free(list);
}

void ptx_free(ptx_module *module) {
    if (module == NULL) return;
    free_kernels(module->kernels, module->kernel_count);
    free_kernels(module->functions, module->function_count);
    for (size_t i = 0; i < module->globals.count; i++)
        free((void *)(uintptr_t)module->globals.at[i].offset);
    free(module->globals.at);
    free(module);
}

size_t ptx_kernel_count(const ptx_module *module) { return module->kernel_count; }
const ptx_kernel *ptx_kernel_at(const ptx_module *module, size_t index) {
    return &module->kernels[index];
}
const char *ptx_kernel_name(const ptx_kernel *kernel) { return kernel->name; }
size_t ptx_param_count(const ptx_kernel *kernel) { return kernel->param_count; }

const ptx_kernel *ptx_find(const ptx_module *module, const char *name) {
    for (size_t i = 0; i < module->kernel_count; i++)
        if (strcmp(module->kernels[i].name, name) == 0) return &module->kernels[i];
    return NULL;
}
