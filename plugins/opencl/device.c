/* SPDX-License-Identifier: Apache-2.0
 *
 * Devices: which there are, what they can do, and opening one. Listing and describing make no
 * context, which on a GPU would take memory and a second.
 */
#include <stdio.h>
#include <string.h>

#include "dhow/dlpack.h"

#include "opencl.h"

enum { MAX_PLATFORMS = 32, MAX_PLATFORM_DEVICES = 64 };

/* Queries of extensions that headers of some systems do not have. */
enum {
    QUERY_UUID_KHR = 0x106A,
    QUERY_PCI_BUS_INFO_KHR = 0x410F,
    QUERY_PCI_BUS_NV = 0x4008,
    QUERY_PCI_SLOT_NV = 0x4009,
    QUERY_PCI_DOMAIN_NV = 0x400A
};

/* ---- queries -------------------------------------------------------------------------------- */

/* A text with its outer blanks removed (drivers pad their names); empty when the query fails. */
static void device_text(cl_device_id id, cl_device_info query, char *out, size_t out_bytes) {
    char text[512] = "";
    if (dhowi_cl.GetDeviceInfo(id, query, sizeof text, text, NULL) != CL_SUCCESS) text[0] = '\0';
    text[sizeof text - 1] = '\0';
    const char *begin = text + strspn(text, " \t");
    size_t length = strlen(begin);
    while (length > 0 && (begin[length - 1] == ' ' || begin[length - 1] == '\t')) length--;
    snprintf(out, out_bytes, "%.*s", (int)length, begin);
}

static cl_uint device_uint(cl_device_id id, cl_device_info query) {
    cl_uint value = 0;
    return dhowi_cl.GetDeviceInfo(id, query, sizeof value, &value, NULL) == CL_SUCCESS ? value : 0;
}

static cl_ulong device_ulong(cl_device_id id, cl_device_info query) {
    cl_ulong value = 0;
    return dhowi_cl.GetDeviceInfo(id, query, sizeof value, &value, NULL) == CL_SUCCESS ? value : 0;
}

static size_t device_size(cl_device_id id, cl_device_info query) {
    size_t value = 0;
    return dhowi_cl.GetDeviceInfo(id, query, sizeof value, &value, NULL) == CL_SUCCESS ? value : 0;
}

/* Extension lists reach several kilobytes on some drivers. */
static bool device_has_extension(cl_device_id id, const char *name) {
    char list[16384];
    size_t bytes = 0;
    if (dhowi_cl.GetDeviceInfo(id, CL_DEVICE_EXTENSIONS, 0, NULL, &bytes) != CL_SUCCESS ||
        bytes == 0 || bytes > sizeof list ||
        dhowi_cl.GetDeviceInfo(id, CL_DEVICE_EXTENSIONS, bytes, list, NULL) != CL_SUCCESS)
        return false;
    list[bytes - 1] = '\0';
    size_t length = strlen(name);
    for (const char *at = strstr(list, name); at != NULL; at = strstr(at + 1, name))
        if ((at == list || at[-1] == ' ') && (at[length] == ' ' || at[length] == '\0')) return true;
    return false;
}

static bool device_is_usable(cl_device_id id, char *why, size_t why_bytes) {
    char name[128], version[64];
    device_text(id, CL_DEVICE_NAME, name, sizeof name);
    device_text(id, CL_DEVICE_VERSION, version, sizeof version);
    unsigned major = 0, minor = 0;
    if (sscanf(version, "OpenCL %u.%u", &major, &minor) != 2 || major < 1 ||
        (major == 1 && minor < 2)) {
        snprintf(why, why_bytes, "%s has '%s', 1.2 is needed", name, version);
        return false;
    }
    if (!device_uint(id, CL_DEVICE_AVAILABLE) || !device_uint(id, CL_DEVICE_COMPILER_AVAILABLE)) {
        snprintf(why, why_bytes, "%s is not available or has no compiler", name);
        return false;
    }
    return true;
}

/* ---- listing -------------------------------------------------------------------------------- */

static int class_of(cl_device_type type) {
    return (type & CL_DEVICE_TYPE_GPU) ? 0 : (type & CL_DEVICE_TYPE_CPU) ? 2 : 1;
}

/* Appends the platform's usable devices of one class. Returns how many there are; `out` may be NULL
 * to count. */
