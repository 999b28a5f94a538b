/* SPDX-License-Identifier: Apache-2.0
 *
 * Where in the program objects were made and released, kept while a context checks (DHOW_VALIDATE).
 * A place is the first caller outside of this library, as "program(function+0x12)" or
 * "program+0x1234", which addr2line understands.
 */
#ifndef DHOWI_BASE_CALL_SITES_H_
#define DHOWI_BASE_CALL_SITES_H_

#include <stdatomic.h>
#include <stdbool.h>
#include <stddef.h>

extern atomic_int dhowi_call_sites_users; /* contexts that check */
static inline bool dhowi_call_sites_kept(void) {
    return atomic_load_explicit(&dhowi_call_sites_users, memory_order_relaxed) > 0;
}

enum { DHOWI_CALL_SITE_BYTES = 160 };

void dhowi_call_site_made(const void *object);
void dhowi_call_site_released(const void *object);
/* Marks an object as internal: it has no call site. */
void dhowi_call_site_forget(const void *object);
/* " (made at ...)" or " (made at ..., released at ...)"; "" when nothing is known. */
const char *dhowi_call_site_text(const void *object, char *buffer, size_t capacity);
/* The end of a checking context: the last one forgets everything. */
void dhowi_call_sites_leave(void);

#endif /* DHOWI_BASE_CALL_SITES_H_ */
