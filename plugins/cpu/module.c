/* SPDX-License-Identifier: Apache-2.0
 *
 * A user's kernel text through a C compiler found at run time. Text and messages travel through
 * memory files, the library through a private folder into the host's disk cache and from there
 * through a memory file into the process.
 */
#include <dlfcn.h>
#include <errno.h>
#include <fcntl.h>
#include <spawn.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include "cpu.h"

extern char **environ;

typedef struct cpu_module {
    cpu_device *device;
    void *library;
    int file; /* stays open: the loader knows libraries by name, and its name is this number */
    const dhow_ready_kernel *table; /* of kernels compiled with the program; then no library */
    size_t table_count;
    pthread_mutex_t lock;
    cpu_kernel_object *kernels;
} cpu_module;

enum { MAX_WORDS = 64, PATH_BYTES = 512 };

/* ---- the compiler
 * ------------------------------------------------------------------------------------------------
 */

static int is_program(const char *path, struct stat *out) {
    return stat(path, out) == 0 && S_ISREG(out->st_mode) && access(path, X_OK) == 0;
}

/* Looks a name up in PATH; a name with a slash is taken as it is. */
static int find_program(const char *search, const char *name, size_t length, char *out,
                        struct stat *info) {
    if (memchr(name, '/', length)) {
        (void)snprintf(out, PATH_BYTES, "%.*s", (int)length, name);
        return is_program(out, info);
    }
    for (const char *p = search; p && *p;) {
        const size_t part = strcspn(p, ":");
        const int written = snprintf(out, PATH_BYTES, "%.*s/%.*s", (int)part, p, (int)length, name);
        if (part > 0 && p[0] == '/' && written > 0 && written < PATH_BYTES && is_program(out, info))
            return 1;
        p += part + (p[part] == ':');
    }
    return 0;
}

/* $CC counts by its first word, so that "ccache gcc" or flags in it do no harm; `out_ignored` is
 * what it holds where that is no program. */
static int find_compiler(const dhow_host *host, char *out, struct stat *info,
                         const char **out_ignored) {
    static const char *const names[] = {"cc", "gcc", "clang"};
    const char *search = host->env(host->user, "PATH"), *wish = host->env(host->user, "CC");
    *out_ignored = NULL;
    if (!search) search = "/usr/local/bin:/usr/bin:/bin";
    if (wish && *wish) {
        if (find_program(search, wish, strcspn(wish, " \t"), out, info)) return 1;
        *out_ignored = wish;
    }
    for (size_t i = 0; i < sizeof names / sizeof names[0]; i++) {
        if (find_program(search, names[i], strlen(names[i]), out, info)) return 1;
    }
    return 0;
}

/* ---- files
 * -------------------------------------------------------------------------------------------------------
 */

static int write_all(int file, const void *data, uint64_t bytes) {
    const unsigned char *p = data;
    while (bytes > 0) {
        const ssize_t done = write(file, p, bytes);
        if (done < 0 && errno == EINTR) continue;
        if (done <= 0) return -1;
        p += done;
        bytes -= (uint64_t)done;
    }
    return 0;
}

/* NULL with errno; ENOMEM when there is no memory for it. */
static void *read_all(const dhow_host *host, const char *path, uint64_t *out_bytes) {
    struct stat info;
    void *blob = NULL;
    bool short_of_memory = false;
    const int file = open(path, O_RDONLY | O_CLOEXEC);
    if (file < 0) return NULL;
    if (fstat(file, &info) == 0 && info.st_size > 0) {
        const uint64_t size = (uint64_t)info.st_size;
        uint64_t done = 0;
        blob = host->alloc(host->user, size, 64);
        short_of_memory = !blob;
        while (blob && done < size) {
            const ssize_t got = read(file, (unsigned char *)blob + done, size - done);
            if (got < 0 && errno == EINTR) continue;
            if (got <= 0) break;
            done += (uint64_t)got;
        }
        if (blob && done < size) {
            host->free(host->user, blob);
            blob = NULL;
        }
        *out_bytes = size;
    }
    close(file);
    if (short_of_memory) errno = ENOMEM;
    return blob;
}

/* The text as the compiler sees it: header, then the user's lines under their own name, an include
 * of k.h blanked. */
