/* SPDX-License-Identifier: Apache-2.0
 *
 * A context finds the plugins and owns the devices. Nothing is global: several contexts may live in
 * one process.
 */
/* clang-format off */
/* Environment, read when a context is created (never in setuid programs):
 *
 *   DHOW_DEVICE       preference list, the first available wins: "cuda:1", "cuda,opencl,cpu", "auto"
 *   DHOW_BACKENDS     "cuda,cpu" keeps those backends, "-opencl" drops one; cpu always stays
 *   DHOW_PLUGIN_PATH  further plugin directories, absolute, colon-separated, searched first
 *   DHOW_LOG          error, warn (the default), info, debug
 *   DHOW_NUM_THREADS  threads of the CPU device; the default is the cores that the affinity mask and
 *                     the quotas of control groups leave the process
 *   DHOW_CACHE_DIR    folder of compiled kernels; the default is $XDG_CACHE_HOME/dhow or
 *                     ~/.cache/dhow; "off" for none. It is kept below 1 GiB: what was not used for
 *                     longest goes first
 *   DHOW_ISOLATE      0/1/on/off: probe every plugin in a process of its own, as devinfo does, so that
 *                     a driver that aborts does not end the program
 *   DHOW_TRACE        out.json: a file for the trace of all devices, see dhow/trace.h
 *   DHOW_VALIDATE     0/1/on/off: tell where objects were made and released that live on when a
 *                     program releases its context or are misused, and warn of waits for events that
 *                     were never recorded; kernels that write past the end of a tensor
 *
 * A value that does not parse is an error that names the bad word and lists what exists.
 */
/* clang-format on */
#ifndef DHOW_CONTEXT_H_
#define DHOW_CONTEXT_H_

#include "dhow/status.h"

#ifdef __cplusplus
extern "C" {
#endif

typedef struct dhow_context dhow_context;

/** Receives log lines, without a newline at the end. May be called from any thread, also from
 * several at once. It may look at devices and make and release objects; work that it hands in runs,
 * also where a model's plan is being made. It must not use the stream, tensors or model of the call
 * that it is told of, nor wait for them: a backend may log in the middle of a submission. */
typedef void (*dhow_log_fn)(void *user, dhow_log_level level, const char *message);

/** Options of a context. Zero or NULL takes the environment's value, then the default. */
typedef struct dhow_context_options {
    uint32_t struct_size;    /**< DHOW_INIT() sets it */
    const char *device;      /**< as DHOW_DEVICE */
    const char *backends;    /**< as DHOW_BACKENDS */
    const char *plugin_path; /**< as DHOW_PLUGIN_PATH, searched before it */
    const char *cache_dir;   /**< as DHOW_CACHE_DIR */
    int32_t num_threads;     /**< as DHOW_NUM_THREADS */
    int32_t isolate_probes;  /**< 1: as DHOW_ISOLATE */
    dhow_log_fn log;         /**< NULL: lines go to stderr */
    void *log_user;
} dhow_context_options;

/** What became of one plugin file. */
typedef struct dhow_plugin_record {
    uint32_t struct_size; /**< DHOW_INIT() sets it */
    const char *path;     /**< absolute; "(built in)" where it is linked into the library */
    const char *backend;  /**< "cuda"; from the file's name where the plugin could not be asked */
    const char *version;  /**< of the plugin, "" if unknown */
    dhow_plugin_state state;
    const char *reason; /**< one line, "" when READY */
    const char *hint;   /**< what a person can do about it, or "" */
    uint32_t device_count;
    uint32_t component_count; /**< optional libraries, see dhow_plugin_component_at() */
} dhow_plugin_record;

/** An optional library of a backend. */
typedef struct dhow_plugin_component {
    uint32_t struct_size; /**< DHOW_INIT() sets it */
    const char *name;     /**< "oneDNN" */
    const char *purpose;  /**< "matmul and convolution" */
    const char *detail;   /**< version and file, or why it is missing and what to install */
    int32_t present;
} dhow_plugin_component;

/**
 * Creates a context: finds plugins and starts that of the CPU. The others are probed once, when
 * somebody asks for their devices or records, so that a program that asks for "cpu" alone starts no
 * driver. A plugin that fails leaves a record and never hurts the others; only a missing CPU plugin
 * fails the call.
 *
 * @param options  NULL for all defaults
 * @param out      receives the context; NULL on errors
 * @return INVALID_ARGUMENT (an option or environment value does not parse), UNAVAILABLE (no CPU
 * plugin), OUT_OF_MEMORY
 *
 * Ownership: *out is owned, release with dhow_context_release(); strings in options are copied.
 * Threads: any. Blocks: while the CPU plugin is probed.
 */
DHOW_API DHOW_NODISCARD dhow_status dhow_context_create(const dhow_context_options *options,
                                                        dhow_context **out);

/**
 * Adds a reference.
 *
 * @param context  to which the caller has a reference
 * @return INVALID_ARGUMENT (no live context)
 *
 * Threads: any. Blocks: no.
 */
DHOW_API DHOW_NODISCARD dhow_status dhow_context_retain(dhow_context *context);

/**
 * Drops a reference. With the last one the context's work is awaited and its devices are closed;
 * tensors, streams and other objects hold references of their own.
 *
 * @param context  NULL is allowed
 *
 * Threads: any. Blocks: until the context's work has ended, on the last reference.
 */
DHOW_API void dhow_context_release(dhow_context *context);

/**
 * How many plugin files were found, READY or not.
 *
 * @param context  NULL or what is no context gives 0
 *
 * Threads: any. Blocks: no.
 */
DHOW_API uint32_t dhow_plugin_count(const dhow_context *context);

/**
 * The record of one plugin file.
 *
 * @param context  whose plugins are probed, if they were not yet
 * @param index    below dhow_plugin_count()
 * @param out      filled in, cleared on errors; begin with DHOW_INIT()
 * @return INVALID_ARGUMENT, OUT_OF_RANGE, OUT_OF_MEMORY
 *
 * Ownership: strings are borrowed until the context ends. Threads: any. Blocks: while plugins are
 * probed, the first time.
 */
DHOW_API DHOW_NODISCARD dhow_status dhow_plugin_at(const dhow_context *context, uint32_t index,
                                                   dhow_plugin_record *out);

/**
 * An optional library of a plugin.
 *
 * @param context  whose plugins are probed, if they were not yet
 * @param plugin   its index, below dhow_plugin_count()
 * @param index    of the component, below the record's component_count
 * @param out      filled in, cleared on errors; begin with DHOW_INIT()
 * @return INVALID_ARGUMENT, OUT_OF_RANGE, OUT_OF_MEMORY
 *
 * Ownership: strings are borrowed until the context ends. Threads: any. Blocks: while plugins are
 * probed, the first time.
 */
DHOW_API DHOW_NODISCARD dhow_status dhow_plugin_component_at(const dhow_context *context,
                                                             uint32_t plugin, uint32_t index,
                                                             dhow_plugin_component *out);

#ifdef __cplusplus
}
#endif

#endif /* DHOW_CONTEXT_H_ */
