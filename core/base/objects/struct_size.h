/* SPDX-License-Identifier: Apache-2.0
 *
 * Public structs that grow. Each begins with struct_size, which DHOW_INIT() sets to the size that
 * the program was compiled with; new fields go to the end. So a program and a library of two
 * versions know which fields the other one has: what an older program does not say counts as 0, and
 * what a newer one says beyond this library's fields is refused unless it is 0. (Chosen before
 * property tables, which lose the types, and before functions with numbers in their names.)
 */
#ifndef DHOWI_BASE_STRUCT_SIZE_H_
#define DHOWI_BASE_STRUCT_SIZE_H_

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>

#include "dhow/dhow.h"

/* X(struct, its last field in version 0.2): the least that a program may know. */
#define DHOWI_STRUCT_MAP(X)                \
    X(dhow_context_options, log_user)      \
    X(dhow_plugin_record, component_count) \
    X(dhow_plugin_component, present)      \
    X(dhow_copy_plan_info, text)           \
    X(dhow_dataset_column, shape)          \
    X(dhow_dataset_source, user)           \
    X(dhow_dataset_mapping, user)          \
    X(dhow_sample, seed)                   \
    X(dhow_collation, extents)             \
    X(dhow_loader_options, collate_user)   \
    X(dhow_batch, tensors)                 \
    X(dhow_datum_info, count)              \
    X(dhow_device_info, same_as)           \
    X(dhow_safetensors_entry, bytes)       \
    X(dhow_module_source, image_count)     \
    X(dhow_memory_stats, driver_calls)     \
    X(dhow_layer, layer_count)             \
    X(dhow_model_value_info, optional)     \
    X(dhow_model_parameter_info, tensor)   \
    X(dhow_named_tensor, tensor)           \
    X(dhow_model_summary, plan_count)      \
    X(dhow_model_step_info, shape)         \
    X(dhow_window, groups)                 \
    X(dhow_conv_options, groups)           \
    X(dhow_parallel_options, fixed_shares) \
    X(dhow_parallel_member, reason)        \
    X(dhow_tensor_info, pinned)            \
    X(dhow_trace_stats, untimed)           \
    X(dhow_trainer_options, trainable)     \
    X(dhow_schedule, start_factor)         \
    X(dhow_process_group, user)            \
    X(dhow_trainer_log, gradient_norm)

#define DHOWI_END_OF(type, field) (offsetof(type, field) + sizeof(((type *)0)->field))
#define DHOWI_STRUCT_LEAST(type, field) dhowi_least_##type = DHOWI_END_OF(type, field),
enum { DHOWI_STRUCT_MAP(DHOWI_STRUCT_LEAST) };

enum { DHOWI_STRUCT_MOST = 1 << 20 }; /* what is larger was never set */
typedef char dhowi_struct_problem[192];

static inline uint32_t dhowi_struct_size(const void *given) {
    uint32_t bytes;
    memcpy(&bytes, given, sizeof bytes);
    return bytes;
}

static inline bool dhowi_struct_fits(const void *given, size_t least, const char *type,
                                     dhowi_struct_problem problem) {
    const uint32_t bytes = dhowi_struct_size(given);
    if (bytes >= least && bytes <= DHOWI_STRUCT_MOST) return true;
    (void)snprintf(problem, sizeof(dhowi_struct_problem),
                   "struct_size is %u; begin with DHOW_INIT(%s), which sets it", bytes, type);
    return false;
}

/* Reads what the program gave, as this library's struct. */
static inline bool dhowi_struct_take(void *own, size_t own_bytes, const void *given, size_t least,
                                     const char *type, dhowi_struct_problem problem) {
    const uint32_t own_size = (uint32_t)own_bytes;
    if (!dhowi_struct_fits(given, least, type, problem)) return false;
    const uint32_t bytes = dhowi_struct_size(given);
    memset(own, 0, own_bytes);
    memcpy(own, given, bytes < own_bytes ? bytes : own_bytes);
    memcpy(own, &own_size, sizeof own_size);
    for (size_t i = own_bytes; i < bytes; i++) {
        if (((const unsigned char *)given)[i] == 0) continue;
        (void)snprintf(problem, sizeof(dhowi_struct_problem),
                       "%s has a field at byte %zu that this version of dhow does not know; leave "
                       "it 0, or use a newer library",
                       type, i);
        return false;
    }
    return true;
}

/* Clears what the program is to be given, but for its size. */
static inline void dhowi_struct_clear(void *given) {
    memset((char *)given + sizeof(uint32_t), 0, dhowi_struct_size(given) - sizeof(uint32_t));
}

/* Writes as much as the program knows. */
static inline void dhowi_struct_give(void *given, const void *own, size_t own_bytes) {
    const size_t bytes = dhowi_struct_size(given), head = sizeof(uint32_t);
    const size_t known = bytes < own_bytes ? bytes : own_bytes;
    memcpy((char *)given + head, (const char *)own + head, known - head);
}

/* Element `i` of a program's array, whose elements are as large as the first one says. */
static inline const void *dhowi_struct_element(const void *first, uint32_t i) {
    return (const char *)first + (size_t)i * dhowi_struct_size(first);
}

/* ---- with errors ---- */

/* `own` becomes what `given` says, or zeros for NULL. */
#define DHOWI_STRUCT_IN(type, given, own, function, name) \
    dhowi_struct_in((own), sizeof(type), (given), dhowi_least_##type, #type, (function), (name))
/* Checks and clears the program's struct, and `own`, which is to be filled and given. */
#define DHOWI_STRUCT_OUT(type, given, own, function) \
    dhowi_struct_out((own), sizeof(type), (given), dhowi_least_##type, #type, (function))
#define DHOWI_STRUCT_GIVE(given, own) dhowi_struct_give((given), (own), sizeof *(own))

static inline dhow_status dhowi_struct_in(void *own, size_t own_bytes, const void *given,
                                          size_t least, const char *type, const char *function,
                                          const char *name) {
    dhowi_struct_problem problem;
    memset(own, 0, own_bytes);
    if (given == NULL || dhowi_struct_take(own, own_bytes, given, least, type, problem))
        return DHOW_OK;
    return dhow_set_error(DHOW_INVALID_ARGUMENT, "%s: %s: %s", function, name, problem);
}

static inline dhow_status dhowi_struct_out(void *own, size_t own_bytes, void *given, size_t least,
                                           const char *type, const char *function) {
    dhowi_struct_problem problem;
    memset(own, 0, own_bytes);
    if (given == NULL) return dhow_set_error(DHOW_INVALID_ARGUMENT, "%s: out is NULL", function);
    if (!dhowi_struct_fits(given, least, type, problem))
        return dhow_set_error(DHOW_INVALID_ARGUMENT, "%s: out: %s", function, problem);
    dhowi_struct_clear(given);
    return DHOW_OK;
}

#endif /* DHOWI_BASE_STRUCT_SIZE_H_ */
