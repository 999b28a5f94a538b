/* SPDX-License-Identifier: Apache-2.0
 *
 * Programs that spell an activation in single operations. Exporters write the same function in many
 * orders, so a program is brought into one form first: p(x) + q(x) u with polynomials p and q and
 * one u = erf(r(x)), tanh(r(x)) or max(0, min(1, r(x))). Two programs of one form compute the same.
 */
#include <float.h>
#include <math.h>
#include <string.h>

#include "base/errors/planted.h"
#include "base/memory/size.h"
#include "model/passes/fuse.h"

enum { DEGREES = 4 }; /* x^0 to x^3, which the argument of tanh has */

typedef struct polynomial {
    double of[DEGREES];
} polynomial;

typedef struct form {
    polynomial plain, times; /* plain + times u */
} form;

/* The function u; op 0: none was met. */
typedef struct inner {
    dhowi_map_op op;
    polynomial argument;
} inner;

static form constant(double value) { return (form){.plain.of = {value}}; }
static bool is_zero(const polynomial *p) {
    return p->of[0] == 0 && p->of[1] == 0 && p->of[2] == 0 && p->of[3] == 0;
}
static bool is_constant(const form *f) {
    const polynomial rest = {{0, f->plain.of[1], f->plain.of[2], f->plain.of[3]}};
    return is_zero(&rest) && is_zero(&f->times);
}

static void add(polynomial *p, const polynomial *q) {
    for (int i = 0; i < DEGREES; i++) p->of[i] += q->of[i];
}

/* False where the product has a higher degree. */
static bool multiply(const polynomial *p, const polynomial *q, polynomial *out) {
    *out = (polynomial){{0}};
    for (int i = 0; i < DEGREES; i++) {
        for (int k = 0; k < DEGREES; k++) {
            const double c = p->of[i] * q->of[k];
            if (c != 0 && i + k >= DEGREES) return false;
            if (c != 0) out->of[i + k] += c;
        }
    }
    return true;
}

/* False where u^2 comes in. */
static bool multiply_forms(form *v, const form *w) {
    form out;
    polynomial other;
    if (!is_zero(&v->times) && !is_zero(&w->times)) return false;
    if (!multiply(&v->plain, &w->plain, &out.plain) ||
        !multiply(&v->plain, &w->times, &out.times) || !multiply(&v->times, &w->plain, &other))
        return false;
    add(&out.times, &other);
    *v = out;
    return true;
}

static bool power(form *v, const form *w) {
    const double n = w->plain.of[0];
    const form base = *v;
    if (!is_constant(w) || (n != 1 && n != 2 && n != 3)) return false;
    for (int i = 1; i < (int)n; i++)
        if (!multiply_forms(v, &base)) return false;
    return true;
}

static bool divide(form *v, const form *w) {
    if (!is_constant(w) || w->plain.of[0] == 0) return false;
    const form inverse = constant(1 / w->plain.of[0]);
    return multiply_forms(v, &inverse);
}

/* erf and tanh are odd: the argument's sign goes out. */
static bool apply_inner(form *v, dhowi_map_op op, inner *u) {
    inner met = {op, v->plain};
    const bool odd = op == DHOWI_MAP_ERF || op == DHOWI_MAP_TANH;
    const double sign = odd && met.argument.of[1] < 0 ? -1 : 1;
    if (!is_zero(&v->times)) return false;
    for (int i = 0; i < DEGREES; i++) met.argument.of[i] *= sign;
    if (u->op == 0) *u = met;
    if (u->op != op || memcmp(&u->argument, &met.argument, sizeof met.argument) != 0) return false;
    *v = (form){.times.of = {sign}};
    return true;
}

/* v held between two numbers is low + (high - low) u. */
static bool hold(form *v, double low, double high, inner *u) {
    const form width = constant(high - low);
    const polynomial down = {{-low}};
    if (!(high > low) || isinf(high - low)) return false;
    add(&v->plain, &down);
    if (!divide(v, &width) || !apply_inner(v, DHOWI_MAP_HARD_SIGMOID, u)) return false;
    v->plain.of[0] = low;
    v->times.of[0] = high - low;
    return true;
}

static bool apply(dhowi_map_op op, const double *numbers, form *v, const form *w, inner *u) {
    switch (op) {
        case DHOWI_MAP_LOAD:
            *v = *w;
            return true;
        case DHOWI_MAP_ADD:
            add(&v->plain, &w->plain);
            add(&v->times, &w->times);
            return true;
        case DHOWI_MAP_MUL:
            return multiply_forms(v, w);
        case DHOWI_MAP_DIV:
            return divide(v, w);
        case DHOWI_MAP_POW:
            return power(v, w);
        case DHOWI_MAP_ERF:
        case DHOWI_MAP_TANH:
            return apply_inner(v, op, u);
        case DHOWI_MAP_CLIP:
            return hold(v, numbers[0], numbers[1], u);
        default:
            return false;
    }
}

