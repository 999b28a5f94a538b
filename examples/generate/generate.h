/* SPDX-License-Identifier: Apache-2.0
 *
 * What the files of this program share.
 */
#ifndef GENERATE_GENERATE_H_
#define GENERATE_GENERATE_H_

#include <time.h>

#include "network.h"

#define TRY(expression)                      \
    do {                                     \
        status = (expression);               \
        if (status != DHOW_OK) goto cleanup; \
    } while (0)

typedef struct generate_settings {
    const char *device, *text, *weights, *output, *prompt;
    generate_size size; /* of a network that training begins */
    int steps;
    int64_t tokens;
    double temperature; /* 0: always the likeliest byte */
    uint64_t seed;
} generate_settings;

/* Trains a network on a text and writes its weights to s->output, unless that is NULL. */
dhow_status generate_train(dhow_context *context, dhow_device *device, const generate_settings *s,
                           dhow_model **out);

/* Prints a prompt and s->tokens bytes that follow it, and on stderr how fast that went. A network
 * that was trained gives its weights, or s->weights has them. */
dhow_status generate_write(dhow_context *context, dhow_device *device, const generate_settings *s,
                           const dhow_model *trained);

static inline double generate_seconds(void) {
    struct timespec t;
    (void)clock_gettime(CLOCK_MONOTONIC, &t);
    return (double)t.tv_sec + (double)t.tv_nsec / 1e9;
}

#endif /* GENERATE_GENERATE_H_ */
