/* SPDX-License-Identifier: Apache-2.0
 *
 * Kernel signatures: the argument list of the dialect, "(IN(f32,x), OUT(f32,y), VAL(i64,n))",
 * parsed; and found in text.
 */
#ifndef DHOWI_KERNEL_SIGNATURE_H_
#define DHOWI_KERNEL_SIGNATURE_H_

#include <stdbool.h>
#include <stddef.h>

#include "base/errors/error.h"
#include "dhow/plugin.h"

typedef struct dhowi_param {
    uint32_t kind; /* DHOW_PARAM_... */
    int32_t type;  /* dhow_dtype or DHOW_PARAM_DIMS */
    char name[24];
} dhowi_param;

typedef struct dhowi_signature {
    uint32_t count;
    dhowi_param params[DHOW_MAX_KERNEL_ARGS];
} dhowi_signature;

/* DHOW_ACCESS bits of a parameter, 0 for a value. */
uint32_t dhowi_param_access(uint32_t kind);
const char *dhowi_type_name(int32_t type);

/* INVALID_ARGUMENT names the kernel and the place. */
dhow_status dhowi_signature_parse(const char *kernel, const char *text, dhowi_signature *out);

/* A kernel found in source text. */
typedef struct dhowi_found_kernel {
    char name[64];
    char signature[1024]; /* with the type parameter filled in */
} dhowi_found_kernel;

/* Finds the KERNEL(name, (...)) of a text; `options` may define T, which stands in K_T(name) and as
 * a type. The array is freed with dhowi_free(). */
dhow_status dhowi_find_kernels(const char *module, const char *text, const char *options,
                               dhowi_found_kernel **out, uint32_t *out_count);

/* Reads "name(...); name(...)" as native modules declare their kernels. */
dhow_status dhowi_parse_declarations(const char *module, const char *text, dhowi_found_kernel **out,
                                     uint32_t *out_count);

#endif /* DHOWI_KERNEL_SIGNATURE_H_ */
