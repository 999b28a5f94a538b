/* SPDX-License-Identifier: Apache-2.0
 *
 * Cuts the background out of a picture with U^2-Net (Qin et al. 2020): a real model from an ONNX
 * file, on any device.
 *
 *     cutout u2netp.onnx photo.png cut.png [--device cuda]
 *
 * The model is not part of dhow: u2netp.onnx, 4.6 MB, Apache-2.0, from
 * https://github.com/xuebinqin/U-2-Net.
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "dhow/dhow.h"
#include "picture.h"

enum { SIDE = 320 }; /* of the pictures the model was trained on */

static int give_up(const char *what) {
    (void)fprintf(stderr, "cutout: %s: %s\n", what, dhow_last_error());
    return 0;
}

/* A value between four neighbours; coordinates outside are held at the edge. */
static float between(const float *plane, int width, int height, float x, float y) {
    x = x < 0 ? 0 : x > (float)(width - 1) ? (float)(width - 1) : x;
    y = y < 0 ? 0 : y > (float)(height - 1) ? (float)(height - 1) : y;
    int x0 = (int)x, y0 = (int)y;
    int x1 = x0 + 1 < width ? x0 + 1 : x0, y1 = y0 + 1 < height ? y0 + 1 : y0;
    float fx = x - (float)x0, fy = y - (float)y0;
    float top = plane[y0 * width + x0] * (1 - fx) + plane[y0 * width + x1] * fx;
    float low = plane[y1 * width + x0] * (1 - fx) + plane[y1 * width + x1] * fx;
    return top * (1 - fy) + low * fy;
}

static void resize(const float *from, int width, int height, float *to, int to_width,
                   int to_height) {
    for (int y = 0; y < to_height; y++) {
        for (int x = 0; x < to_width; x++) {
            float sx = ((float)x + 0.5f) * (float)width / (float)to_width - 0.5f;
            float sy = ((float)y + 0.5f) * (float)height / (float)to_height - 0.5f;
            to[y * to_width + x] = between(from, width, height, sx, sy);
        }
    }
}

/* [1, 3, SIDE, SIDE], scaled and centred as the model was trained. */
static dhow_tensor *input_of(const picture *p, dhow_device *device) {
    static const float mean[] = {0.485f, 0.456f, 0.406f}, deviation[] = {0.229f, 0.224f, 0.225f};
    size_t count = (size_t)p->width * (size_t)p->height;
    float *plane = malloc(count * sizeof *plane),
          *values = malloc(3 * SIDE * SIDE * sizeof *values);
    dhow_tensor *input = NULL;
    float top = 1;
    for (size_t i = 0; i < 3 * count; i++) top = p->rgb[i] > top ? p->rgb[i] : top;
    for (int c = 0; c < 3 && plane != NULL && values != NULL; c++) {
        for (size_t i = 0; i < count; i++)
            plane[i] = (p->rgb[3 * i + (size_t)c] / top - mean[c]) / deviation[c];
        resize(plane, p->width, p->height, values + c * SIDE * SIDE, SIDE, SIDE);
    }
    if (plane == NULL || values == NULL) {
        (void)fprintf(stderr, "cutout: not enough memory\n");
    } else if (dhow_tensor_from_data(device, DHOW_F32, DHOW_SHAPE(1, 3, SIDE, SIDE), values,
                                     &input) != DHOW_OK) {
        (void)give_up("the input");
    }
    free(plane);
    free(values);
    return input;
}

/* The first output is how much each pixel stands out, stretched to 0..1 and back to the picture's
 * size. */
static int mask_of(dhow_tensor *output, picture *p) {
    size_t count = (size_t)p->width * (size_t)p->height;
    float small[SIDE * SIDE], low = 1e30f, high = -1e30f;
    if (dhow_tensor_read(output, small, sizeof small) != DHOW_OK) return give_up("the result");
    for (int i = 0; i < SIDE * SIDE; i++) {
        low = small[i] < low ? small[i] : low;
        high = small[i] > high ? small[i] : high;
    }
    float *mask = malloc(count * sizeof *mask);
    p->alpha = malloc(count);
    int good = mask != NULL && p->alpha != NULL;
    if (good) {
        resize(small, SIDE, SIDE, mask, p->width, p->height);
        for (size_t i = 0; i < count; i++) {
            float share = high > low ? (mask[i] - low) / (high - low) : 0;
            p->alpha[i] = (uint8_t)(share * 255 + 0.5f);
        }
    }
    free(mask);
    return good;
}

static int cut(dhow_context *context, const char *spec, const char *path, picture *p) {
    dhow_device *device;
    dhow_model *model = NULL;
    dhow_tensor *input = NULL, *outputs[16] = {NULL};
    int good = (dhow_device_get(context, spec, &device) == DHOW_OK &&
                dhow_model_load(context, path, &model) == DHOW_OK &&
                dhow_model_to(model, device) == DHOW_OK) ||
               give_up("the model");
    uint32_t count = good ? dhow_model_output_count(model) : 0;
    if (good) good = (input = input_of(p, device)) != NULL;
    if (good && (count < 1 || count > 16 ||
                 dhow_model_run(model, NULL, &input, 1, outputs, count) != DHOW_OK))
        good = give_up("running it");
    if (good && dhow_tensor_count(outputs[0]) != SIDE * SIDE) {
        (void)fprintf(stderr, "cutout: the model gives no mask of %d x %d\n", SIDE, SIDE);
        good = 0;
    }
    if (good) good = mask_of(outputs[0], p);
    for (uint32_t i = 0; i < count && i < 16; i++) dhow_tensor_release(outputs[i]);
    dhow_tensor_release(input);
    dhow_model_release(model);
    return good;
}

int main(int argc, char **argv) {
    const char *spec = NULL, *paths[3];
    int given = 0;
    for (int i = 1; i < argc; i++) {
        if (strcmp(argv[i], "--device") == 0 && i + 1 < argc) {
            spec = argv[++i];
        } else {
            if (given < 3) paths[given] = argv[i];
            given = argv[i][0] == '-' ? 4 : given + 1;
        }
    }
    if (given != 3) {
        (void)fprintf(stderr, "usage: cutout MODEL.onnx PICTURE RESULT [--device SPEC]\n");
        return 2;
    }
    picture p;
    dhow_context *context = NULL;
    if (!picture_read(paths[1], &p)) {
        (void)fprintf(stderr, "cutout: %s\n", picture_error());
        return 1;
    }
    int good = dhow_context_create(NULL, &context) == DHOW_OK || give_up("dhow");
    if (good) good = cut(context, spec, paths[0], &p);
    if (good && !picture_write(paths[2], &p)) {
        (void)fprintf(stderr, "cutout: %s\n", picture_error());
        good = 0;
    }
    if (good) printf("cutout: %s, %d x %d\n", paths[2], p.width, p.height);
    picture_free(&p);
    dhow_context_release(context);
    return good ? 0 : 1;
}
