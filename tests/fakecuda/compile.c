/* SPDX-License-Identifier: Apache-2.0
 *
 * Runs the compilers behind the fake NVRTC.
 */
#include <errno.h>
#include <fcntl.h>
#include <spawn.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include "fake.h"
#include "fake_nvrtc.h"

extern char **environ;

enum { MAX_ARGS = 64 };

/* A folder with source, result and messages. */
typedef struct workspace {
    char folder[64], source[96], result[96], ptx[96], messages[96];
} workspace;

static bool make_workspace(workspace *w, const char *suffix) {
    (void)snprintf(w->folder, sizeof w->folder, "/tmp/fakecuda-XXXXXX");
    if (mkdtemp(w->folder) == NULL) return false;
    (void)snprintf(w->source, sizeof w->source, "%s/source%s", w->folder, suffix);
    (void)snprintf(w->result, sizeof w->result, "%s/result.so", w->folder);
    (void)snprintf(w->ptx, sizeof w->ptx, "%s/result.ptx", w->folder);
    (void)snprintf(w->messages, sizeof w->messages, "%s/messages", w->folder);
    return true;
}

static bool write_text(const char *path, const char *first, const char *second) {
    FILE *file = fopen(path, "we");
    if (file == NULL) return false;
    const bool done = fputs(first, file) >= 0 && fputs(second, file) >= 0;
    return fclose(file) == 0 && done;
}

/* Headers lie under the folder by the names they are included by. `write` false removes them. */
static bool place_headers(const fake_program *program, const workspace *w, bool write) {
    bool done = true;
    for (int i = 0; i < program->header_count && done; i++) {
        char path[512];
        const int used = snprintf(path, sizeof path, "%s/%s", w->folder, program->header_names[i]);
        if (used < 0 || (size_t)used >= sizeof path) return false;
        char *start = path + strlen(w->folder) + 1;
        for (char *slash = start; write && (slash = strchr(slash, '/')) != NULL; slash++) {
            *slash = '\0';
            (void)mkdir(path, 0700);
            *slash = '/';
        }
        if (write) {
            done = write_text(path, program->headers[i], "");
            continue;
        }
        (void)unlink(path);
        for (char *slash; (slash = strrchr(start, '/')) != NULL;) {
            *slash = '\0';
            (void)rmdir(path);
        }
    }
    return done;
}

static void remove_workspace(const fake_program *program, const workspace *w) {
    (void)place_headers(program, w, false);
    (void)unlink(w->source);
    (void)unlink(w->result);
    (void)unlink(w->ptx);
    (void)unlink(w->messages);
    (void)rmdir(w->folder);
}

/* The whole file behind `head` zero bytes, terminated. */
static unsigned char *read_file(const char *path, size_t head, size_t *out_bytes) {
    struct stat info;
    FILE *file = fopen(path, "re");
    unsigned char *bytes = NULL;
    if (file == NULL) return NULL;
    if (fstat(fileno(file), &info) == 0) bytes = calloc(1, head + (size_t)info.st_size + 1);
    if (bytes != NULL) *out_bytes = head + fread(bytes + head, 1, (size_t)info.st_size, file);
    (void)fclose(file);
    return bytes;
}

/* The exit status, or -1. What it says goes to the file of messages. */
static int run(const workspace *w, char **args) {
    posix_spawn_file_actions_t actions;
    pid_t child;
    int status = -1;
    (void)posix_spawn_file_actions_init(&actions);
    (void)posix_spawn_file_actions_addopen(&actions, 2, w->messages, O_WRONLY | O_CREAT | O_TRUNC,
                                           0600);
    const int failed = posix_spawnp(&child, args[0], &actions, NULL, args, environ);
    (void)posix_spawn_file_actions_destroy(&actions);
    if (failed != 0) return -1;
    while (waitpid(child, &status, 0) < 0 && errno == EINTR) continue;
    return WIFEXITED(status) ? WEXITSTATUS(status) : -1;
}

static void take_log(fake_program *program, const workspace *w) {
    size_t bytes = 0;
    program->log = (char *)read_file(w->messages, 0, &bytes);
}

static void fill_head(fake_program *program, bool module, size_t ptx_bytes) {
    fake_cubin head = {.magic = {0x7f, 'E', 'L', 'F'}, .mark = FAKE_CUBIN_MARK};
    head.arch = program->arch;
    head.module = module ? 1 : 0;
    head.bytes = program->image_bytes - sizeof head - ptx_bytes;
    head.ptx_bytes = ptx_bytes;
    memcpy(program->image, &head, sizeof head);
}

