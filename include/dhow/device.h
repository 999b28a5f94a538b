/* SPDX-License-Identifier: Apache-2.0
 *
 * Devices are named `backend[:index]`: "cpu", "cuda:0", "opencl:1". There is no current device;
 * every object carries its own. The same grammar serves this API, every tool's --device and
 * DHOW_DEVICE.
 */
#ifndef DHOW_DEVICE_H_
#define DHOW_DEVICE_H_

#include "dhow/context.h"

#ifdef __cplusplus
extern "C" {
#endif

typedef struct dhow_device dhow_device;

/** Facts of a device. */
typedef struct dhow_device_info {
    uint32_t struct_size;    /**< DHOW_INIT() sets it */
    const char *name;        /**< "cuda:0" */
    const char *backend;     /**< "cuda" */
    const char *description; /**< the vendor's name of it */
    const char *driver;
    const char *uuid; /**< 32 hex digits or "" */
    const char *pci;  /**< "0000:65:00.0" or "" */
    dhow_device_kind kind;
    uint32_t index;         /**< within its backend */
    uint32_t compute_units; /**< cores or multiprocessors */
    uint32_t host_memory;   /**< 1: its memory is host memory (the CPU) */
    uint64_t memory_bytes;  /**< in all */
    uint64_t free_bytes;    /**< 0 when unknown */
    uint64_t dtypes;        /**< DHOW_DTYPE_BIT of each element type it computes */
    const char *same_as;    /**< an earlier device that is the same hardware, by UUID or PCI place,
                               seen through another backend: its name, else "" */
} dhow_device_info;

/**
 * How many devices the context has.
 *
 * @param context  whose plugins are probed, if they were not yet; NULL or what is no context gives
 * 0
 *
 * Threads: any. Blocks: while plugins are probed, the first time.
 */
DHOW_API uint32_t dhow_device_count(const dhow_context *context);

/**
 * One of the devices: CUDA devices first, then OpenCL GPUs, the CPU, others.
 *
 * @param context  whose plugins are probed, if they were not yet
 * @param index    below dhow_device_count()
 * @param out      receives the device; NULL on errors
 * @return INVALID_ARGUMENT, OUT_OF_RANGE, OUT_OF_MEMORY
 *
 * Ownership: borrowed until the context ends. Threads: any. Blocks: while plugins are probed, the
 * first time.
 */
DHOW_API DHOW_NODISCARD dhow_status dhow_device_at(dhow_context *context, uint32_t index,
                                                   dhow_device **out);

/**
 * The device a preference list selects.
 *
 * @param context  whose plugins are probed, unless the list begins with "cpu"
 * @param spec     "cuda:1", "cuda,opencl,cpu", "auto"; NULL takes the context's choice (option,
 * DHOW_DEVICE, auto)
 * @param out      receives the device; NULL on errors
 * @return INVALID_ARGUMENT (a word does not parse), NOT_FOUND (none of the list is there; the
 * message lists what exists and why the wanted backend is missing), OUT_OF_MEMORY
 *
 * Ownership: borrowed until the context ends. Threads: any. Blocks: while plugins are probed, the
 * first time.
 */
DHOW_API DHOW_NODISCARD dhow_status dhow_device_get(dhow_context *context, const char *spec,
                                                    dhow_device **out);

/**
 * Facts of a device.
 *
 * @param device  open or not
 * @param out     filled in, cleared on errors; begin with DHOW_INIT()
 * @return INVALID_ARGUMENT
 *
 * Ownership: strings are borrowed until the context ends. Threads: any. Blocks: no.
 */
DHOW_API DHOW_NODISCARD dhow_status dhow_device_get_info(const dhow_device *device,
                                                         dhow_device_info *out);

/**
 * The name of a device, "cuda:0".
 *
 * @param device  NULL or what is no device gives "(invalid device)"
 *
 * Ownership: borrowed until the context ends. Threads: any. Blocks: no.
 */
DHOW_API const char *dhow_device_name(const dhow_device *device);

/**
 * The context of a device.
 *
 * @param device  NULL or what is no device gives NULL
 *
 * Ownership: borrowed. Threads: any. Blocks: no.
 */
DHOW_API dhow_context *dhow_device_context(const dhow_device *device);

/**
 * Opens the device now rather than on first use.
 *
 * @param device  nothing happens where it is open
 * @return UNAVAILABLE or what the driver says
 *
 * Threads: any. Blocks: while the driver starts.
 */
DHOW_API DHOW_NODISCARD dhow_status dhow_device_open(dhow_device *device);

/** What f32 computes in: products and convolutions on a device, or models of f32 as a whole. */
typedef enum dhow_precision {
    DHOW_PRECISION_F32 = 0,     /**< f32 throughout, the default; PyTorch's "highest" */
    DHOW_PRECISION_REDUCED = 1, /**< products and convolutions where it is faster: TF32 on CUDA
                                   (about 3e-4 relative; PyTorch's "high"), bf16 on processors that
                                   have it (about 3e-3; "medium"); sums stay in f32 */
    DHOW_PRECISION_BF16 = 2,    /**< of models alone: bf16, see dhow_model_set_precision() */
    DHOW_PRECISION_F16 = 3,     /**< of models alone: f16 */
    DHOW_PRECISION_DEVICE = 4   /**< of models alone, their default: what the device is set to */
} dhow_precision;

/**
 * Allows products and convolutions of f32 tensors on this device to compute less precisely inside.
 * Operations submitted later follow it, and models that have no precision of their own.
 *
 * @param device     open or not; operations submitted before keep theirs
 * @param precision  DHOW_PRECISION_F32 or DHOW_PRECISION_REDUCED
 * @return INVALID_ARGUMENT (also for a precision of models alone)
 *
 * Threads: any. Blocks: no.
 */
DHOW_API DHOW_NODISCARD dhow_status dhow_device_set_precision(dhow_device *device,
                                                              dhow_precision precision);

/**
 * What dhow_device_set_precision() has set.
 *
 * @param device  NULL or what is no device gives DHOW_PRECISION_F32
 *
 * Threads: any. Blocks: no.
 */
DHOW_API dhow_precision dhow_device_precision(const dhow_device *device);

/**
 * Waits for all work of all streams of the device and reports the first failure among it.
 *
 * @param device  one that is not open has no work
 * @return DEVICE_LOST, FORKED, or what failed
 *
 * Threads: any. Blocks: yes.
 */
DHOW_API DHOW_NODISCARD dhow_status dhow_device_sync(dhow_device *device);

#ifdef __cplusplus
}
#endif

#endif /* DHOW_DEVICE_H_ */