static uint32_t list_class(cl_platform_id platform, int wanted, dhowi_cl_listed *out, char *why,
                           size_t why_bytes) {
    cl_device_id ids[MAX_PLATFORM_DEVICES];
    cl_uint found = 0;
    if (dhowi_cl.GetDeviceIDs(platform, CL_DEVICE_TYPE_ALL, MAX_PLATFORM_DEVICES, ids, &found) !=
        CL_SUCCESS)
        return 0;
    if (found > MAX_PLATFORM_DEVICES) found = MAX_PLATFORM_DEVICES;
    uint32_t count = 0;
    for (cl_uint i = 0; i < found; i++) {
        cl_device_type type = device_ulong(ids[i], CL_DEVICE_TYPE);
        if (class_of(type) != wanted || !device_is_usable(ids[i], why, why_bytes)) continue;
        if (out != NULL) out[count] = (dhowi_cl_listed){platform, ids[i], type};
        count++;
    }
    return count;
}

/* "'Portable Computing Language' shows no device" of each platform. */
static void name_platforms(const cl_platform_id *platforms, cl_uint count, char *why,
                           size_t why_bytes) {
    size_t used = 0;
    for (cl_uint p = 0; p < count && used < why_bytes; p++) {
        char name[64] = "";
        if (dhowi_cl.GetPlatformInfo(platforms[p], CL_PLATFORM_NAME, sizeof name, name, NULL) !=
            CL_SUCCESS)
            (void)snprintf(name, sizeof name, "unnamed");
        name[sizeof name - 1] = '\0';
        const int written = snprintf(why + used, why_bytes - used, "%s'%s' shows no device",
                                     p > 0 ? ", " : "", name);
        used += written > 0 ? (size_t)written : 0;
    }
}

cl_int dhowi_cl_list_devices(const dhow_host *host, dhowi_cl_listed **out, uint32_t *out_count,
                             uint32_t *out_platforms, char *why, size_t why_bytes) {
    cl_platform_id platforms[MAX_PLATFORMS];
    cl_uint platform_count = 0;
    *out = NULL;
    *out_count = *out_platforms = 0;
    why[0] = '\0';
    cl_int code = dhowi_cl.GetPlatformIDs(MAX_PLATFORMS, platforms, &platform_count);
    if (code == CL_PLATFORM_NOT_FOUND_KHR) return CL_SUCCESS;
    if (code != CL_SUCCESS) return code;
    if (platform_count > MAX_PLATFORMS) platform_count = MAX_PLATFORMS;
    *out_platforms = platform_count;

    uint32_t total = 0;
    for (int wanted = 0; wanted < 3; wanted++)
        for (cl_uint p = 0; p < platform_count; p++)
            total += list_class(platforms[p], wanted, NULL, why, why_bytes);
    if (total == 0) {
        if (why[0] == '\0') name_platforms(platforms, platform_count, why, why_bytes);
        return CL_SUCCESS;
    }
    dhowi_cl_listed *list = dhowi_cl_new(host, total * sizeof *list);
    if (list == NULL) return CL_OUT_OF_HOST_MEMORY;
    uint32_t at = 0;
    for (int wanted = 0; wanted < 3; wanted++)
        for (cl_uint p = 0; p < platform_count && at < total; p++)
            at += list_class(platforms[p], wanted, list + at, why, why_bytes);
    *out = list;
    *out_count = at;
    return CL_SUCCESS;
}

int32_t dhowi_cl_device_count(void *backend, uint32_t *out_count, dhow_error *err) {
    (void)err;
    *out_count = ((dhowi_cl_backend *)backend)->device_count;
    return DHOW_OK;
}

/* ---- describing ----------------------------------------------------------------------------- */

static void describe_driver(const dhowi_cl_listed *listed, char *out, size_t out_bytes) {
    char platform[96] = "", version[48], driver[48];
    if (dhowi_cl.GetPlatformInfo(listed->platform, CL_PLATFORM_NAME, sizeof platform, platform,
                                 NULL) != CL_SUCCESS)
        platform[0] = '\0';
    platform[sizeof platform - 1] = '\0';
    device_text(listed->id, CL_DEVICE_VERSION, version, sizeof version);
    device_text(listed->id, CL_DRIVER_VERSION, driver, sizeof driver);
    snprintf(out, out_bytes, "%.60s, %.32s, driver %.24s", platform, version, driver);
}

static void describe_uuid(cl_device_id id, char *out, size_t out_bytes) {
    unsigned char uuid[16];
    if (!device_has_extension(id, "cl_khr_device_uuid") ||
        dhowi_cl.GetDeviceInfo(id, QUERY_UUID_KHR, sizeof uuid, uuid, NULL) != CL_SUCCESS)
        return;
    for (size_t i = 0; i < sizeof uuid; i++)
        snprintf(out + 2 * i, out_bytes - 2 * i, "%02x", uuid[i]);
}

