/* SPDX-License-Identifier: Apache-2.0
 *
 * A fake NVRTC. Portable text is compiled by the C compiler of the machine, as the C form of the
 * dialect, and runs; CUDA C is only checked by the C++ compiler, and its kernels' names and
 * parameters are read out of it.
 */
#include <stdlib.h>
#include <string.h>

#include "fake_nvrtc.h"
#include "plugins/cuda/vendor_abi.h"

enum { OUT_OF_MEMORY = 1, INVALID_INPUT = 3, INVALID_PROGRAM = 4, INVALID_OPTION = 5 };

static fake_program *valid(nvrtc_program program) {
    return fakecuda_object_is(program, FAKECUDA_PROGRAM) ? program : NULL;
}

const char *nvrtcGetErrorString(int result);
const char *nvrtcGetErrorString(int result) {
    switch (result) {
        case 0:
            return "NVRTC_SUCCESS";
        case OUT_OF_MEMORY:
            return "NVRTC_ERROR_OUT_OF_MEMORY";
        case INVALID_INPUT:
            return "NVRTC_ERROR_INVALID_INPUT";
        case INVALID_PROGRAM:
            return "NVRTC_ERROR_INVALID_PROGRAM";
        case INVALID_OPTION:
            return "NVRTC_ERROR_INVALID_OPTION";
        case NVRTC_COMPILATION_FAILED:
            return "NVRTC_ERROR_COMPILATION";
        default:
            return "NVRTC_ERROR unknown";
    }
}

int nvrtcVersion(int *major, int *minor);
int nvrtcVersion(int *major, int *minor) {
    const int code = fakecuda_library_call("nvrtcVersion");
    *major = 13;
    *minor = 0;
    return code;
}

static const int k_archs[] = {75, 80, 86, 87, 88, 89, 90, 100, 103, 110, 120, 121};

int nvrtcGetNumSupportedArchs(int *count);
int nvrtcGetNumSupportedArchs(int *count) {
    *count = (int)(sizeof k_archs / sizeof k_archs[0]);
    return fakecuda_library_call("nvrtcGetNumSupportedArchs");
}

int nvrtcGetSupportedArchs(int *archs);
int nvrtcGetSupportedArchs(int *archs) {
    memcpy(archs, k_archs, sizeof k_archs);
    return fakecuda_library_call("nvrtcGetSupportedArchs");
}

int nvrtcCreateProgram(nvrtc_program *out, const char *text, const char *name, int header_count,
                       const char *const *headers, const char *const *header_names);
int nvrtcCreateProgram(nvrtc_program *out, const char *text, const char *name, int header_count,
                       const char *const *headers, const char *const *header_names) {
    const int code = fakecuda_library_call("nvrtcCreateProgram");
    if (code != 0) return code;
    if (fakecuda_setting("nonvrtc")) return 11; /* internal error */
    if (text == NULL || header_count < 0 || header_count > FAKE_MAX_HEADERS) return INVALID_INPUT;
    fake_program *program = fakecuda_object_new(FAKECUDA_PROGRAM, sizeof *program);
    if (program == NULL) return OUT_OF_MEMORY;
    program->text = strdup(text);
    program->name = strdup(name != NULL ? name : "default_program");
    for (int i = 0; i < header_count; i++) {
        program->headers[i] = strdup(headers[i]);
        program->header_names[i] = strdup(header_names[i]);
    }
    program->header_count = header_count;
    *out = program;
    return 0;
}

int nvrtcDestroyProgram(nvrtc_program *program);
int nvrtcDestroyProgram(nvrtc_program *handle) {
    const int code = fakecuda_library_call("nvrtcDestroyProgram");
    fake_program *program = valid(*handle);
    if (program == NULL) return INVALID_PROGRAM;
    for (int i = 0; i < program->header_count; i++) {
        free(program->headers[i]);
        free(program->header_names[i]);
    }
    free(program->text);
    free(program->name);
    free(program->log);
    free(program->image);
    fakecuda_object_delete(program);
    *handle = NULL;
    return code;
}

/* Takes "--gpu-architecture=sm_90" apart. */
static bool read_arch(fake_program *program, const char *value) {
    program->ptx = strncmp(value, "compute_", 8) == 0;
    if (!program->ptx && strncmp(value, "sm_", 3) != 0) return false;
    program->arch = (uint32_t)strtoul(value + (program->ptx ? 8 : 3), NULL, 10);
    for (size_t i = 0; i < sizeof k_archs / sizeof k_archs[0]; i++) {
        if (k_archs[i] == (int)program->arch) return true;
    }
    return false;
}

