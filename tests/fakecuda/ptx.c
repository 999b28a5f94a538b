/* SPDX-License-Identifier: Apache-2.0
 *
 * With ptx=1: the kernels' PTX, and launches of it by the interpreter of tests/ptx.
 */
#include "ptx.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "fake.h"

/* ---- texts ---- */

static char *read_text(const char *path) {
    FILE *file = fopen(path, "re");
    char *text = NULL;
    size_t used = 0, room = 0;
    if (file == NULL) return NULL;
    for (size_t got = 1; got > 0; used += got) {
        char *more = realloc(text, room += 1 << 20);
        if (more == NULL) break;
        text = more;
        got = fread(text + used, 1, room - used - 1, file);
    }
    (void)fclose(file);
    if (text != NULL) text[used] = '\0';
    return text;
}

cudaError_t fake_ptx_parse(fake_library *library, const char *text) {
    char why[256] = "";
    library->ptx = ptx_parse(text, why, sizeof why);
    if (library->ptx != NULL) return cudaSuccess;
    (void)fprintf(stderr, "fake CUDA: PTX is not understood: %s\n", why);
    return cudaErrorInvalidKernelImage;
}

cudaError_t fake_ptx_read(fake_library *library, const char *text) {
    char path[512];
    const size_t bits = 2; /* digits of "unary.f32.32" that say how wide indices are */
    const size_t head = strlen(text) - bits;
    (void)snprintf(path, sizeof path, FAKE_PTX_FOLDER "/%.*s%s.ptx", (int)head, text,
                   fake.settings.wide ? "64" : text + head);
    char *read = read_text(path);
    if (read == NULL) {
        (void)fprintf(stderr, "fake CUDA: ptx=1 and no %s: the build makes it with nvcc\n", path);
        return cudaErrorInvalidKernelImage;
    }
    const cudaError_t code = fake_ptx_parse(library, read);
    free(read);
    return code;
}

bool fake_ptx_find(fake_kernel *kernel) {
    if (fake.settings.plain_copies && strncmp(kernel->name, "copy_dims", 9) == 0) return true;
    kernel->ptx = ptx_find(kernel->library->ptx, kernel->name);
    return kernel->ptx != NULL && ptx_param_count(kernel->ptx) == kernel->param_count;
}

/* ---- launches ---- */

typedef struct job {
    const fake_kernel *kernel;
    unsigned blocks;
    uint32_t count; /* of memory */
    ptx_allocation memory[SIMDEV_MAX_RANGES];
    unsigned char params[FAKE_PARAM_BYTES];
} job;

/* What a GPU makes of a fault; what it does not notice is complained about. */
static int code_of(const ptx_finding *finding) {
    switch (finding->fault) {
        case PTX_OUT_OF_BOUNDS:
            (void)fprintf(stderr, "fake CUDA: %s\n", finding->text);
            return cudaErrorIllegalAddress;
        case PTX_MISALIGNED:
            (void)fprintf(stderr, "fake CUDA: %s\n", finding->text);
            return cudaErrorMisalignedAddress;
        default:
            fakecuda_complain("%s", finding->text);
            return cudaErrorLaunchFailure;
    }
}

static int32_t run(simdev_stream *stream, void *data, unsigned char *const *memory) {
    job *j = data;
    ptx_report report;
    const void *args[FAKE_MAX_PARAMS];
    (void)stream;
    for (uint32_t i = 0; i < j->count; i++) j->memory[i].host = memory[i];
    for (uint32_t i = 0; i < j->kernel->param_count; i++)
        args[i] = j->params + j->kernel->param_offset[i];
    const ptx_launch launch = {j->blocks,       256, args, j->memory, j->count, fake.settings.costs,
                               1000000000000ull /* the test's limit is time */};
    if (ptx_run(j->kernel->ptx, &launch, &report)) {
        if (fake.settings.costs)
            fakecuda_log("cost %s - %llu 0 %.0f", j->kernel->name,
                         report.moved[0] + report.moved[1], report.machine_instructions);
        return DHOW_OK;
    }
    int code = 0;
    for (size_t i = 0; i < report.count; i++) code = code_of(&report.findings[i]);
    return FAKE_STATUS + code;
}

/* One entry per block of memory, which may only be read where no argument writes it. */
static bool add_block(job *j, simdev_job *work, uint64_t address, uint32_t access) {
    union {
        uint64_t address;
        void *pointer;
    } base;
    simdev_place place;
    uint32_t i = 0;
    const bool writes = (access & DHOW_ACCESS_WRITE) != 0;
    if (!fake_find_block(address, &place)) return false;
    if (place.start == 0) return true;
    while (i < j->count && work->ranges[i].handle != place.start) i++;
    if (i == SIMDEV_MAX_RANGES) {
        fakecuda_complain("%s has arguments in more than %u blocks", j->kernel->name, i);
        return false;
    }
    if (i == j->count) {
        base.address = place.start;
        j->memory[j->count++] =
            (ptx_allocation){"the block", base.pointer, place.bytes, true, NULL};
        work->ranges[i] = (simdev_range){.handle = place.start, .bytes = place.bytes};
    }
    work->ranges[i].access |= access;
    if (writes) j->memory[i].read_only = false;
    work->range_count = j->count;
    return true;
}

cudaError_t fake_ptx_perform(fake_stream *stream, const fake_command *command) {
    dhow_error err = {.struct_size = sizeof err};
    const fake_kernel *kernel = command->function->kernel;
    job j = {.kernel = kernel, .blocks = command->blocks};
    simdev_job work = {.run = run, .data = &j, .data_bytes = sizeof j};
    uint32_t kind, bytes;
    memcpy(j.params, command->u.params, sizeof j.params);
    for (uint32_t i = 0; simdev_kernel_arg(command->function->native, i, &kind, &bytes); i++) {
        uint64_t address;
        if (kind != DHOW_ARG_BUFFER) continue;
        memcpy(&address, j.params + kernel->param_offset[i], sizeof address);
        if (!add_block(&j, &work, address, simdev_kernel_access(command->function->native, i)))
            return fake_perform_failure(stream, cudaErrorIllegalAddress);
    }
    return fake_code(stream->device, simdev_call(stream->native, &work, &err));
}