static void describe_pci(cl_device_id id, char *out, size_t out_bytes) {
    cl_uint place[4] = {0, 0, 0, 0}; /* domain, bus, device, function */
    if (device_has_extension(id, "cl_khr_pci_bus_info") &&
        dhowi_cl.GetDeviceInfo(id, QUERY_PCI_BUS_INFO_KHR, sizeof place, place, NULL) ==
            CL_SUCCESS) {
    } else if (device_has_extension(id, "cl_nv_device_attribute_query") &&
               dhowi_cl.GetDeviceInfo(id, QUERY_PCI_BUS_NV, sizeof place[1], &place[1], NULL) ==
                   CL_SUCCESS) {
        cl_uint slot = device_uint(id, QUERY_PCI_SLOT_NV);
        place[0] = device_uint(id, QUERY_PCI_DOMAIN_NV);
        place[2] = slot >> 3;
        place[3] = slot & 7u;
    } else {
        return;
    }
    snprintf(out, out_bytes, "%04x:%02x:%02x.%x", place[0] & 0xffffu, place[1] & 0xffu,
             place[2] & 0xffu, place[3] & 0xfu);
}

static bool is_host_visible(const dhowi_cl_listed *listed) {
    return (listed->type & CL_DEVICE_TYPE_CPU) ||
           device_uint(listed->id, CL_DEVICE_HOST_UNIFIED_MEMORY);
}

static bool has_fp64(cl_device_id id) {
    return device_has_extension(id, "cl_khr_fp64") &&
           device_ulong(id, CL_DEVICE_DOUBLE_FP_CONFIG) != 0;
}

/* A vendor's own backend of the same GPU goes first, and dhow's kernels for the CPU are faster than
 * OpenCL's. */
static uint32_t priority_of(int class) {
    return class == 0   ? DHOW_PRIORITY_GPU - 50
           : class == 2 ? DHOW_PRIORITY_CPU - 50
                        : DHOW_PRIORITY_ACCELERATOR;
}

int32_t dhowi_cl_device_describe(void *backend_pointer, uint32_t index, dhow_device_desc *out,
                                 dhow_error *err) {
    const dhowi_cl_backend *backend = backend_pointer;
    if (index >= backend->device_count)
        return dhowi_cl_refuse(err, DHOW_OUT_OF_RANGE,
                               "opencl:%u does not exist, there are %u devices", index,
                               backend->device_count);
    const dhowi_cl_listed *listed = &backend->devices[index];
    const int class = class_of(listed->type);
    out->kind = class == 0   ? DHOW_DEVICE_GPU
                : class == 2 ? DHOW_DEVICE_CPU
                             : DHOW_DEVICE_ACCELERATOR;
    out->flags = DHOW_DEVICE_RUNS_KERNELS;
    if (is_host_visible(listed)) out->flags |= DHOW_DEVICE_HOST_VISIBLE;
    if (class == 2) out->flags |= DHOW_DEVICE_PAGEABLE_ASYNC;
    out->compute_units = device_uint(listed->id, CL_DEVICE_MAX_COMPUTE_UNITS);
    /* Kernels take a buffer and a byte offset, so any naturally aligned element is reachable; 16
     * covers all types and the short vectors that compilers make of them. */
    out->offset_align = 16;
    out->index_bits = class == 2 ? 64u : 32u | 64u;
    out->memory_bytes = device_ulong(listed->id, CL_DEVICE_GLOBAL_MEM_SIZE);
    out->free_bytes = 0;
    out->dtypes = 0;
#define DTYPE_BIT_(name, number, text, bytes) out->dtypes |= DHOW_DTYPE_BIT(number);
    DHOW_DTYPE_MAP(DTYPE_BIT_)
#undef DTYPE_BIT_
    if (!has_fp64(listed->id)) out->dtypes &= ~DHOW_DTYPE_BIT(DHOW_F64);
    device_text(listed->id, CL_DEVICE_NAME, out->name, sizeof out->name);
    describe_driver(listed, out->driver, sizeof out->driver);
    out->uuid[0] = out->pci[0] = '\0';
    describe_uuid(listed->id, out->uuid, sizeof out->uuid);
    describe_pci(listed->id, out->pci, sizeof out->pci);
    if (out->struct_size >= sizeof *out) {
        out->priority = priority_of(class);
        out->dlpack_type = kDLOpenCL;
    }
    return DHOW_OK;
}

