/* SPDX-License-Identifier: Apache-2.0
 *
 * What ranks tell each other: a header, then the bytes of the tensors that it lists.
 */
#ifndef DHOW_MPI_MESSAGE_H_
#define DHOW_MPI_MESSAGE_H_

#include "dhow/data.h"

enum { MESSAGE_MAGIC = 0x64686f77 }; /* also tells ranks of another byte order */

typedef enum message_kind {
    MESSAGE_RUN = 1, /* to a rank: rows to compute; back: their results, or a failure */
    MESSAGE_END = 2,
    MESSAGE_PARAMETER = 3
} message_kind;

typedef struct message_tensor {
    int32_t dtype, rank;
    int64_t shape[DHOW_MAX_RANK];
    uint64_t bytes;
} message_tensor;

typedef struct message {
    uint32_t magic, kind;
    int32_t status; /* of results */
    uint32_t tensor_count;
    char text[256]; /* of a failure; a parameter's name */
    message_tensor tensors[DHOW_MAX_COLUMNS];
} message;

#endif /* DHOW_MPI_MESSAGE_H_ */
