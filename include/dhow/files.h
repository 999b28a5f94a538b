/* SPDX-License-Identifier: Apache-2.0
 *
 * Tensors in files: `.npy` (NumPy) and safetensors. Files are data from strangers: every size is
 * checked, a bad file is a CORRUPT status that names the file, the place and the reason.
 */
#ifndef DHOW_FILES_H_
#define DHOW_FILES_H_

#include "dhow/copy.h"

#ifdef __cplusplus
extern "C" {
#endif

/**
 * Reads an .npy file (format 1 to 3, C or Fortran order, either byte order) into a new tensor.
 *
 * @param device  where the tensor is to lie
 * @param path    of the file
 * @param out     receives the tensor; NULL on errors
 * @return INVALID_ARGUMENT, NOT_FOUND, IO_ERROR, CORRUPT, UNSUPPORTED (an element type that dhow
 * has not), OUT_OF_MEMORY
 *
 * Ownership: *out is owned. Threads: any. Blocks: while it reads.
 */
DHOW_API DHOW_NODISCARD dhow_status dhow_npy_load(dhow_device *device, const char *path,
                                                  dhow_tensor **out);

/**
 * Writes a tensor as .npy (format 1, C order). bf16, which NumPy has not, is written as f32. The
 * file appears whole or not at all.
 *
 * @param tensor  of any device and strides
 * @param path    of the file, which is replaced
 * @return INVALID_ARGUMENT, IO_ERROR, or what the device says
 *
 * Threads: any. Blocks: while it writes.
 */
DHOW_API DHOW_NODISCARD dhow_status dhow_npy_save(dhow_tensor *tensor, const char *path);

/** A safetensors file that is open: names, dtypes and shapes are known, data is read when asked
 * for. */
typedef struct dhow_safetensors dhow_safetensors;

/** A tensor in a safetensors file. */
typedef struct dhow_safetensors_entry {
    uint32_t struct_size; /**< DHOW_INIT() sets it */
    const char *name;
    dhow_dtype dtype;
    int32_t rank;
    int64_t shape[DHOW_MAX_RANK];
    uint64_t bytes;
} dhow_safetensors_entry;

/**
 * Opens a safetensors file and checks its whole header: names unique, sizes right, no overlap, no
 * gap, no trailing bytes.
 *
 * @param context  whose devices its tensors may lie on
 * @param path     of the file, which is held open
 * @param out      receives the file; NULL on errors
 * @return INVALID_ARGUMENT, NOT_FOUND, IO_ERROR, CORRUPT, UNSUPPORTED (an element type that dhow
 * has not), OUT_OF_MEMORY
 *
 * Ownership: *out is owned, close with dhow_safetensors_close(). Threads: any. Blocks: while it
 * reads.
 */
DHOW_API DHOW_NODISCARD dhow_status dhow_safetensors_open(dhow_context *context, const char *path,
                                                          dhow_safetensors **out);

/**
 * Closes the file.
 *
 * @param file  NULL is allowed
 *
 * Threads: any, once. Blocks: no.
 */
DHOW_API void dhow_safetensors_close(dhow_safetensors *file);

/**
 * How many tensors the file has.
 *
 * @param file  NULL or what is no file gives 0
 *
 * Threads: any. Blocks: no.
 */
DHOW_API uint32_t dhow_safetensors_count(const dhow_safetensors *file);

/**
 * One tensor's facts, in the order of their data.
 *
 * @param file   an open file
 * @param index  below dhow_safetensors_count()
 * @param out    filled in, cleared on errors; begin with DHOW_INIT()
 * @return INVALID_ARGUMENT, OUT_OF_RANGE
 *
 * Ownership: the name is borrowed until the file is closed. Threads: any. Blocks: no.
 */
DHOW_API DHOW_NODISCARD dhow_status dhow_safetensors_at(const dhow_safetensors *file,
                                                        uint32_t index,
                                                        dhow_safetensors_entry *out);

/**
 * Reads one tensor onto a device of the file's context.
 *
 * @param file    an open file
 * @param name    of the tensor in it
 * @param device  where the tensor is to lie
 * @param out     receives the tensor; NULL on errors
 * @return INVALID_ARGUMENT, NOT_FOUND (the message lists the nearest names), IO_ERROR,
 * OUT_OF_MEMORY
 *
 * Ownership: *out is owned. Threads: any. Blocks: while it reads.
 */
DHOW_API DHOW_NODISCARD dhow_status dhow_safetensors_load(const dhow_safetensors *file,
                                                          const char *name, dhow_device *device,
                                                          dhow_tensor **out);

/**
 * Writes tensors of any devices as one safetensors file, which appears whole or not at all.
 *
 * @param path     of the file, which is replaced
 * @param count    of names and tensors, 0 or more
 * @param names    `count` different ones, not "__metadata__"
 * @param tensors  `count` of them, of any strides
 * @return INVALID_ARGUMENT, IO_ERROR, OUT_OF_MEMORY, or what a device says
 *
 * Threads: any. Blocks: while it writes.
 */
DHOW_API DHOW_NODISCARD dhow_status dhow_safetensors_save(const char *path, uint32_t count,
                                                          const char *const *names,
                                                          dhow_tensor *const *tensors);

#ifdef __cplusplus
}
#endif

#endif /* DHOW_FILES_H_ */
