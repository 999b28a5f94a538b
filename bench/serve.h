/* SPDX-License-Identifier: Apache-2.0
 *
 * A model that waits to be run: dhow and each peer is a process of its own, so that no idle threads
 * of one disturb another. It answers lines of its standard input:
 *
 *     run N      runs N times, prints the shortest and the median seconds
 *     save FILE  writes the f32 outputs of the latest run, one after the other
 *     version    prints the version of what runs it
 */
#ifndef DHOW_BENCH_SERVE_H_
#define DHOW_BENCH_SERVE_H_

#include <stddef.h>
#include <stdint.h>

typedef struct serve_input {
    char dtype[4]; /* as in NumPy's header: "f4", "i8" */
    int32_t rank;
    int64_t shape[8];
    void *data;
    size_t bytes;
} serve_input;

typedef struct serve_work {
    void (*run)(void *data);
    /* The i-th output, NULL when there are no more; *bytes is 0 for one that is not f32. */
    const void *(*output)(void *data, uint32_t i, size_t *bytes);
    void *data;
    const char *version;
} serve_work;

/* An .npy file, out->data to be freed; returns 0 when there is none. Ends the program when it is
 * broken. */
int serve_read_array(const char *path, serve_input *out);
/* Whether an output, "present..." of its name, is to be the very memory of an input, "past...". */
int serve_is_one_memory(const char *input, const char *output);
/* FOLDER/in<i>.npy */
int serve_read(const char *folder, uint32_t i, serve_input *out);
/* FOLDER/model.onnx */
void serve_path(const char *folder, char *path, size_t capacity);
/* Answers until the input ends; returns what main() returns. */
int serve(const serve_work *work);
_Noreturn void serve_fail(const char *what, const char *why);

#endif /* DHOW_BENCH_SERVE_H_ */
