/* SPDX-License-Identifier: Apache-2.0
 *
 * The table of all cases: first the plugin by itself, then what it is for.
 */
#include "conformance.h"

#define GROUP(name, table, kind) \
    { name, conform_##table##_cases, &conform_##table##_count, kind }

const conform_group conform_groups[] = {GROUP("abi", abi, CONFORM_FILE),
                                        GROUP("devices", devices, CONFORM_SLOTS),
                                        GROUP("alloc", alloc, CONFORM_SLOTS),
                                        GROUP("transfer", transfer, CONFORM_SLOTS),
                                        GROUP("order", order, CONFORM_SLOTS),
                                        GROUP("launch", launch, CONFORM_SLOTS),
                                        GROUP("blas", blas, CONFORM_SLOTS),
                                        GROUP("conv", conv, CONFORM_SLOTS),
                                        GROUP("coll", coll, CONFORM_SLOTS),
                                        GROUP("threads", threads, CONFORM_SLOTS),
                                        GROUP("shutdown", shutdown, CONFORM_SLOTS),
                                        GROUP("fault", fault, CONFORM_FAULT),
                                        GROUP("memory", memory, CONFORM_API),
                                        GROUP("copy", copy, CONFORM_API),
                                        GROUP("stream", stream, CONFORM_API),
                                        GROUP("graph", graph, CONFORM_API),
                                        GROUP("kernel", kernel, CONFORM_API),
                                        GROUP("ops", elementwise, CONFORM_API),
                                        GROUP("ops", op, CONFORM_API),
                                        GROUP("functions", function, CONFORM_API),
                                        GROUP("reductions", reduction, CONFORM_API),
                                        GROUP("arrange", arrange, CONFORM_API),
                                        GROUP("create", create, CONFORM_API),
                                        GROUP("scalars", scalar, CONFORM_API),
                                        GROUP("layers", layer, CONFORM_API),
                                        GROUP("models", model, CONFORM_API),
                                        GROUP("rows", rows, CONFORM_API),
                                        GROUP("training", training, CONFORM_API),
                                        GROUP("error", error, CONFORM_API),
                                        GROUP("huge", huge, CONFORM_HUGE)};
const uint32_t conform_group_count = sizeof conform_groups / sizeof conform_groups[0];
