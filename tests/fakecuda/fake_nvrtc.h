/* SPDX-License-Identifier: Apache-2.0
 *
 * A program of the fake NVRTC, and what compiles it.
 */
#ifndef TESTS_FAKECUDA_FAKE_NVRTC_H_
#define TESTS_FAKECUDA_FAKE_NVRTC_H_

#include <stdio.h>

#include "fakecuda.h"

enum { FAKE_MAX_OPTIONS = 32, FAKE_MAX_HEADERS = 4 };

typedef struct fake_program {
    char *text, *name, *log;
    int header_count;
    char *headers[FAKE_MAX_HEADERS], *header_names[FAKE_MAX_HEADERS];
    uint32_t arch;
    bool ptx;
    int option_count;
    const char *options[FAKE_MAX_OPTIONS]; /* the caller's, for the time of the call */
    void *image;                           /* a fake_cubin */
    size_t image_bytes;
} fake_program;

/* Fills image or log. */
bool fake_compile(fake_program *program);

#endif /* TESTS_FAKECUDA_FAKE_NVRTC_H_ */
