/* SPDX-License-Identifier: Apache-2.0
 *
 * The curve of a training's losses: at most DHOWI_CURVE_POINTS means, drawn as SVG.
 */
#include <inttypes.h>
#include <math.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>

#include "base/files/file.h"
#include "base/memory/size.h"
#include "train/log/log.h"

/* ---- points ---- */

/* Neighbours become one point, of twice as many rows. */
static void halve(dhowi_curve *c) {
    for (uint32_t i = 0; i < c->count / 2; i++) {
        c->step[i] = (c->step[2 * i] + c->step[2 * i + 1]) / 2;
        c->loss[i] = (c->loss[2 * i] + c->loss[2 * i + 1]) / 2;
    }
    c->count /= 2;
    c->rows_a_point *= 2;
    c->rows = c->rows_a_point;
}

void dhowi_curve_add(dhowi_curve *c, double step, double loss) {
    if (!isfinite(loss)) return;
    if (c->rows_a_point == 0) *c = (dhowi_curve){.rows_a_point = 1, .rows = 1};
    if (c->rows == c->rows_a_point) {
        if (c->count == DHOWI_CURVE_POINTS) halve(c);
        c->step[c->count] = c->loss[c->count] = 0;
        c->count++;
        c->rows = 0;
    }
    const double rows = (double)++c->rows;
    c->step[c->count - 1] += (step - c->step[c->count - 1]) / rows;
    c->loss[c->count - 1] += (loss - c->loss[c->count - 1]) / rows;
}

/* ---- the picture ---- */

enum { WIDTH = 800, HEIGHT = 400, LEFT = 70, TOP = 30, RIGHT = 20, BOTTOM = 50, TICKS = 5 };

typedef struct axis {
    double low, high, from, to; /* values, and where they lie */
    bool powers;                /* of ten are equally far from each other */
} axis;

static double place(const axis *a, double value) {
    const double low = a->powers ? log10(a->low) : a->low,
                 high = a->powers ? log10(a->high) : a->high, at = a->powers ? log10(value) : value;
    return a->from + (high > low ? (at - low) / (high - low) : 0.5) * (a->to - a->from);
}

static double tick(const axis *a, int i) {
    const double part = (double)i / (TICKS - 1);
    return a->powers ? a->low * pow(a->high / a->low, part) : a->low + part * (a->high - a->low);
}

typedef struct picture {
    dhowi_file_writer writer;
    dhow_status status;
} picture;

static void put(picture *p, const char *format, ...) __attribute__((format(printf, 2, 3)));
static void put(picture *p, const char *format, ...) {
    char text[256];
    va_list arguments;
    va_start(arguments, format);
    const int length = vsnprintf(text, sizeof text, format, arguments);
    va_end(arguments);
    if (p->status == DHOW_OK) p->status = dhowi_file_append(&p->writer, text, (size_t)length);
}

static void draw_axes(picture *p, const axis *x, const axis *y) {
    for (int i = 0; i < TICKS; i++) {
        const double across = place(y, tick(y, i)), along = place(x, tick(x, i));
        put(p, "<line x1=\"%d\" y1=\"%.1f\" x2=\"%d\" y2=\"%.1f\" stroke=\"#dddddd\"/>\n", LEFT,
            across, WIDTH - RIGHT, across);
        put(p, "<text x=\"%d\" y=\"%.1f\" text-anchor=\"end\" fill=\"#555555\">%.3g</text>\n",
            LEFT - 8, across + 4, tick(y, i));
        put(p, "<text x=\"%.1f\" y=\"%d\" text-anchor=\"middle\" fill=\"#555555\">%.0f</text>\n",
            along, HEIGHT - BOTTOM + 18, tick(x, i));
    }
    put(p, "<text x=\"%d\" y=\"%d\" text-anchor=\"middle\">step</text>\n",
        (LEFT + WIDTH - RIGHT) / 2, HEIGHT - 10);
    put(p, "<text x=\"%d\" y=\"18\" font-weight=\"bold\">loss%s</text>\n", LEFT,
        y->powers ? ", by powers of ten" : "");
}

static void draw(picture *p, const dhowi_curve *c) {
    axis x = {c->step[0], c->step[c->count - 1], LEFT, WIDTH - RIGHT, false},
         y = {c->loss[0], c->loss[0], HEIGHT - BOTTOM, TOP, false};
    for (uint32_t i = 1; i < c->count; i++) {
        y.low = DHOWI_MIN(y.low, c->loss[i]);
        y.high = DHOWI_MAX(y.high, c->loss[i]);
    }
    y.powers = y.low > 0 && y.high > 20 * y.low;
    put(p,
        "<svg xmlns=\"http://www.w3.org/2000/svg\" width=\"%d\" height=\"%d\" "
        "font-family=\"sans-serif\" font-size=\"12\">\n",
        WIDTH, HEIGHT);
    put(p, "<rect width=\"100%%\" height=\"100%%\" fill=\"#ffffff\"/>\n");
    draw_axes(p, &x, &y);
    put(p, "<polyline fill=\"none\" stroke=\"#1f77b4\" stroke-width=\"1.5\" points=\"");
    for (uint32_t i = 0; i < c->count; i++)
        put(p, "%.1f,%.1f ", place(&x, c->step[i]), place(&y, c->loss[i]));
    put(p, "\"/>\n</svg>\n");
}

dhow_status dhowi_curve_save(const dhowi_curve *c, const char *path) {
    picture p = {.status = DHOW_OK};
    DHOWI_TRY(dhowi_file_begin(path, &p.writer));
    draw(&p, c);
    if (p.status == DHOW_OK) return dhowi_file_commit(&p.writer);
    dhowi_file_drop(&p.writer);
    return p.status;
}
