/* SPDX-License-Identifier: Apache-2.0
 *
 * Kernels compiled at run time, by NVRTC, for exactly the device at hand; the result is kept in the
 * disk cache. A GPU newer than the compiler gets PTX, which the driver finishes.
 */
#include <stdio.h>
#include <string.h>

#include "cuda_plugin.h"
#include "search.h"
#include "vendor_abi.h"

enum { MAX_OPTIONS = 32, MAX_ARCHS = 64 };

/* As kernel texts include it; it need not lie on this machine. */
#define HEADER_NAME "dhow/kernel/k.h"

/* X(type, name) in the order of the symbols */
#define NVRTC_FUNCTIONS(X)                       \
    X(nvrtc_version_fn, Version)                 \
    X(nvrtc_arch_count_fn, GetNumSupportedArchs) \
    X(nvrtc_archs_fn, GetSupportedArchs)         \
    X(nvrtc_create_fn, CreateProgram)            \
    X(nvrtc_destroy_fn, DestroyProgram)          \
    X(nvrtc_compile_fn, CompileProgram)          \
    X(nvrtc_size_fn, GetCUBINSize)               \
    X(nvrtc_bytes_fn, GetCUBIN)                  \
    X(nvrtc_size_fn, GetPTXSize)                 \
    X(nvrtc_bytes_fn, GetPTX)                    \
    X(nvrtc_size_fn, GetProgramLogSize)          \
    X(nvrtc_bytes_fn, GetProgramLog)             \
    X(nvrtc_error_fn, GetErrorString)

typedef struct compiler {
#define MEMBER_(type, name) type *name;
    NVRTC_FUNCTIONS(MEMBER_)
#undef MEMBER_
} compiler;

/* What to compile for, and how. */
typedef struct target {
    int version; /* of NVRTC, 13000 */
    uint32_t arch;
    bool ptx;
    char include[DHOWI_CUDA_PATH_BYTES + 4]; /* "-I..." of CUDA's headers, for CUDA C; or "" */
} target;

static int32_t open_compiler(const dhow_host *host, const char *for_what, compiler *out,
                             dhow_error *err) {
    static const char *const symbols[] = {
#define SYMBOL_(type, name) "nvrtc" #name,
        NVRTC_FUNCTIONS(SYMBOL_)
#undef SYMBOL_
            NULL};
    void *found[sizeof symbols / sizeof symbols[0]];
    char why[400];
    if (!dhowi_cuda_library_open(host, DHOWI_CUDA_NVRTC, symbols, found, why, sizeof why))
        return dhowi_cuda_refuse(err, DHOW_UNSUPPORTED,
                                 "%s: compiling a kernel for CUDA needs NVRTC: %s", for_what, why);
    memcpy(out, found, sizeof *out);
    return DHOW_OK;
}

/* The device's own architecture, or the newest that is older. */
static int32_t choose_target(const dhowi_cuda_device *device, const compiler *nvrtc, target *out,
                             dhow_error *err) {
    int major = 0, minor = 0, count = 0, archs[MAX_ARCHS];
    *out = (target){0};
    (void)nvrtc->Version(&major, &minor);
    out->version = 1000 * major + 10 * minor;
    if (nvrtc->GetNumSupportedArchs(&count) != 0 || count < 1 || count > MAX_ARCHS ||
        nvrtc->GetSupportedArchs(archs) != 0)
        count = 0;
    for (int i = 0; i < count; i++) {
        if (archs[i] <= (int)device->arch && (uint32_t)archs[i] > out->arch)
            out->arch = (uint32_t)archs[i];
    }
    if (out->arch == 0)
        return dhowi_cuda_refuse(err, DHOW_UNSUPPORTED,
                                 "%s: NVRTC %d.%d does not compile for compute capability %u.%u",
                                 device->name, major, minor, device->arch / 10, device->arch % 10);
    out->ptx = out->arch != device->arch;
    return DHOW_OK;
}

/* Kernels in CUDA C include cuda_fp16.h and others, which NVRTC does not look for by itself. */
static void add_headers(const dhow_host *host, target *to) {
    char nvrtc[DHOWI_CUDA_PATH_BYTES], folder[DHOWI_CUDA_PATH_BYTES];
    dhowi_cuda_library_file(DHOWI_CUDA_NVRTC, nvrtc, sizeof nvrtc);
    if (dhowi_cuda_header_folder(host, nvrtc, folder, sizeof folder))
        (void)snprintf(to->include, sizeof to->include, "-I%s", folder);
}

/* ---- cache ---------------------------------------------------------------------------------- */

