/* SPDX-License-Identifier: Apache-2.0
 *
 * Trains a small transformer on a text and lets it write on, byte by byte.
 *
 *     generate --train [FILE] [--output FILE.safetensors]
 *     generate --weights FILE.safetensors --prompt TEXT
 */
#include "generate.h"

#include <errno.h>
#include <getopt.h>
#include <math.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>

static int complain(const char *what) {
    if (what != NULL) fprintf(stderr, "generate: %s\n", what);
    fprintf(stderr,
            "usage: generate --train [FILE] [--steps 1..1000000] [--layers 1..64] "
            "[--width 32..4096] [--context 2..65536]\n"
            "                [--output FILE.safetensors] [WRITING]\n"
            "       generate --weights FILE.safetensors --prompt TEXT [WRITING]\n"
            "WRITING is [--prompt TEXT] [--tokens 1..1000000] [--temperature 0..100] [--seed N] "
            "[--device SPEC]\n");
    return 2;
}

static bool parse_number(const char *text, uint64_t least, uint64_t most, uint64_t *out) {
    char *end;
    errno = 0;
    *out = strtoull(text, &end, 10);
    return text[0] >= '0' && text[0] <= '9' && *end == '\0' && errno == 0 && *out >= least &&
           *out <= most;
}

static bool parse_extent(const char *text, int64_t least, int64_t most, int64_t *out) {
    uint64_t number;
    if (!parse_number(text, (uint64_t)least, (uint64_t)most, &number)) return false;
    *out = (int64_t)number;
    return true;
}

static bool parse_temperature(const char *text, double *out) {
    char *end;
    *out = strtod(text, &end);
    return end != text && *end == '\0' && *out >= 0 && *out <= 100;
}

/* What an option says; false where it is none, or its value. */
static bool parse(int c, const char *value, generate_settings *s) {
    int64_t steps;
    switch (c) {
        case 'd':
            s->device = value;
            return true;
        case 'w':
            s->weights = value;
            return true;
        case 'o':
            s->output = value;
            return true;
        case 'p':
            s->prompt = value;
            return true;
        case 'r':
            return parse_number(value, 0, UINT64_MAX, &s->seed);
        case 'k':
            return parse_temperature(value, &s->temperature);
        case 'n':
            return parse_extent(value, 1, 1000000, &s->tokens);
        case 'l':
            return parse_extent(value, 1, GENERATE_MAX_LAYERS, &s->size.layers);
        case 'c':
            return parse_extent(value, 2, 65536, &s->size.context);
        case 'x':
            return parse_extent(value, GENERATE_HEAD_FEATURES, 4096, &s->size.width) &&
                   s->size.width % GENERATE_HEAD_FEATURES == 0;
        case 's':
            if (!parse_extent(value, 1, 1000000, &steps)) return false;
            s->steps = (int)steps;
            return true;
        default:
            return false;
    }
}

static dhow_status run(const generate_settings *s) {
    dhow_context *context = NULL;
    dhow_device *device;
    dhow_model *trained = NULL;
    dhow_status status;
    TRY(dhow_context_create(NULL, &context));
    TRY(dhow_device_get(context, s->device, &device));
    if (s->text != NULL) TRY(generate_train(context, device, s, &trained));
    if (s->prompt != NULL) TRY(generate_write(context, device, s, trained));
cleanup:
    dhow_model_release(trained);
    dhow_context_release(context);
    return status;
}

int main(int argc, char **argv) {
    static const struct option options[] = {{"train", optional_argument, NULL, 't'},
                                            {"weights", required_argument, NULL, 'w'},
                                            {"output", required_argument, NULL, 'o'},
                                            {"prompt", required_argument, NULL, 'p'},
                                            {"tokens", required_argument, NULL, 'n'},
                                            {"temperature", required_argument, NULL, 'k'},
                                            {"seed", required_argument, NULL, 'r'},
                                            {"device", required_argument, NULL, 'd'},
                                            {"steps", required_argument, NULL, 's'},
                                            {"layers", required_argument, NULL, 'l'},
                                            {"width", required_argument, NULL, 'x'},
                                            {"context", required_argument, NULL, 'c'},
                                            {NULL, 0, NULL, 0}};
    generate_settings s = {.size = {.layers = 3, .width = 128, .context = 64},
                           .steps = 1000,
                           .tokens = 400,
                           .temperature = 0.7,
                           .seed = 1};
    for (int c; (c = getopt_long(argc, argv, "", options, NULL)) != -1;) {
        if (c == 't') {
            const bool apart = optarg == NULL && optind < argc && argv[optind][0] != '-';
            s.text = optarg != NULL ? optarg : apart ? argv[optind++] : GENERATE_TEXT;
        } else if (!parse(c, optarg, &s)) {
            return complain(NULL);
        }
    }
    if (optind < argc) return complain(NULL);
    if ((s.text == NULL) == (s.weights == NULL))
        return complain("it either trains with --train or reads --weights that it once wrote");
    if (s.text == NULL && s.output != NULL) return complain("--output is for --train");
    if (s.text == NULL && s.prompt == NULL) return complain("--weights wants a --prompt");
    if (s.prompt != NULL && s.prompt[0] == '\0')
        return complain("the prompt is empty; it wants a byte to begin with");
    if (run(&s) == DHOW_OK) return 0;
    fprintf(stderr, "generate: %s\n", dhow_last_error());
    return 1;
}