static int text_file(const dhow_module_desc *desc) {
    static const char include[] = "#include \"dhow/kernel/k.h\"";
    char line[PATH_BYTES];
    const char *text = desc->text, *end = text + desc->text_bytes;
    const int file = memfd_create("dhow-kernel.c", MFD_CLOEXEC);
    if (file < 0) return -1;
    int failed = desc->header ? write_all(file, desc->header, strlen(desc->header)) : 0;
    (void)snprintf(line, sizeof line, "\n#line 1 \"%.200s\"\n", desc->name ? desc->name : "kernel");
    failed |= write_all(file, line, strlen(line));
    while (text < end && !failed) {
        const char *stop = memchr(text, '\n', (size_t)(end - text));
        const size_t length = stop ? (size_t)(stop - text) + 1 : (size_t)(end - text);
        const int skip =
            length >= sizeof include - 1 && memcmp(text, include, sizeof include - 1) == 0;
        failed |= skip ? write_all(file, "\n", 1) : write_all(file, text, length);
        text += length;
    }
    if (failed || lseek(file, 0, SEEK_SET) != 0) {
        close(file);
        return -1;
    }
    return file;
}

static void fill_log(const dhow_module_desc *desc, int messages) {
    if (!desc->log || desc->log_bytes == 0) return;
    const ssize_t got = pread(messages, desc->log, desc->log_bytes - 1, 0);
    desc->log[got > 0 ? got : 0] = '\0';
}

/* ---- cache key
 * ---------------------------------------------------------------------------------------------------
 */

typedef struct hash {
    uint64_t a, b;
} hash;

static void hash_bytes(hash *h, const void *data, uint64_t bytes) {
    const unsigned char *p = data;
    for (uint64_t i = 0; i < bytes; i++) {
        h->a = (h->a ^ p[i]) * UINT64_C(1099511628211);
        h->b = (h->b ^ p[i]) * UINT64_C(0x9E3779B97F4A7C15) + 1;
    }
}

/* A compiler is known by its file: size and time of change differ between versions, and asking it
 * costs a process. */
static void cache_key(char *key, size_t bytes, const cpu_device *device,
                      const dhow_module_desc *desc, const char *compiler, const struct stat *info) {
    hash h = {UINT64_C(14695981039346656037), UINT64_C(0x2545F4914F6CDD1D)};
    const int64_t identity[] = {(int64_t)info->st_size, (int64_t)info->st_mtime, device->isa};
    if (desc->header) hash_bytes(&h, desc->header, strlen(desc->header) + 1);
    hash_bytes(&h, desc->text, desc->text_bytes);
    hash_bytes(&h, desc->options, strlen(desc->options) + 1);
    hash_bytes(&h, compiler, strlen(compiler) + 1);
    hash_bytes(&h, identity, sizeof identity);
    (void)snprintf(key, bytes, "cpu-%016llx%016llx", (unsigned long long)h.a,
                   (unsigned long long)h.b);
}

/* ---- compiling
 * ---------------------------------------------------------------------------------------------------
 */

/* Splits options at blanks into words of `copy`. */
static int split_words(char *copy, char **words, int count) {
    char *rest = NULL;
    for (char *word = strtok_r(copy, " \t", &rest); word; word = strtok_r(NULL, " \t", &rest)) {
        if (count >= MAX_WORDS - 8) return -1;
        words[count++] = word;
    }
    return count;
}

enum { UNKNOWN_RESULT = -2 }; /* of a compiler that ran; -1 for one that could not be run */

/* The compiler's exit status. A host that ignores SIGCHLD, or waits for all children itself, leaves
 * nothing to wait for; then the file that the compiler should write tells. */
static int spawn(const char *compiler, char **words, int text, int messages) {
    posix_spawn_file_actions_t actions;
    pid_t child = 0;
    int state = 0, result = -1;
    if (posix_spawn_file_actions_init(&actions) != 0) return -1;
    if (posix_spawn_file_actions_adddup2(&actions, text, 0) == 0 &&
        posix_spawn_file_actions_adddup2(&actions, messages, 1) == 0 &&
        posix_spawn_file_actions_adddup2(&actions, messages, 2) == 0 &&
        posix_spawn(&child, compiler, &actions, NULL, words, environ) == 0) {
        pid_t done;
        do {
            done = waitpid(child, &state, 0);
        } while (done < 0 && errno == EINTR);
        if (done != child) {
            result = errno == ECHILD ? UNKNOWN_RESULT : -1;
        } else if (WIFEXITED(state)) {
            result = WEXITSTATUS(state);
        }
    }
    (void)posix_spawn_file_actions_destroy(&actions);
    return result;
}

