/* SPDX-License-Identifier: Apache-2.0
 *
 * Writes the models that run.sh runs: write_models FOLDER.
 */
#include <stdio.h>

#include "../unit/onnx_writer.h"

static int write_file(const char *folder, const char *name, bytes *file) {
    char path[4096];
    (void)snprintf(path, sizeof path, "%s/%s", folder, name);
    FILE *f = fopen(path, "wb");
    if (f == NULL) return 1;
    size_t written = fwrite(file->data, 1, file->length, f);
    int bad = fclose(f) != 0 || written != file->length;
    bytes_free(file);
    return bad;
}

/* y = -x, x f32[?, 3, ?] */
static bytes open_model(void) {
    bytes g = {0}, t = node_of("Neg", "minus", "x", "y");
    const int64_t shape[] = {-1, 3, -1};
    put_message(&g, GRAPH_NODE, &t);
    t = value_of("x", 3, shape);
    put_message(&g, GRAPH_INPUT, &t);
    t = value_of("y", 3, shape);
    put_message(&g, GRAPH_OUTPUT, &t);
    return model_of(13, &g);
}

/* Texts go in and come out. */
static bytes text_model(void) {
    bytes g = {0}, t = node_of("StringNormalizer", "words", "x", "y");
    put_message(&g, GRAPH_NODE, &t);
    for (int i = 0; i < 2; i++) {
        bytes v = {0}, type = {0}, tensor = {0};
        put_number(&tensor, 1, 8);
        put_message(&type, 1, &tensor);
        put_text(&v, 1, i == 0 ? "x" : "y");
        put_message(&v, 2, &type);
        put_message(&g, i == 0 ? GRAPH_INPUT : GRAPH_OUTPUT, &v);
    }
    return model_of(13, &g);
}

/* y0 = -x, y1 = -y0 ... y69 */
static bytes many_model(void) {
    enum { OUTPUTS = 70 };
    bytes g = {0}, t;
    const int64_t shape[] = {2};
    char from[16] = "x", to[16];
    for (int i = 0; i < OUTPUTS; i++) {
        (void)snprintf(to, sizeof to, "y%d", i);
        t = node_of("Neg", to, from, to);
        put_message(&g, GRAPH_NODE, &t);
        t = value_of(to, 1, shape);
        put_message(&g, GRAPH_OUTPUT, &t);
        (void)snprintf(from, sizeof from, "%s", to);
    }
    t = value_of("x", 1, shape);
    put_message(&g, GRAPH_INPUT, &t);
    return model_of(13, &g);
}

int main(int argc, char **argv) {
    if (argc != 2) return 2;
    bytes open = open_model(), text = text_model(), many = many_model();
    return write_file(argv[1], "open.onnx", &open) | write_file(argv[1], "text.onnx", &text) |
           write_file(argv[1], "many.onnx", &many);
}
