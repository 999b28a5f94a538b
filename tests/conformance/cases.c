/* SPDX-License-Identifier: Apache-2.0
 *
 * The table of all cases.
 */
#include "conformance.h"

const conform_group conform_groups[] = {{"memory", conform_memory_cases, &conform_memory_count},
                                        {"copy", conform_copy_cases, &conform_copy_count},
                                        {"stream", conform_stream_cases, &conform_stream_count},
                                        {"graph", conform_graph_cases, &conform_graph_count},
                                        {"kernel", conform_kernel_cases, &conform_kernel_count},
                                        {"ops", conform_op_cases, &conform_op_count},
                                        {"functions", conform_function_cases,
                                         &conform_function_count},
                                        {"error", conform_error_cases, &conform_error_count}};
const uint32_t conform_group_count = sizeof conform_groups / sizeof conform_groups[0];