/* The first line of the log that tells of an error. */
static int first_error(const dhow_module_desc *desc, const char **out) {
    const char *line = desc->log ? strstr(desc->log, "error") : NULL;
    *out = "no message";
    if (!line) return (int)strlen(*out);
    while (line > desc->log && line[-1] != '\n') line--;
    *out = line;
    return (int)strcspn(line, "\n");
}

static int32_t compile(cpu_device *device, const dhow_module_desc *desc, const char *compiler,
                       const char *target, dhow_error *err) {
    static const char *const fixed[] = {"-x",
                                        "c",
                                        "-std=c11",
                                        "-O3",
                                        "-fPIC",
                                        "-shared",
                                        "-fopenmp-simd",
                                        "-fno-math-errno",
                                        "-fno-trapping-math",
                                        "-ffp-contract=fast",
                                        "-fwrapv"};
    const dhow_host *host = device->backend->host;
    char *words[MAX_WORDS], march[40], *options = NULL;
    int count = 0, text = -1, messages = -1;
    int32_t status = DHOW_OK;
    union {
        const char *from;
        char *to;
    } word = {.from = compiler}; /* posix_spawn does not write to its words */
    words[count++] = word.to;
    for (size_t i = 0; i < sizeof fixed / sizeof fixed[0]; i++) {
        word.from = fixed[i];
        words[count++] = word.to;
    }
#if defined(__x86_64__)
    (void)snprintf(march, sizeof march, "-march=%s", cpu_isa_name(device->isa));
    words[count++] = march;
    if (device->isa == CPU_ISA_V4) {
        word.from = "-mprefer-vector-width=512";
        words[count++] = word.to;
    }
#else
    (void)march;
#endif
    const size_t length = strlen(desc->options) + 1;
    options = host->alloc(host->user, length, 64);
    if (!options) return cpu_fail(err, DHOW_OUT_OF_MEMORY, 0, "cannot allocate compiler options");
    memcpy(options, desc->options, length);
    count = split_words(options, words, count);
    if (count < 0) {
        status =
            cpu_fail(err, DHOW_INVALID_ARGUMENT, 0, "too many compiler options for %s", desc->name);
        goto cleanup;
    }
    static const char *const tail[] = {"-o", NULL, "-", "-lm"};
    for (size_t i = 0; i < sizeof tail / sizeof tail[0]; i++) {
        word.from = tail[i] ? tail[i] : target;
        words[count++] = word.to;
    }
    words[count] = NULL;
    text = text_file(desc);
    messages = memfd_create("dhow-messages", MFD_CLOEXEC);
    if (text < 0 || messages < 0) {
        status =
            cpu_fail(err, DHOW_IO_ERROR, errno, "cannot make a memory file: %s", strerror(errno));
        goto cleanup;
    }
    int result = spawn(compiler, words, text, messages);
    if (result == UNKNOWN_RESULT) result = access(target, R_OK) == 0 ? 0 : 1;
    fill_log(desc, messages);
    if (result != 0) {
        const char *line;
        const int shown = first_error(desc, &line);
        status = result < 0
                     ? cpu_fail(err, DHOW_COMPILE_ERROR, result, "%s could not be run", compiler)
                     : cpu_fail(err, DHOW_COMPILE_ERROR, result,
                                "%.*s (by %s; dhow_module_log() has the rest)",
                                shown > 240 ? 240 : shown, line, compiler);
    }
cleanup:
    if (text >= 0) close(text);
    if (messages >= 0) close(messages);
    host->free(host->user, options);
    return status;
}

/* A private folder; the caller removes it. `folder` has PATH_BYTES. */
static int32_t make_folder(const dhow_host *host, char *folder, dhow_error *err) {
    const char *wish = host->env(host->user, "TMPDIR");
    const int named = wish && wish[0] == '/';
    (void)snprintf(folder, PATH_BYTES, "%s/dhow-XXXXXX", named ? wish : "/tmp");
    if (mkdtemp(folder)) return DHOW_OK;
    const int code = errno;
    return cpu_fail(err, DHOW_IO_ERROR, code,
                    "building a kernel for the CPU needs a folder for the compiler, and none can "
                    "be made in %s: %s; set TMPDIR to a folder that can be written to",
                    named ? wish : "/tmp (TMPDIR names no other)", strerror(code));
}

