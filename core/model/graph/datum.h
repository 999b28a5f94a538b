/* SPDX-License-Identifier: Apache-2.0
 *
 * Values inside core, see dhow/datum.h.
 */
#ifndef DHOWI_MODEL_DATUM_H_
#define DHOWI_MODEL_DATUM_H_

#include "base/objects/handle.h"
#include "dhow/datum.h"

struct dhow_datum {
    dhowi_handle handle;
    dhow_datum_kind kind;
    dhow_tensor *tensor;
    dhow_datum **items; /* of a sequence */
    char **texts;       /* one piece of memory with what they point to */
    int32_t rank;       /* of texts */
    int64_t shape[DHOW_MAX_RANK];
    int64_t count;
};

/* "a tensor", "an array of texts", ... */
const char *dhowi_datum_kind_text(dhow_datum_kind kind);

#endif /* DHOWI_MODEL_DATUM_H_ */
