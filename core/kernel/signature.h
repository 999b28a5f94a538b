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

typedef enum dhowi_param_kind {
    DHOWI_IN,
    DHOWI_OUT,
    DHOWI_INOUT,
    DHOWI_VAL,
    DHOWI_ALIAS,    /* an input that may be exactly an output */
    DHOWI_ALIAS_OUT /* that output */
} dhowi_param_kind;

enum { DHOWI_TYPE_DIMS = 64 }; /* beside the dhow_dtype numbers */

typedef struct dhowi_param {
    dhowi_param_kind kind;
    int32_t type;
    char name[24];
} dhowi_param;

typedef struct dhowi_signature {
    uint32_t count;
    dhowi_param params[DHOW_MAX_KERNEL_ARGS];
} dhowi_signature;

/* DHOW_ACCESS bits of a parameter, 0 for a value. */
uint32_t dhowi_param_access(dhowi_param_kind kind);
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