static int32_t compile_to_blob(cpu_device *device, const dhow_module_desc *desc,
                               const char *compiler, void **out_blob, uint64_t *out_bytes,
                               dhow_error *err) {
    const dhow_host *host = device->backend->host;
    char folder[PATH_BYTES], target[PATH_BYTES + 16];
    const int32_t made = make_folder(host, folder, err);
    if (made != DHOW_OK) return made;
    (void)snprintf(target, sizeof target, "%s/kernel.so", folder);
    int32_t status = compile(device, desc, compiler, target, err);
    if (status == DHOW_OK) {
        *out_blob = read_all(host, target, out_bytes);
        if (!*out_blob && errno == ENOMEM) {
            status = cpu_fail(err, DHOW_OUT_OF_MEMORY, 0, "cannot allocate room for a kernel");
        } else if (!*out_blob) {
            status = cpu_fail(err, DHOW_IO_ERROR, errno, "%s wrote no %s", compiler, target);
        }
    }
    (void)unlink(target);
    (void)rmdir(folder);
    return status;
}

static int32_t not_loaded(dhow_error *err) {
    const char *text = dlerror();
    return cpu_fail(err, DHOW_COMPILE_ERROR, 0, "the compiled kernel does not load: %s",
                    text ? text : "no reason");
}

/* Where /proc is not mounted, memory files have no names: the library goes through a folder. */
static int32_t load_by_file(cpu_module *module, const void *blob, uint64_t bytes, dhow_error *err) {
    const dhow_host *host = module->device->backend->host;
    char folder[PATH_BYTES], path[PATH_BYTES + 16];
    int32_t status = make_folder(host, folder, err);
    if (status != DHOW_OK) return status;
    (void)snprintf(path, sizeof path, "%s/kernel.so", folder);
    const int file = open(path, O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0600);
    if (file < 0 || write_all(file, blob, bytes) != 0) {
        status = cpu_fail(err, DHOW_IO_ERROR, errno, "cannot write %s: %s", path, strerror(errno));
    }
    if (file >= 0) close(file);
    if (status == DHOW_OK) {
        module->library = dlopen(path, RTLD_NOW | RTLD_LOCAL);
        if (!module->library) status = not_loaded(err);
    }
    (void)unlink(path);
    (void)rmdir(folder);
    return status;
}

static int32_t load_blob(cpu_module *module, const void *blob, uint64_t bytes, dhow_error *err) {
    char path[64];
    module->file = memfd_create("dhow-module", MFD_CLOEXEC);
    if (module->file < 0 || write_all(module->file, blob, bytes) != 0) {
        return cpu_fail(err, DHOW_IO_ERROR, errno, "cannot make a memory file: %s",
                        strerror(errno));
    }
    (void)snprintf(path, sizeof path, "/proc/self/fd/%d", module->file);
    if (access(path, F_OK) != 0) return load_by_file(module, blob, bytes, err);
    module->library = dlopen(path, RTLD_NOW | RTLD_LOCAL);
    return module->library ? DHOW_OK : not_loaded(err);
}

/* ---- kernels compiled with the program
 * ------------------------------------------------------------------------------------------------
 */

static const dhow_ready_kernel *find_ready(const dhow_ready_kernel *table, size_t count,
                                           const char *name) {
    for (size_t i = 0; i < count; i++)
        if (strcmp(table[i].name, name) == 0) return &table[i];
    return NULL;
}

/* Takes the table that holds every kernel of the text. */
static bool use_ready(cpu_module *module, const dhow_module_desc *desc) {
    if (desc->struct_size < offsetof(dhow_module_desc, flags)) return false; /* no images then */
    for (uint64_t i = 0; i < desc->image_count; i++) {
        const dhow_module_image *image = &desc->images[i];
        const dhow_ready_kernel *table = image->data;
        const size_t count = (size_t)(image->bytes / sizeof *table);
        uint32_t found = 0;
        if (image->kind != DHOW_IMAGE_CPU) continue;
        while (found < desc->kernel_count &&
               find_ready(table, count, desc->kernels[found].name) != NULL)
            found++;
        if (found < desc->kernel_count) continue;
        module->table = table;
        module->table_count = count;
        return true;
    }
    return false;
}