/* The form of a program of these operands; false where it has none. */
static bool form_of(const dhowi_program *p, const form *operands, inner *u, form *out) {
    form v = {{{0}}, {{0}}}, saved[2] = {{{{0}}, {{0}}}};
    for (uint32_t i = 0; i < p->words; i++) {
        const uint32_t source = dhowi_word_source(p->word[i]);
        const dhowi_map_op op = (dhowi_map_op)dhowi_word_op(p->word[i]);
        const form w = source == DHOWI_MAP_CONSTANT
                           ? constant(p->constant[dhowi_word_constant(p->word[i])])
                       : source == DHOWI_MAP_SAVED  ? saved[0]
                       : source == DHOWI_MAP_SAVED2 ? saved[1]
                                                    : operands[source];
        if (op == DHOWI_MAP_SAVE)
            saved[0] = v;
        else if (op == DHOWI_MAP_SAVE2)
            saved[1] = v;
        else if (!apply(op, &p->constant[dhowi_word_constant(p->word[i])], &v, &w, u))
            return false;
    }
    *out = v;
    return true;
}

/* Each number may be off by what the file's type rounds away, twice for products of two. */
static bool is_polynomial(const polynomial *p, const polynomial *wanted, double tolerance) {
    for (int i = 0; i < DEGREES; i++)
        if (fabs(p->of[i] - wanted->of[i]) > tolerance * fabs(wanted->of[i])) return false;
    return true;
}

/* A program of x, or of x and of what another makes of x. */
typedef struct composed {
    const dhowi_program *first, *then; /* first: NULL when there is none */
    uint32_t of_first;                 /* bits of then's operands that are the first's result */
} composed;

static double rounding_of(dhow_dtype dtype) {
    switch (dtype) {
        case DHOW_F64:
            return DBL_EPSILON;
        case DHOW_F16:
            return 0x1p-10;
        case DHOW_BF16:
            return 0x1p-7;
        default:
            return (double)FLT_EPSILON;
    }
}

/* GELU is x/2 (1 + erf(x / sqrt(2))), by tanh x/2 (1 + tanh(sqrt(2/pi) (x + 0.044715 x^3))). */
static bool is_gelu(const form *y, const inner *u, double tolerance) {
    const double k = sqrt(2 / acos(-1.0));
    const polynomial half = {{0, 0.5}}, by_erf = {{0, sqrt(0.5)}},
                     by_tanh = {{0, k, 0, k * 0.044715}};
    return is_polynomial(&y->plain, &half, tolerance) &&
           is_polynomial(&y->times, &half, tolerance) &&
           is_polynomial(&u->argument, u->op == DHOWI_MAP_ERF ? &by_erf : &by_tanh, tolerance);
}

/* scale x max(0, min(1, x/6 + 1/2)) + shift */
static bool is_hard_swish(const form *y, const inner *u, double tolerance) {
    const polynomial shift = {{y->plain.of[0]}}, scale = {{0, y->times.of[1]}},
                     sixth = {{0.5, 1.0 / 6}};
    return scale.of[1] != 0 && is_polynomial(&y->plain, &shift, 0) &&
           is_polynomial(&y->times, &scale, 0) && is_polynomial(&u->argument, &sixth, tolerance);
}

/* What a program is: scale op(x) + shift. */
typedef struct activation {
    dhowi_map_op op;
    double scale, shift;
} activation;

static activation hard_swish_of(const form *y, double tolerance) {
    const double scale = y->times.of[1];
    return (activation){DHOWI_MAP_HARD_SWISH, fabs(scale - 1) <= tolerance ? 1 : scale,
                        y->plain.of[0]};
}

/* The one operation that does the same; op 0 when there is none. */
static activation operation_of(const composed *c, dhow_dtype dtype) {
    const double tolerance = 1.5 * rounding_of(dtype);
    const activation none = {0};
    const form x = {.plain.of = {0, 1}};
    form operands[DHOWI_MAP_OPERANDS] = {x, x, x, x}, first, y;
    inner u = {0};
    if (c->first != NULL && !form_of(c->first, operands, &u, &first)) return none;
    for (uint32_t i = 0; i < DHOWI_MAP_OPERANDS; i++)
        if ((c->of_first >> i & 1) != 0) operands[i] = first;
    if (!form_of(c->then, operands, &u, &y) || u.op == 0) return none;
    if (u.op == DHOWI_MAP_HARD_SIGMOID) {
        const bool same = is_hard_swish(&y, &u, tolerance);
        return DHOWI_GUARD(hard_swish_with_other_numbers, same) ? hard_swish_of(&y, tolerance)
                                                                : none;
    }
    if (!DHOWI_GUARD(gelu_with_other_numbers, is_gelu(&y, &u, tolerance))) return none;
    return (activation){u.op == DHOWI_MAP_ERF ? DHOWI_MAP_GELU : DHOWI_MAP_GELU_TANH, 1, 0};
}

