/* SPDX-License-Identifier: Apache-2.0
 *
 * Folders of models: model.onnx with its inputs, in0.npy ...
 */
#ifndef DHOW_BENCH_FOLDERS_H_
#define DHOW_BENCH_FOLDERS_H_

#include <stddef.h>

enum { FOLDERS_MOST = 64 };

/* The names in `parent`, in order; free each. */
int folders_in(const char *parent, char *names[FOLDERS_MOST]);
/* Writes parent/name; 0 where that has no model. */
int folders_join(char *path, size_t capacity, const char *parent, const char *name);

#endif /* DHOW_BENCH_FOLDERS_H_ */