static uint64_t hash(uint64_t state, const void *data, size_t bytes) {
    const unsigned char *p = data;
    for (size_t i = 0; i < bytes; i++) state = (state ^ p[i]) * UINT64_C(0x100000001b3);
    return state ^ (state >> 29);
}

/* Everything that the result depends on, in 128 bits. */
static void cache_key(const dhow_module_desc *desc, const target *to, char *out, size_t bytes) {
    uint64_t key[2] = {UINT64_C(0xcbf29ce484222325), UINT64_C(0x9ae16a3b2f90404f)};
    for (int i = 0; i < 2; i++) {
        key[i] = hash(key[i], desc->text, (size_t)desc->text_bytes);
        if (desc->header != NULL) key[i] = hash(key[i], desc->header, strlen(desc->header));
        key[i] = hash(key[i], desc->options, strlen(desc->options));
        key[i] = hash(key[i], to->include, strlen(to->include));
        key[i] = hash(key[i], &desc->index_bits, sizeof desc->index_bits);
        key[i] = hash(key[i], &desc->format, sizeof desc->format);
    }
    (void)snprintf(out, bytes, "nvrtc-%d-%u%s-%016llx%016llx", to->version, to->arch,
                   to->ptx ? "p" : "", (unsigned long long)key[0], (unsigned long long)key[1]);
}

/* ---- compiling ------------------------------------------------------------------------------ */

/* Points words[] at the words of `text`, which it cuts apart. Returns how many, -1 for too many. */
static int split_words(char *text, const char **words, int capacity) {
    int count = 0;
    for (char *p = text; *p != '\0';) {
        p += strspn(p, " \t\n");
        if (*p == '\0') break;
        if (count == capacity) return -1;
        words[count++] = p;
        p += strcspn(p, " \t\n");
        if (*p != '\0') *p++ = '\0';
    }
    return count;
}

static void fill_log(const dhow_host *host, const compiler *nvrtc, nvrtc_program program,
                     const dhow_module_desc *desc) {
    size_t bytes = 0;
    if (desc->log == NULL || desc->log_bytes == 0) return;
    if (nvrtc->GetProgramLogSize(program, &bytes) != 0 || bytes == 0) return;
    char *log = dhowi_cuda_new(host, bytes + 1);
    if (log != NULL && nvrtc->GetProgramLog(program, log) == 0)
        (void)snprintf(desc->log, (size_t)desc->log_bytes, "%s", log);
    dhowi_cuda_delete(host, log);
}

/* The first line of the log that tells of an error, for the message. */
static int first_error(const dhow_module_desc *desc, const char **out) {
    const char *line = desc->log != NULL ? strstr(desc->log, "error") : NULL;
    if (line == NULL) {
        *out = "see the log";
        return (int)strlen(*out);
    }
    while (line > desc->log && line[-1] != '\n') line--;
    *out = line;
    return (int)strcspn(line, "\n");
}

static const char *advice(const dhow_module_desc *desc, const target *to) {
    const bool lacks_headers = desc->format == DHOW_MODULE_CUDA_C && to->include[0] == '\0' &&
                               strstr(desc->log != NULL ? desc->log : "", ".h") != NULL;
    return lacks_headers ? "; no cuda_fp16.h was found, set CUDA_HOME to a toolkit with headers"
                         : "";
}

static int32_t take_result(const dhow_host *host, const compiler *nvrtc, nvrtc_program program,
                           const target *to, const dhow_module_desc *desc, void **out_image,
                           uint64_t *out_bytes, dhow_error *err) {
    size_t bytes = 0;
    int result =
        to->ptx ? nvrtc->GetPTXSize(program, &bytes) : nvrtc->GetCUBINSize(program, &bytes);
    char *image = result == 0 ? dhowi_cuda_new(host, bytes + 1) : NULL;
    if (result == 0 && image == NULL)
        return dhowi_cuda_refuse(err, DHOW_OUT_OF_MEMORY, "%s: no host memory", desc->name);
    if (result == 0)
        result = to->ptx ? nvrtc->GetPTX(program, image) : nvrtc->GetCUBIN(program, image);
    if (result != 0) {
        dhowi_cuda_delete(host, image);
        return dhowi_cuda_refuse(err, DHOW_INTERNAL, "%s: NVRTC gives no result: %s", desc->name,
                                 nvrtc->GetErrorString(result));
    }
    *out_image = image;
    *out_bytes = bytes;
    return DHOW_OK;
}