/* Makes s the activation of x, and of its factor where there is one. */
static void become(dhowi_step *s, const activation *a, int32_t x, int32_t factor) {
    dhowi_program *p = &s->attrs.program;
    *p = (dhowi_program){0};
    for (int i = 0; i < DHOWI_MAP_OPERANDS; i++) s->in[i] = -1;
    s->in[0] = x;
    s->in[1] = factor;
    (void)dhowi_program_add(p, DHOWI_MAP_LOAD, 0);
    (void)dhowi_program_constants(p, a->op, 0, 0, 0);
    if (a->scale != 1 || a->shift != 0)
        (void)dhowi_program_constants(p, DHOWI_MAP_LINEAR, 2, a->scale, a->shift);
    if (factor >= 0) (void)dhowi_program_add(p, DHOWI_MAP_MUL, 1);
}

int dhowi_last_factor(const dhowi_step *s) {
    const dhowi_program *p = &s->attrs.program;
    const uint32_t last = p->words > 0 ? p->word[p->words - 1] : 0, own = dhowi_word_source(last);
    if (dhowi_word_op(last) != DHOWI_MAP_MUL || own >= DHOWI_MAP_OPERANDS) return -1;
    for (uint32_t i = 0; i + 1 < p->words; i++)
        if (dhowi_reads_operand(p->word[i]) && dhowi_word_source(p->word[i]) == own) return -1;
    return (int)own;
}

/* `factor`: the operand that the last instruction multiplies by, or -1. */
static bool recognise(const composed *given, dhowi_step *s, int factor, int32_t x,
                      dhow_dtype dtype) {
    dhowi_program then = *given->then;
    const composed c = {given->first, &then, given->of_first};
    if (factor >= 0) then.words--;
    const activation a = operation_of(&c, dtype);
    if (a.op != 0) become(s, &a, x, factor >= 0 ? s->in[factor] : -1);
    return a.op != 0;
}

/* What p does with its accumulator from an instruction on, as a program of it; false where p reads
 * anything else there that is no constant. */
static bool rest_of(const dhowi_program *p, uint32_t from, dhowi_program *rest) {
    bool saved = false, saved2 = false;
    *rest = *p;
    rest->words = 0;
    (void)dhowi_program_add(rest, DHOWI_MAP_LOAD, 0);
    for (uint32_t i = from; i < p->words; i++) {
        const uint32_t source = dhowi_word_source(p->word[i]);
        saved = saved || dhowi_word_op(p->word[i]) == DHOWI_MAP_SAVE;
        saved2 = saved2 || dhowi_word_op(p->word[i]) == DHOWI_MAP_SAVE2;
        const bool known = source == DHOWI_MAP_CONSTANT || (saved && source == DHOWI_MAP_SAVED) ||
                           (saved2 && source == DHOWI_MAP_SAVED2);
        if (dhowi_reads_operand(p->word[i]) && !DHOWI_GUARD(rest_of_two_values, known))
            return false;
        rest->word[rest->words++] = p->word[i];
    }
    return true;
}

/* How many of its constants the first instructions of a program ask for. */
static uint32_t constants_of(const dhowi_program *p, uint32_t words) {
    uint32_t count = 0;
    for (uint32_t i = 0; i < words; i++) {
        const uint32_t word = p->word[i], own = dhowi_word_constants(word);
        if (own > 0) count = DHOWI_MAX(count, dhowi_word_constant(word) + own);
    }
    return count;
}

/* A program that makes x of several operands and ends with a function of x. */
static void recognise_end(dhowi_step *s, dhow_dtype dtype) {
    const dhowi_program *p = &s->attrs.program;
    for (uint32_t from = 2; from + 3 <= p->words; from++) {
        dhowi_program rest, begin = *p;
        if (!rest_of(p, from, &rest)) continue;
        const activation a = operation_of(&(composed){.then = &rest}, dtype);
        begin.words = from;
        begin.constants = constants_of(p, from);
        if (a.op == 0 || !dhowi_program_constants(&begin, a.op, 0, 0, 0)) continue;
        if ((a.scale != 1 || a.shift != 0) &&
            !dhowi_program_constants(&begin, DHOWI_MAP_LINEAR, 2, a.scale, a.shift))
            continue;
        s->attrs.program = begin;
        return;
    }
}

void dhowi_recognise(dhowi_step *s, dhow_dtype dtype) {
    const composed c = {.then = &s->attrs.program};
    const int factor = s->in[1] < 0 ? -1 : dhowi_last_factor(s);
    if (s->attrs.program.words < 4) return;
    const bool alone = s->in[2] < 0 && (s->in[1] < 0 || factor == 1);
    if (!alone || !recognise(&c, s, factor, s->in[0], dtype)) recognise_end(s, dtype);
}

bool dhowi_recognise_pair(const dhowi_step *first, dhowi_step *s, uint32_t of_first, int factor,
                          dhow_dtype dtype) {
    const composed c = {&first->attrs.program, &s->attrs.program, of_first};
    return recognise(&c, s, factor, first->in[0], dtype);
}
