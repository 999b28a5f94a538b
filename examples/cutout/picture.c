/* SPDX-License-Identifier: Apache-2.0
 *
 * See picture.h.
 */
#include "picture.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#ifdef CUTOUT_HAS_PNG
#include <png.h>
#endif

enum { LARGEST_SIDE = 1 << 14 };

static char g_error[256];

static int give_up(const char *path, const char *why) {
    (void)snprintf(g_error, sizeof g_error, "%s: %s", path, why);
    return 0;
}

const char *picture_error(void) { return g_error; }

void picture_free(picture *p) {
    free(p->rgb);
    free(p->alpha);
    memset(p, 0, sizeof *p);
}

static int is_png(const char *path) {
    size_t length = strlen(path);
    return length > 4 && strcmp(path + length - 4, ".png") == 0;
}

static int take_size(const char *path, int width, int height, picture *out) {
    if (width < 1 || height < 1 || width > LARGEST_SIDE || height > LARGEST_SIDE)
        return give_up(path, "its size is out of range");
    out->width = width;
    out->height = height;
    out->rgb = malloc((size_t)width * (size_t)height * 3);
    return out->rgb != NULL ? 1 : give_up(path, "not enough memory");
}

/* ---- PPM: P6, width, height, 255, one white space, bytes ---- */

/* A number of the header; comments run to the end of their line. */
static int header_number(FILE *f) {
    int c = fgetc(f), value = 0;
    while (c == '#' || c == ' ' || c == '\n' || c == '\r' || c == '\t') {
        if (c == '#')
            while (c != '\n' && c != EOF) c = fgetc(f);
        c = fgetc(f);
    }
    if (c < '0' || c > '9') return -1;
    for (; c >= '0' && c <= '9' && value < 1000000; c = fgetc(f)) value = value * 10 + (c - '0');
    return value;
}

static int read_ppm(const char *path, picture *out) {
    FILE *f = fopen(path, "rb");
    if (f == NULL) return give_up(path, "cannot be opened");
    int good = fgetc(f) == 'P' && fgetc(f) == '6';
    int width = good ? header_number(f) : 0, height = good ? header_number(f) : 0;
    if (!good || header_number(f) != 255) {
        good = give_up(
            path,
            "is no binary PPM picture of 8 bits (P6); PNG pictures have names that end in .png");
    } else {
        good = take_size(path, width, height, out);
        size_t bytes = (size_t)out->width * (size_t)out->height * 3;
        if (good && fread(out->rgb, 1, bytes, f) != bytes) good = give_up(path, "ends too early");
    }
    (void)fclose(f);
    return good;
}

static uint8_t over_white(uint8_t color, uint8_t alpha) {
    return (uint8_t)((color * alpha + 255 * (255 - alpha) + 127) / 255);
}

static int write_ppm(const char *path, const picture *p) {
    FILE *f = fopen(path, "wb");
    if (f == NULL) return give_up(path, "cannot be written");
    int good = fprintf(f, "P6\n%d %d\n255\n", p->width, p->height) > 0;
    for (size_t i = 0; good && i < (size_t)p->width * (size_t)p->height; i++) {
        uint8_t alpha = p->alpha != NULL ? p->alpha[i] : 255;
        for (int c = 0; c < 3; c++)
            good = good && fputc(over_white(p->rgb[3 * i + (size_t)c], alpha), f) != EOF;
    }
    return (fclose(f) == 0 && good) || give_up(path, "cannot be written");
}

/* ---- PNG ---- */

#ifdef CUTOUT_HAS_PNG
static int read_png(const char *path, picture *out) {
    png_image image = {.version = PNG_IMAGE_VERSION};
    if (!png_image_begin_read_from_file(&image, path)) return give_up(path, image.message);
    image.format = PNG_FORMAT_RGB;
    int good = take_size(path, (int)image.width, (int)image.height, out);
    const png_color white = {255, 255, 255};
    if (good && !png_image_finish_read(&image, &white, out->rgb, 0, NULL))
        good = give_up(path, image.message);
    png_image_free(&image);
    return good;
}

static int write_png(const char *path, const picture *p) {
    png_image image = {.version = PNG_IMAGE_VERSION,
                       .width = (png_uint_32)p->width,
                       .height = (png_uint_32)p->height,
                       .format = PNG_FORMAT_RGBA};
    size_t count = (size_t)p->width * (size_t)p->height;
    uint8_t *rgba = malloc(count * 4);
    if (rgba == NULL) return give_up(path, "not enough memory");
    for (size_t i = 0; i < count; i++) {
        memcpy(rgba + 4 * i, p->rgb + 3 * i, 3);
        rgba[4 * i + 3] = p->alpha != NULL ? p->alpha[i] : 255;
    }
    int good = png_image_write_to_file(&image, path, 0, rgba, 0, NULL);
    free(rgba);
    return good || give_up(path, image.message);
}
#else
static int read_png(const char *path, picture *out) {
    (void)out;
    return give_up(path,
                   "this build has no libpng; use PPM, or install libpng-dev and build again");
}
static int write_png(const char *path, const picture *p) {
    (void)p;
    return read_png(path, NULL);
}
#endif

int picture_read(const char *path, picture *out) {
    memset(out, 0, sizeof *out);
    int good = is_png(path) ? read_png(path, out) : read_ppm(path, out);
    if (!good) picture_free(out);
    return good;
}

int picture_write(const char *path, const picture *p) {
    return is_png(path) ? write_png(path, p) : write_ppm(path, p);
}