/* ---- opening -------------------------------------------------------------------------------- */

/* Portable kernels reduce in a tree over their group, so its size is a power of two. */
static uint32_t choose_group_items(cl_device_id id) {
    size_t limit = device_size(id, CL_DEVICE_MAX_WORK_GROUP_SIZE);
    uint32_t items = 256;
    while (items > limit && items > 1) items /= 2;
    return items;
}

bool dhowi_cl_is_pocl(const dhowi_cl_device *device) {
    static const char pocl[] = "Portable Computing Language";
    return strncmp(device->driver, pocl, sizeof pocl - 1) == 0;
}

/* PoCL's synchronous device ("basic", later "cpu-minimal") runs what waits for a user event inside
 * clSetUserEventStatus, with the event's lock held, and never comes back. */
static bool has_user_events(const dhowi_cl_device *device) {
    return !dhowi_cl_is_pocl(device) || (strncmp(device->name, "basic", 5) != 0 &&
                                         strncmp(device->name, "cpu-minimal", 11) != 0);
}

static void read_limits(dhowi_cl_device *device, const dhowi_cl_listed *listed) {
    cl_device_id id = listed->id;
    device->id = id;
    device->is_cpu = class_of(listed->type) == 2;
    device->is_gpu = class_of(listed->type) == 0;
    device->host_visible = is_host_visible(listed);
    device->has_fp64 = has_fp64(id);
    device->has_fp16 = device_has_extension(id, "cl_khr_fp16");
    device->compute_units = device_uint(id, CL_DEVICE_MAX_COMPUTE_UNITS);
    if (device->compute_units == 0) device->compute_units = 1;
    device->group_items = choose_group_items(id);
    device->sub_buffer_align = device_uint(id, CL_DEVICE_MEM_BASE_ADDR_ALIGN) / 8;
    if (device->sub_buffer_align == 0) device->sub_buffer_align = 1;
    device->max_alloc_bytes = device_ulong(id, CL_DEVICE_MAX_MEM_ALLOC_SIZE);
    device->total_bytes = device_ulong(id, CL_DEVICE_GLOBAL_MEM_SIZE);
    device_text(id, CL_DEVICE_NAME, device->name, sizeof device->name);
    describe_driver(listed, device->driver, sizeof device->driver);
    device->has_user_events = has_user_events(device);
}

int32_t dhowi_cl_device_open(void *backend_pointer, uint32_t index, void **out_device,
                             dhow_error *err) {
    dhowi_cl_backend *backend = backend_pointer;
    cl_int code = CL_SUCCESS;
    *out_device = NULL;
    if (index >= backend->device_count)
        return dhowi_cl_refuse(err, DHOW_OUT_OF_RANGE,
                               "opencl:%u does not exist, there are %u devices", index,
                               backend->device_count);
    const dhowi_cl_listed *listed = &backend->devices[index];
    dhowi_cl_device *device = dhowi_cl_new(backend->host, sizeof *device);
    if (device == NULL)
        return dhowi_cl_refuse(err, DHOW_OUT_OF_MEMORY, "opencl:%u: no host memory", index);
    device->host = backend->host;
    device->backend = backend;
    pthread_mutex_init(&device->pinned_lock, NULL);
    read_limits(device, listed);
    const cl_context_properties properties[] = {CL_CONTEXT_PLATFORM,
                                                (cl_context_properties)listed->platform, 0};
    device->context = dhowi_cl.CreateContext(properties, 1, &device->id, NULL, NULL, &code);
    if (code == CL_SUCCESS)
        device->own_queue = dhowi_cl.CreateCommandQueue(device->context, device->id, 0, &code);
    if (code != CL_SUCCESS) {
        int32_t status =
            dhowi_cl_fail(err, code, "opencl:%u (%s) does not open", index, device->name);
        dhowi_cl_device_close(device);
        return status;
    }
    *out_device = device;
    return DHOW_OK;
}

void dhowi_cl_device_close(void *device_pointer) {
    dhowi_cl_device *device = device_pointer;
    while (device->pinned != NULL) dhowi_cl_host_free(device, device->pinned->memory);
    if (device->own_queue != NULL) dhowi_cl.ReleaseCommandQueue(device->own_queue);
    if (device->context != NULL) dhowi_cl.ReleaseContext(device->context);
    pthread_mutex_destroy(&device->pinned_lock);
    dhowi_cl_delete(device->host, device);
}