static int add_options(const fake_program *program, char **args, int count) {
    for (int i = 0; i < program->option_count; i++)
        args[count++] = (char *)(uintptr_t)program->options[i];
    return count;
}

/* ---- portable text: compiled as C, and to PTX ---- */

/* Appends what nvcc makes of the source, terminated. */
static bool append_ptx(fake_program *program, const workspace *w, size_t *out_bytes) {
    static const char *const fixed[] = {FAKE_NVCC,          "-x",         "cu", "--ptx",
                                        "-arch=compute_90", "-std=c++17", "-w", "-o"};
    char *args[MAX_ARGS];
    int count = 0;
    for (size_t i = 0; i < sizeof fixed / sizeof fixed[0]; i++)
        args[count++] = (char *)(uintptr_t)fixed[i];
    args[count++] = (char *)(uintptr_t)w->ptx;
    args[count++] = (char *)(uintptr_t) "-I";
    args[count++] = (char *)(uintptr_t)w->folder;
    count = add_options(program, args, count);
    args[count++] = (char *)(uintptr_t)w->source;
    args[count] = NULL;
    if (run(w, args) != 0) return false;
    unsigned char *text = read_file(w->ptx, 0, out_bytes);
    if (text == NULL) return false;
    void *more = realloc(program->image, program->image_bytes + *out_bytes + 1);
    if (more != NULL) {
        program->image = more;
        *out_bytes += 1;
        memcpy((char *)more + program->image_bytes, text, *out_bytes);
        program->image_bytes += *out_bytes;
    }
    free(text);
    return more != NULL;
}

static bool compile_portable(fake_program *program) {
    static const char *const fixed[] = {
        "cc",    "-x",      "c",       "-std=c11",        "-O1",           "-w",
        "-fPIC", "-shared", "-fwrapv", "-fno-math-errno", "-fopenmp-simd", "-o"};
    workspace w;
    char *args[MAX_ARGS];
    int count = 0;
    size_t ptx_bytes = 0;
    if (!make_workspace(&w, ".c")) return false;
    for (size_t i = 0; i < sizeof fixed / sizeof fixed[0]; i++)
        args[count++] = (char *)(uintptr_t)fixed[i];
    args[count++] = w.result;
    args[count++] = (char *)(uintptr_t) "-I";
    args[count++] = w.folder;
    count = add_options(program, args, count);
    args[count++] = w.source;
    args[count++] = (char *)(uintptr_t) "-lm";
    args[count] = NULL;
    bool done = place_headers(program, &w, true) && write_text(w.source, program->text, "\n") &&
                run(&w, args) == 0;
    if (done) program->image = read_file(w.result, sizeof(fake_cubin), &program->image_bytes);
    done = program->image != NULL;
    if (done && fakecuda_setting("ptx")) done = append_ptx(program, &w, &ptx_bytes);
    take_log(program, &w);
    remove_workspace(program, &w);
    if (done) fill_head(program, true, ptx_bytes);
    return done;
}

/* ---- CUDA C: checked as C++, and read ---- */

static const char k_prelude[] =
    "#define __global__\n#define __device__\n#define __host__\n#define __constant__ static\n"
    "#define __shared__ static\n#define __forceinline__ inline\n#define __restrict__ __restrict\n"
    "#define __launch_bounds__(...)\n#define __CUDACC__ 1\n#define __CUDACC_RTC__ 1\n"
    "struct uint3 { unsigned x, y, z; };\n"
    "static const uint3 threadIdx = {0,0,0}, blockIdx = {0,0,0};\n"
    "static const uint3 blockDim = {1,1,1}, gridDim = {1,1,1};\n"
    "static const int warpSize = 32;\n"
    "static inline void __syncthreads() {}\nstatic inline void __syncwarp(unsigned = ~0u) {}\n"
    "template <class T> static inline T atomicAdd(T *p, T v) { T o = *p; *p = o + v; return o; }\n"
    "template <class T> static inline T __shfl_down_sync(unsigned, T v, int) { return v; }\n"
    "template <class T> static inline T __shfl_xor_sync(unsigned, T v, int) { return v; }\n"
    "extern \"C\" { float expf(float) noexcept; float sqrtf(float) noexcept;"
    " float fmaxf(float, float) noexcept; float fminf(float, float) noexcept;"
    " float tanhf(float) noexcept; float logf(float) noexcept; float fabsf(float) noexcept;"
    " float erff(float) noexcept; double exp(double) noexcept; double sqrt(double) noexcept; }\n"
    "#line 1\n";