static int32_t run_compiler(const dhow_host *host, const compiler *nvrtc, const target *to,
                            const dhow_module_desc *desc, char *source, char *option_text,
                            void **out_image, uint64_t *out_bytes, dhow_error *err) {
    const char *options[MAX_OPTIONS];
    char arch[48];
    nvrtc_program program = NULL;
    (void)snprintf(arch, sizeof arch, "--gpu-architecture=%s_%u", to->ptx ? "compute" : "sm",
                   to->arch);
    options[0] = arch;
    options[1] = "--std=c++17";
    options[2] = "-DK_IDX64";
    const int fixed = desc->format == DHOW_MODULE_PORTABLE && desc->index_bits == 64 ? 3 : 2;
    const int room = MAX_OPTIONS - fixed - 1;
    const int words = split_words(option_text, options + fixed, room);
    if (words < 0)
        return dhowi_cuda_refuse(err, DHOW_INVALID_ARGUMENT, "%s: more than %d compiler options",
                                 desc->name, room);
    int count = fixed + words;
    if (to->include[0] != '\0') options[count++] = to->include; /* the caller's folders first */
    const char *const header_names[] = {HEADER_NAME};
    int result = nvrtc->CreateProgram(&program, source, desc->name, desc->header != NULL ? 1 : 0,
                                      &desc->header, header_names);
    if (result != 0)
        return dhowi_cuda_refuse(err, DHOW_INTERNAL, "%s: NVRTC does not start: %s", desc->name,
                                 nvrtc->GetErrorString(result));
    result = nvrtc->CompileProgram(program, count, options);
    fill_log(host, nvrtc, program, desc);
    int32_t status;
    if (result == 0) {
        status = take_result(host, nvrtc, program, to, desc, out_image, out_bytes, err);
    } else {
        const char *line;
        const int length = first_error(desc, &line);
        status = dhowi_cuda_refuse(
            err, result == NVRTC_COMPILATION_FAILED ? DHOW_COMPILE_ERROR : DHOW_INVALID_ARGUMENT,
            "%s: %.*s (dhow_module_log() has the rest)%s", nvrtc->GetErrorString(result),
            length > 240 ? 240 : length, line, advice(desc, to));
        err->native_code = result;
    }
    (void)nvrtc->DestroyProgram(&program);
    return status;
}

/* The text behind an include of the dialect's header, and a copy of the options to cut apart. */
static int32_t compile(const dhow_host *host, const compiler *nvrtc, const target *to,
                       const dhow_module_desc *desc, void **out_image, uint64_t *out_bytes,
                       dhow_error *err) {
    const char *front = desc->header != NULL ? "#include \"" HEADER_NAME "\"\n#line 1\n" : "";
    const size_t front_bytes = strlen(front), option_bytes = strlen(desc->options) + 1;
    char *source = dhowi_cuda_new(host, front_bytes + (size_t)desc->text_bytes + 1);
    char *options = dhowi_cuda_new(host, option_bytes);
    int32_t status = DHOW_OK;
    if (source == NULL || options == NULL) {
        status = dhowi_cuda_refuse(err, DHOW_OUT_OF_MEMORY, "%s: no host memory", desc->name);
    } else {
        memcpy(source, front, front_bytes);
        memcpy(source + front_bytes, desc->text, (size_t)desc->text_bytes);
        memcpy(options, desc->options, option_bytes);
        status = run_compiler(host, nvrtc, to, desc, source, options, out_image, out_bytes, err);
    }
    dhowi_cuda_delete(host, source);
    dhowi_cuda_delete(host, options);
    return status;
}

int32_t dhowi_cuda_compile(dhowi_cuda_device *device, const dhow_module_desc *desc,
                           void **out_image, uint64_t *out_bytes, dhow_error *err) {
    const dhow_host *host = device->host;
    compiler nvrtc;
    target to;
    char key[80];
    memset(&nvrtc, 0, sizeof nvrtc);
    *out_image = NULL;
    int32_t status = open_compiler(host, desc->name, &nvrtc, err);
    if (status == DHOW_OK) status = choose_target(device, &nvrtc, &to, err);
    if (status != DHOW_OK) return status;
    if (desc->format == DHOW_MODULE_CUDA_C) add_headers(host, &to);
    cache_key(desc, &to, key, sizeof key);
    if (host->cache_load(host->user, key, out_image, out_bytes) == DHOW_OK) return DHOW_OK;
    *out_image = NULL;
    status = compile(host, &nvrtc, &to, desc, out_image, out_bytes, err);
    if (status == DHOW_OK) /* a full disk is no failure */
        (void)host->cache_store(host->user, key, *out_image, *out_bytes);
    return status;
}