/* Keeps what the compilers here understand too. */
static bool take_option(fake_program *program, const char *option) {
    static const char *const dropped[] = {
        "--std=",  "-std=",     "--use_fast_math",      "-use_fast_math", "-default-device",
        "--fmad=", "-lineinfo", "--generate-line-info", "--maxrregcount="};
    const char *arch = strstr(option, "-gpu-architecture=");
    if (arch != NULL) return read_arch(program, strchr(arch, '=') + 1);
    if (strncmp(option, "-D", 2) == 0 || strncmp(option, "-U", 2) == 0 ||
        strncmp(option, "-I", 2) == 0) {
        if (program->option_count == FAKE_MAX_OPTIONS) return false;
        program->options[program->option_count++] = option;
        return true;
    }
    for (size_t i = 0; i < sizeof dropped / sizeof dropped[0]; i++) {
        if (strncmp(option, dropped[i], strlen(dropped[i])) == 0) return true;
    }
    return false;
}

int nvrtcCompileProgram(nvrtc_program handle, int option_count, const char *const *options);
int nvrtcCompileProgram(nvrtc_program handle, int option_count, const char *const *options) {
    const int code = fakecuda_library_call("nvrtcCompileProgram");
    fake_program *program = valid(handle);
    if (program == NULL) return INVALID_PROGRAM;
    if (code != 0) return code;
    program->arch = 75;
    program->ptx = true;
    for (int i = 0; i < option_count; i++) {
        if (take_option(program, options[i])) continue;
        const size_t bytes = strlen(options[i]) + 64;
        program->log = calloc(1, bytes);
        if (program->log != NULL)
            (void)snprintf(program->log, bytes, "nvrtc: error: unrecognized option %s", options[i]);
        return INVALID_OPTION;
    }
    return fake_compile(program) ? 0 : NVRTC_COMPILATION_FAILED;
}

/* ---- results ---- */

int nvrtcGetProgramLogSize(nvrtc_program program, size_t *out);
int nvrtcGetProgramLogSize(nvrtc_program handle, size_t *out) {
    const int code = fakecuda_library_call("nvrtcGetProgramLogSize");
    const fake_program *program = valid(handle);
    if (program == NULL) return INVALID_PROGRAM;
    *out = program->log != NULL ? strlen(program->log) + 1 : 1;
    return code;
}

int nvrtcGetProgramLog(nvrtc_program program, char *out);
int nvrtcGetProgramLog(nvrtc_program handle, char *out) {
    const int code = fakecuda_library_call("nvrtcGetProgramLog");
    const fake_program *program = valid(handle);
    if (program == NULL) return INVALID_PROGRAM;
    const char *log = program->log != NULL ? program->log : "";
    memcpy(out, log, strlen(log) + 1);
    return code;
}

static int image_size(const char *name, nvrtc_program handle, bool ptx, size_t *out) {
    const int code = fakecuda_library_call(name);
    const fake_program *program = valid(handle);
    if (program == NULL) return INVALID_PROGRAM;
    *out = program->image != NULL && program->ptx == ptx ? program->image_bytes : 0;
    return code != 0 ? code : *out == 0 ? INVALID_PROGRAM : 0;
}

static int image_bytes(const char *name, nvrtc_program handle, bool ptx, char *out) {
    const int code = fakecuda_library_call(name);
    const fake_program *program = valid(handle);
    if (program == NULL || program->image == NULL || program->ptx != ptx) return INVALID_PROGRAM;
    if (code == 0) memcpy(out, program->image, program->image_bytes);
    return code;
}

int nvrtcGetCUBINSize(nvrtc_program program, size_t *out);
int nvrtcGetCUBINSize(nvrtc_program program, size_t *out) {
    return image_size("nvrtcGetCUBINSize", program, false, out);
}
int nvrtcGetCUBIN(nvrtc_program program, char *out);
int nvrtcGetCUBIN(nvrtc_program program, char *out) {
    return image_bytes("nvrtcGetCUBIN", program, false, out);
}
int nvrtcGetPTXSize(nvrtc_program program, size_t *out);
int nvrtcGetPTXSize(nvrtc_program program, size_t *out) {
    return image_size("nvrtcGetPTXSize", program, true, out);
}
int nvrtcGetPTX(nvrtc_program program, char *out);
int nvrtcGetPTX(nvrtc_program program, char *out) {
    return image_bytes("nvrtcGetPTX", program, true, out);
}