static unsigned type_bytes(const char *text, size_t length) {
    static const struct {
        const char *name;
        unsigned bytes;
    } types[] = {{"double", 8}, {"float", 4}, {"long", 8}, {"size_t", 8},  {"short", 2},
                 {"char", 1},   {"bool", 1},  {"int", 4},  {"unsigned", 4}};
    if (memchr(text, '*', length) != NULL) return 8;
    for (size_t i = 0; i < sizeof types / sizeof types[0]; i++) {
        if (memmem(text, length, types[i].name, strlen(types[i].name)) != NULL)
            return types[i].bytes;
    }
    return 0;
}

/* Whether `extern "C"` stands before this word in its declaration. */
static bool is_extern_c(const char *text, const char *word) {
    const char *from = word;
    while (from > text && strchr(";}", from[-1]) == NULL) from--;
    return memmem(from, (size_t)(word - from), "extern \"C\"", 10) != NULL;
}

/* The line of one kernel, of the text behind `__global__`. */
static void write_kernel(FILE *out, const char *p) {
    const char *open = strchr(p, '(');
    if (strncmp(p + strcspn(p, "_v"), "__launch_bounds__", 17) == 0 && open != NULL)
        open = strchr(open + 1, '(');
    if (open == NULL) return;
    const char *name = open;
    while (name > p && strchr(" \t\n*", name[-1]) == NULL) name--;
    (void)fprintf(out, "%.*s ", (int)(open - name), name);
    const char *close = strchr(open, ')');
    const char *separator = "";
    for (const char *at = open + 1; close != NULL && at < close;) {
        const size_t length = strcspn(at, ",)");
        const unsigned bytes = type_bytes(at, length);
        if (bytes != 0) (void)fprintf(out, "%s%u", separator, bytes);
        separator = ",";
        at += length + 1;
    }
    (void)fprintf(out, "\n");
}

static bool list_kernels(fake_program *program) {
    static const char word[] = "__global__";
    char *lines = NULL;
    size_t bytes = 0;
    FILE *out = open_memstream(&lines, &bytes);
    if (out == NULL) return false;
    for (const char *p = program->text; (p = strstr(p, word)) != NULL; p += sizeof word - 1) {
        if (is_extern_c(program->text, p)) write_kernel(out, p + sizeof word - 1);
    }
    (void)fclose(out);
    program->image_bytes = sizeof(fake_cubin) + bytes;
    program->image = calloc(1, program->image_bytes + 1);
    if (program->image != NULL) {
        memcpy((char *)program->image + sizeof(fake_cubin), lines, bytes);
        fill_head(program, false, 0);
    }
    free(lines);
    return program->image != NULL;
}

static bool compile_native(fake_program *program) {
    static const char *const fixed[] = {"c++",       "-x", "c++",          "-std=c++17",
                                        "-nostdinc", "-w", "-fsyntax-only"};
    workspace w;
    char *args[MAX_ARGS];
    int count = 0;
    if (!make_workspace(&w, ".cpp")) return false;
    for (size_t i = 0; i < sizeof fixed / sizeof fixed[0]; i++)
        args[count++] = (char *)(uintptr_t)fixed[i];
    args[count++] = (char *)(uintptr_t) "-I";
    args[count++] = w.folder;
    count = add_options(program, args, count);
    args[count++] = w.source;
    args[count] = NULL;
    const bool done = place_headers(program, &w, true) &&
                      write_text(w.source, k_prelude, program->text) && run(&w, args) == 0;
    take_log(program, &w);
    remove_workspace(program, &w);
    return done && list_kernels(program);
}

bool fake_compile(fake_program *program) {
    bool portable = strstr(program->text, "DHOW_KERNEL_K_H_") != NULL;
    for (int i = 0; i < program->header_count; i++)
        portable |= strstr(program->headers[i], "DHOW_KERNEL_K_H_") != NULL;
    return portable ? compile_portable(program) : compile_native(program);
}
