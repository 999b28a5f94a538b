/* SPDX-License-Identifier: Apache-2.0
 *
 * Winograd's transform of weights, and single results without transforms.
 */
#include "winograd.h"

#include <math.h>
#include <string.h>

/* G: the weight's polynomial at the points, with the factor of each. */
static void transform_weight(const double g[3], double out[WINOGRAD_SIDE]) {
    static const double points[] = {M_SQRT1_2, -M_SQRT1_2, M_SQRT2, -M_SQRT2};
    out[0] = g[0];
    for (int i = 0; i < 4; i++) {
        const double p = points[i], even = g[0] + p * p * g[2], odd = p * g[1];
        out[1 + i] = (even + odd) * (i < 2 ? -2.0 / 3 : 1.0 / 6);
    }
    out[5] = g[2];
}

void winograd_pack(const winograd_tiles *t, const float *weight, int64_t k, int64_t c, float *to) {
    const int64_t padded = winograd_padded(k, t->lanes);
    memset(to, 0, (size_t)winograd_packed(t, k, c) * sizeof *to);
    for (int64_t at = 0; at < k * c; at++) {
        const int64_t channel = at % c, own = at / c, first = own / t->panel * t->panel;
        const int64_t width = padded - first < t->panel ? padded - first : t->panel;
        float *panel = to + WINOGRAD_POINTS * c * first + channel * width + own - first;
        double rows[3][WINOGRAD_SIDE], all[WINOGRAD_SIDE];
        for (int i = 0; i < 3; i++) {
            const float *w = weight + at * 9 + i * 3L;
            transform_weight((const double[]){w[0], w[1], w[2]}, rows[i]);
        }
        for (int64_t j = 0; j < WINOGRAD_SIDE; j++) {
            transform_weight((const double[]){rows[0][j], rows[1][j], rows[2][j]}, all);
            for (int64_t i = 0; i < WINOGRAD_SIDE; i++)
                panel[(i * WINOGRAD_SIDE + j) * c * width] = (float)all[i];
        }
    }
}

/* The inverse of transform_weight(); a weight of 0 stays 0. */
static void restore_weight(const double u[WINOGRAD_SIDE], double g[3]) {
    g[0] = u[0];
    g[1] = (u[3] - u[4]) * (3 / M_SQRT2);
    g[2] = u[5];
}

static void weight_of(const float *panel, int64_t apart, double g[3][3]) {
    double rows[WINOGRAD_SIDE][3], u[WINOGRAD_SIDE], column[3];
    for (int64_t i = 0; i < WINOGRAD_SIDE; i++) {
        for (int64_t j = 0; j < WINOGRAD_SIDE; j++) u[j] = panel[(i * WINOGRAD_SIDE + j) * apart];
        restore_weight(u, rows[i]);
    }
    for (int j = 0; j < 3; j++) {
        for (int i = 0; i < WINOGRAD_SIDE; i++) u[i] = rows[i][j];
        restore_weight(u, column);
        for (int i = 0; i < 3; i++) g[i][j] = column[i];
    }
}

float winograd_direct(const winograd_job *job, const winograd_tiles *t, const float *x, int64_t k,
                      int64_t row, int64_t column) {
    const winograd_image *from = &job->from;
    const int64_t c = from->channels, padded = winograd_padded(job->to.channels, t->lanes);
    const int64_t first = k / t->panel * t->panel;
    const int64_t width = padded - first < t->panel ? padded - first : t->panel;
    const float *panel = job->weight + WINOGRAD_POINTS * c * first + k - first;
    float sum = 0;
    for (int64_t i = 0; i < c; i++) {
        double g[3][3];
        weight_of(panel + i * width, c * width, g);
        for (int64_t at = 0; at < 9; at++) {
            const int64_t h = row + at / 3 - job->top, w = column + at % 3 - job->left;
            if (h < 0 || h >= from->height || w < 0 || w >= from->width) continue;
            sum +=
                (float)g[at / 3][at % 3] *
                x[i / t->lanes * from->vector + i % t->lanes + (h * from->width + w) * from->pixel];
        }
    }
    return sum;
}
