/* SPDX-License-Identifier: Apache-2.0
 *
 * Programs that spell an activation in single operations. Exporters write the same function in many
 * orders, so a program is recognised by what it computes: one made of the operations below is that
 * rational function of x and of its erf or tanh everywhere when it is so at enough places.
 */
#include <math.h>

#include "model/plan.h"

/* Computes a program at x; false when it holds another operation. */
static bool evaluate(const dhowi_program *p, double x, double *out) {
    double v = 0, saved[2] = {0};
    for (uint32_t i = 0; i < p->words; i++) {
        const uint32_t source = p->word[i] >> 8 & 255;
        const double w = source == DHOWI_MAP_CONSTANT ? p->constant[p->word[i] >> 16 & 255]
                         : source == DHOWI_MAP_SAVED  ? saved[0]
                         : source == DHOWI_MAP_SAVED2 ? saved[1]
                                                      : x;
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

/* Constants of an f32 file are rounded. */
static bool is_function(const dhowi_program *p, double (*function)(double), double tolerance) {
    for (double x = -4.25; x < 4.5; x += 0.5) {
        double y;
        if (!evaluate(p, x, &y) || !(fabs(y - function(x)) <= tolerance * fmax(1, fabs(x))))
            return false;
    }
    return true;
}

static bool has(const dhowi_program *p, dhowi_map_op op) {
    for (uint32_t i = 0; i < p->words; i++) {
        if ((p->word[i] & 255) == (uint32_t)op) return true;
    }
    return false;
}

void dhowi_recognise(dhowi_step *s, dhow_dtype dtype) {
    const double tolerance = dtype == DHOW_F64 ? 1e-12 : 2e-6;
    dhowi_program *p = &s->attrs.program;
    dhowi_map_op op;
    if (p->words < 4 || s->in[1] >= 0) return;
    if (has(p, DHOWI_MAP_ERF) && is_function(p, gelu, tolerance)) {
        op = DHOWI_MAP_GELU;
    } else if (has(p, DHOWI_MAP_TANH) && is_function(p, gelu_tanh, tolerance)) {
        op = DHOWI_MAP_GELU_TANH;
    } else {
        return;
    }
    *p = (dhowi_program){0};
    (void)dhowi_program_add(p, DHOWI_MAP_LOAD, 0);
    (void)dhowi_program_constants(p, op, 0, 0, 0);
}
