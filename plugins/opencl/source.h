/* SPDX-License-Identifier: Apache-2.0
 *
 * Kernel texts into OpenCL C. OpenCL kernels take buffers, not pointers, and sub-buffers only begin
 * at multiples of 128 bytes or so; therefore a buffer argument x of the portable dialect becomes
 * the parameter x_p, and all byte offsets together a last parameter k_offsets. Each kernel's body
 * gets a first line that declares the typed pointer x from both. Nothing else is rewritten.
 * Compiled with -DK_PLAIN the same text has plain pointers instead, for launches without offsets on
 * devices where that is faster; with -DK_JOINED the last parameter is k_values, which has the
 * offsets and behind them all values, so that a launch hands over one argument beside its buffers.
 */
#ifndef DHOW_OPENCL_SOURCE_H_
#define DHOW_OPENCL_SOURCE_H_

#include <stdbool.h>
#include <stddef.h>

#include "dhow/plugin.h"

/* Text that grows. The first allocation to fail sets `failed`, and everything after it does
 * nothing. */
typedef struct dhowi_cl_text {
    const dhow_host *host;
    char *data; /* terminated; NULL while empty */
    size_t bytes, capacity;
    int failed;
} dhowi_cl_text;

void dhowi_cl_text_add(dhowi_cl_text *text, const char *data, size_t bytes);
void dhowi_cl_text_print(dhowi_cl_text *text, const char *format, ...)
    __attribute__((format(printf, 2, 3)));
void dhowi_cl_text_free(dhowi_cl_text *text);

/* Appends macros K_HEAD_<kernel> and K_TAIL_<kernel>, or K_LIST_<kernel>, per declared kernel. */
int32_t dhowi_cl_add_heads(dhowi_cl_text *out, const dhow_module_desc *desc, dhow_error *err);

/* Appends a portable module's whole OpenCL text: header, those macros, and the text with a
 * K_LIST(<kernel>) before and a K_TAIL(<kernel>) at the end of every kernel's argument list and a
 * K_HEAD(<kernel>) behind the brace of its body. Lines keep their numbers. KERNEL is not
 * looked for in comments, strings and preprocessor lines, so a kernel that a macro defines is not
 * found. Lines that include k.h are blanked: the header is in front. Where kernels are to be alone,
 * only one whose name is defined as K_WANTED_<name> is compiled. */
int32_t dhowi_cl_source_portable(dhowi_cl_text *out, const dhow_module_desc *desc, bool alone,
                                 dhow_error *err);

/* Appends a module's native text, its lines numbered under its name. */
int32_t dhowi_cl_source_native(dhowi_cl_text *out, const dhow_module_desc *desc, dhow_error *err);

#endif /* DHOW_OPENCL_SOURCE_H_ */