static int32_t compile_or_load(cpu_module *module, const dhow_module_desc *desc, dhow_error *err) {
    cpu_device *device = module->device;
    const dhow_host *host = device->backend->host;
    char compiler[PATH_BYTES], key[64];
    const char *ignored;
    struct stat info;
    void *blob = NULL;
    uint64_t bytes = 0;
    int32_t status = DHOW_OK;
    if (!find_compiler(host, compiler, &info, &ignored)) {
        return cpu_fail(err, DHOW_UNSUPPORTED, 0,
                        "building a kernel for the CPU needs a C compiler and there is none in "
                        "PATH; install gcc or "
                        "clang, or set CC");
    }
    cache_key(key, sizeof key, device, desc, compiler, &info);
    /* A cached library that does not load is compiled anew. */
    if (host->cache_load(host->user, key, &blob, &bytes) != DHOW_OK ||
        load_blob(module, blob, bytes, err) != DHOW_OK) {
        if (blob) host->free(host->user, blob);
        if (module->file >= 0) close(module->file);
        module->file = -1;
        blob = NULL;
        if (ignored) {
            char line[PATH_BYTES + 200];
            (void)snprintf(line, sizeof line,
                           "CC is '%.100s', which is no program; %s compiles kernels for the CPU",
                           ignored, compiler);
            host->log(host->user, DHOW_LOG_WARN, line);
        }
        status = compile_to_blob(device, desc, compiler, &blob, &bytes, err);
        if (status == DHOW_OK) status = load_blob(module, blob, bytes, err);
        if (status == DHOW_OK)
            (void)host->cache_store(host->user, key, blob, bytes); /* a full disk is no failure */
    }
    if (blob) host->free(host->user, blob);
    return status;
}

int32_t cpu_module_build(void *handle, const dhow_module_desc *desc, void **out_module,
                         dhow_error *err) {
    static const char *const formats[] = {"unknown text", "portable text", "CUDA C",
                                          "OpenCL C",     "PTX",           "a cubin"};
    cpu_device *device = handle;
    const dhow_host *host = device->backend->host;
    int32_t status = DHOW_OK;
    *out_module = NULL;
    if (desc->format != DHOW_MODULE_PORTABLE) {
        return cpu_fail(err, DHOW_UNSUPPORTED, 0, "the CPU builds portable kernels only, not %s",
                        formats[desc->format <= DHOW_MODULE_CUBIN ? desc->format : 0]);
    }
    cpu_module *module = host->alloc(host->user, sizeof *module, 64);
    if (!module) return cpu_fail(err, DHOW_OUT_OF_MEMORY, 0, "cannot allocate a module");
    memset(module, 0, sizeof *module);
    module->device = device;
    module->file = -1;
    (void)pthread_mutex_init(&module->lock, NULL);
    if (!use_ready(module, desc)) status = compile_or_load(module, desc, err);
    void *unused = NULL;
    for (uint32_t i = 0; i < desc->kernel_count && status == DHOW_OK; i++) {
        status = cpu_module_kernel(module, desc->kernels[i].name, &unused, err);
    }
    if (status != DHOW_OK) {
        cpu_module_free(module);
        return status;
    }
    *out_module = module;
    return DHOW_OK;
}

void cpu_module_free(void *handle) {
    cpu_module *module = handle;
    if (!module) return;
    const dhow_host *host = module->device->backend->host;
    while (module->kernels) {
        cpu_kernel_object *next = module->kernels->next;
        host->free(host->user, module->kernels);
        module->kernels = next;
    }
    if (module->library) (void)dlclose(module->library);
    if (module->file >= 0) close(module->file);
    (void)pthread_mutex_destroy(&module->lock);
    host->free(host->user, module);
}

int32_t cpu_module_kernel(void *handle, const char *name, void **out_kernel, dhow_error *err) {
    cpu_module *module = handle;
    const dhow_host *host = module->device->backend->host;
    char symbol[256];
    int32_t status = DHOW_OK;
    *out_kernel = NULL;
    const k_info *info = NULL;
    if (module->table) {
        const dhow_ready_kernel *ready = find_ready(module->table, module->table_count, name);
        if (ready) info = ready->forms[module->device->isa];
    } else {
        (void)snprintf(symbol, sizeof symbol, "%s__base", name);
        info = dlsym(module->library, symbol);
    }
    if (!info) return cpu_fail(err, DHOW_NOT_FOUND, 0, "the module has no kernel %s", name);
    (void)pthread_mutex_lock(&module->lock);
    cpu_kernel_object *kernel = module->kernels;
    while (kernel && kernel->info != info) kernel = kernel->next;
    if (!kernel) {
        kernel = host->alloc(host->user, sizeof *kernel, 64);
        status = kernel ? cpu_kernel_init(kernel, info, NULL, err)
                        : cpu_fail(err, DHOW_OUT_OF_MEMORY, 0, "cannot allocate kernel %s", name);
        if (status == DHOW_OK) {
            kernel->next = module->kernels;
            module->kernels = kernel;
        } else if (kernel) {
            host->free(host->user, kernel);
            kernel = NULL;
        }
    }
    (void)pthread_mutex_unlock(&module->lock);
    *out_kernel = kernel;
    return status;
}
