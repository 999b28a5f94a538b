/* SPDX-License-Identifier: Apache-2.0
 *
 * Programs that spell an activation in single operations. Exporters write the same function in many
 * orders, so a program is recognised by what it computes: one made of the operations below is that
 * rational function of x and of its erf or tanh everywhere when it is so at enough places.
 */
#include <math.h>

#include "base/errors/planted.h"
#include "model/passes/passes.h"

/* Computes a program of these operands; false when it holds another operation. */
static bool evaluate(const dhowi_program *p, const double *operands, double *out) {
    double v = 0, saved[2] = {0};
    for (uint32_t i = 0; i < p->words; i++) {
        const uint32_t source = p->word[i] >> 8 & 255;
        const double w = source == DHOWI_MAP_CONSTANT ? p->constant[p->word[i] >> 16 & 255]
                         : source == DHOWI_MAP_SAVED  ? saved[0]
                         : source == DHOWI_MAP_SAVED2 ? saved[1]
                                                      : operands[source];
        switch ((dhowi_map_op)(p->word[i] & 255)) {
            case DHOWI_MAP_LOAD:
                v = w;
                break;
            case DHOWI_MAP_ADD:
                v += w;
                break;
            case DHOWI_MAP_MUL:
                v *= w;
                break;
            case DHOWI_MAP_DIV:
                v /= w;
                break;
            case DHOWI_MAP_POW:
                v = pow(v, w);
                break;
            case DHOWI_MAP_ERF:
                v = erf(v);
                break;
            case DHOWI_MAP_TANH:
                v = tanh(v);
                break;
            case DHOWI_MAP_SAVE:
                saved[0] = v;
                break;
            case DHOWI_MAP_SAVE2:
                saved[1] = v;
                break;
            default:
                return false;
        }
    }
    *out = v;
    return true;
}

static double gelu(double x) { return x / 2 * (1 + erf(x * sqrt(0.5))); }
static double gelu_tanh(double x) {
    return x / 2 * (1 + tanh(sqrt(2 / acos(-1.0)) * (x + 0.044715 * x * x * x)));
}

/* A program of x, or of x and of what another makes of x. */
typedef struct composed {
    const dhowi_program *first, *then; /* first: NULL when there is none */
    uint32_t of_first;                 /* bits of then's operands that are the first's result */
} composed;

/* Constants of an f32 file are rounded. */
static bool is_function(const composed *c, double (*function)(double), double tolerance) {
    for (double x = -4.25; x < 4.5; x += 0.5) {
        double y, first = x, operands[DHOWI_MAP_OPERANDS] = {x, x, x, x};
        if (c->first != NULL && !evaluate(c->first, operands, &first)) return false;
        for (uint32_t i = 0; i < DHOWI_MAP_OPERANDS; i++)
            if ((c->of_first >> i & 1) != 0) operands[i] = first;
        if (!evaluate(c->then, operands, &y) ||
            !DHOWI_GUARD(gelu_with_other_numbers,
                         fabs(y - function(x)) <= tolerance * fmax(1, fabs(x))))
            return false;
    }
    return true;
}

static bool has(const dhowi_program *p, dhowi_map_op op) {
    for (uint32_t i = 0; p != NULL && i < p->words; i++) {
        if ((p->word[i] & 255) == (uint32_t)op) return true;
    }
    return false;
}

/* The one operation that does the same; 0 when there is none. */
static dhowi_map_op operation_of(const composed *c, dhow_dtype dtype) {
    const double tolerance = dtype == DHOW_F64 ? 1e-12 : 2e-6;
    bool bell = has(c->first, DHOWI_MAP_ERF) || has(c->then, DHOWI_MAP_ERF);
    bool tangent = has(c->first, DHOWI_MAP_TANH) || has(c->then, DHOWI_MAP_TANH);
    if (bell && is_function(c, gelu, tolerance)) return DHOWI_MAP_GELU;
    return tangent && is_function(c, gelu_tanh, tolerance) ? DHOWI_MAP_GELU_TANH : (dhowi_map_op)0;
}

static void become(dhowi_step *s, dhowi_map_op op) {
    dhowi_program *p = &s->attrs.program;
    *p = (dhowi_program){0};
    (void)dhowi_program_add(p, DHOWI_MAP_LOAD, 0);
    (void)dhowi_program_constants(p, op, 0, 0, 0);
}

void dhowi_recognise(dhowi_step *s, dhow_dtype dtype) {
    const composed c = {.then = &s->attrs.program};
    if (s->attrs.program.words < 4 || s->in[1] >= 0) return;
    dhowi_map_op op = operation_of(&c, dtype);
    if (op != 0) become(s, op);
}

bool dhowi_recognise_pair(const dhowi_step *first, dhowi_step *s, uint32_t of_first,
                          dhow_dtype dtype) {
    const composed c = {&first->attrs.program, &s->attrs.program, of_first};
    dhowi_map_op op = operation_of(&c, dtype);
    if (op == 0) return false;
    become(s, op);
    s->in[0] = first->in[0];
    for (int i = 1; i < DHOWI_MAP_OPERANDS; i++) s->in[i] = -1;
    return true;
}
