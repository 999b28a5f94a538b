/* SPDX-License-Identifier: Apache-2.0
 *
 * The portable kernels that come with the library, generated from kernels/ at build time: what
 * there is, and the text to hand to a plugin that does not bring a kernel ready-made.
 */
#ifndef DHOW_CORE_KERNEL_BUILTIN_H_
#define DHOW_CORE_KERNEL_BUILTIN_H_

#include <stddef.h>

typedef struct dhowi_builtin {
    const char *name;      /* "softmax_f16" */
    const char *signature; /* "(IN(f16,x), OUT(f16,y), VAL(i64,rows), VAL(i64,cols))" */
    const char *unit;      /* "rows.k" */
    const char *options;   /* "-DT=f16", and of the text -DK_LANES and the like */
} dhowi_builtin;

typedef struct dhowi_builtin_unit {
    const char *name;          /* "rows.k" */
    const unsigned char *text; /* packed, and without the includes of what the header has */
} dhowi_builtin_unit;

/* Sorted by name, for bsearch; kernels of one module share unit and options. */
extern const dhowi_builtin dhowi_builtin_kernels[];
extern const size_t dhowi_builtin_kernel_count;
extern const dhowi_builtin_unit dhowi_builtin_units[];
extern const size_t dhowi_builtin_unit_count;
/* The packed text of dhow/kernel/k.h, and of those of kernels/ that several units have where
 * K_LANES for lanes.h, K_ROWS for rows.h and so on are defined. */
extern const unsigned char dhowi_kernel_header[];

/* What bytes of packed texts stand for, from 128 on. */
extern const char *const dhowi_builtin_words[];

/* Writes a packed text with its end to `to`, or nothing where that is NULL; its length. */
static inline size_t dhowi_unpack(const unsigned char *packed, char *to) {
    size_t length = 0;
    for (; *packed != 0; packed++) {
        const char byte[] = {(char)*packed, 0};
        const char *word = *packed < 128 ? byte : dhowi_builtin_words[*packed - 128];
        for (; *word != 0; word++, length++)
            if (to != NULL) to[length] = *word;
    }
    if (to != NULL) to[length] = 0;
    return length;
}

#endif
