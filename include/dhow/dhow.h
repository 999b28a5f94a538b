/* SPDX-License-Identifier: Apache-2.0
 *
 * dhow: tensors and models on whatever devices the machine has. One include for everything an
 * application needs; plugins include dhow/plugin.h instead.
 *
 * What the comments mean by
 *   Threads: any                               from any number of threads at once
 *   Threads: externally synchronized           one call at a time, the program sees to it
 *   Threads: externally synchronized per X     the same for each object X; other objects do not
 *   Blocks: no                                 returns without waiting for devices or files
 *   Ownership: owned, borrowed, retained       release it, leave it, or it holds a reference itself
 *
 * Calls that follow one another - in a thread, or in several that the program synchronizes - and
 * use the same tensor are in order on all streams and devices. When one thread writes a tensor
 * while another uses it, nothing is lost or freed too early, but who is first is open, and what is
 * read may be a mixture, as in other libraries.
 */
#ifndef DHOW_H_
#define DHOW_H_

#include "dhow/context.h"
#include "dhow/copy.h"
#include "dhow/create.h"
#include "dhow/data.h"
#include "dhow/datum.h"
#include "dhow/device.h"
#include "dhow/files.h"
#include "dhow/graph.h"
#include "dhow/kernel.h"
#include "dhow/memory.h"
#include "dhow/model.h"
#include "dhow/nn.h"
#include "dhow/ops.h"
#include "dhow/parallel.h"
#include "dhow/print.h"
#include "dhow/reduce.h"
#include "dhow/scalar.h"
#include "dhow/status.h"
#include "dhow/stream.h"
#include "dhow/tensor.h"
#include "dhow/trace.h"
#include "dhow/train.h"

#endif /* DHOW_H_ */
