/* SPDX-License-Identifier: Apache-2.0
 *
 * One model on several devices: what the files of this folder share.
 */
#ifndef DHOWI_PARALLEL_PARALLEL_H_
#define DHOWI_PARALLEL_PARALLEL_H_

#include "base/objects/handle.h"
#include "base/threads/single.h"
#include "dhow/parallel.h"
#include "parallel/shares.h"
#include "parallel/team.h"

typedef struct dhowi_member {
    dhow_parallel *owner;
    uint32_t index;
    dhow_device *device;
    dhow_model *model;
    int64_t begin, rows; /* its part of the round */
    dhow_status status;  /* of the part */
    dhowi_saved_error error;
    double seconds;
    dhowi_saved_error gone; /* why it is left out */
} dhowi_member;

/* What a run works on. */
typedef struct dhowi_parallel_job {
    dhow_tensor *const *inputs;
    dhow_tensor **outputs; /* on the CPU; NULL until a member knows the shape */
    int64_t rows;
} dhowi_parallel_job;

struct dhow_parallel {
    dhowi_handle handle;
    dhowi_single single; /* runs */
    dhow_context *context;
    uint32_t member_count, input_count, output_count;
    dhowi_member *members;
    dhowi_shares shares;
    bool skip_failed_devices, fixed_shares;
    dhowi_team team;
    dhowi_parallel_job job;
};

/* The part of a member in a round, on its thread. */
void dhowi_member_work(void *parallel, uint32_t index);
/* Numbers of 0 or more whose sum is above; NULL stands for equal ones. */
dhow_status dhowi_parallel_check_shares(const char *function, const double *shares, uint32_t count);
void dhowi_drop_tensors(dhow_tensor **tensors, uint32_t count);

#endif /* DHOWI_PARALLEL_PARALLEL_H_ */
