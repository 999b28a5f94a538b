/* SPDX-License-Identifier: Apache-2.0
 *
 * Reads what it can of kernels that nobody here runs: names and sizes of parameters, from PTX, from
 * real cubins and from what the fake compiler found in CUDA C.
 */
#include <elf.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "fake.h"

static bool add_param(fake_kernel *kernel, unsigned long bytes) {
    if (kernel->param_count == FAKE_MAX_PARAMS || bytes == 0 || bytes > FAKE_PARAM_BYTES)
        return false;
    kernel->param_bytes[kernel->param_count++] = (uint16_t)bytes;
    return true;
}

/* ---- "name 8,8,4\n" ---- */

cudaError_t fake_read_lines(fake_library *library, const char *lines, size_t bytes) {
    for (const char *p = lines, *end = lines + bytes; p < end;) {
        const char *space = memchr(p, ' ', (size_t)(end - p));
        const char *stop = memchr(p, '\n', (size_t)(end - p));
        if (space == NULL || stop == NULL || space > stop) return cudaErrorInvalidKernelImage;
        fake_kernel *kernel = fake_kernel_add(library, p, (size_t)(space - p));
        if (kernel == NULL) return cudaErrorMemoryAllocation;
        for (const char *number = space + 1; number < stop;) {
            char *after = NULL;
            if (!add_param(kernel, strtoul(number, &after, 10))) return cudaErrorInvalidKernelImage;
            number = after + 1;
        }
        fake_kernel_layout(kernel);
        p = stop + 1;
    }
    return cudaSuccess;
}

/* ---- PTX ---- */

/* Bytes of ".u64", ".f32", ".b8" and the like. */
static unsigned long ptx_type_bytes(const char *type) {
    return strspn(type, ".bufsp") >= 2 ? strtoul(type + 2, NULL, 10) / 8 : 0;
}

/* ".param .align 8 .b8 name[288], .param .u64 other)" */
static bool read_ptx_params(fake_kernel *kernel, const char *open) {
    const char *close = strchr(open, ')');
    const char *p = open;
    while (close != NULL && (p = strstr(p, ".param")) != NULL && p < close) {
        const char *comma = p + strcspn(p, ",)");
        const char *type = p + 6, *bracket = memchr(p, '[', (size_t)(comma - p));
        unsigned long count = 1;
        type += strspn(type, " \t");
        if (strncmp(type, ".align", 6) == 0) {
            type += 6;
            type += strspn(type, " \t0123456789");
        }
        if (bracket != NULL) count = strtoul(bracket + 1, NULL, 10);
        if (!add_param(kernel, ptx_type_bytes(type) * count)) return false;
        p = comma;
    }
    fake_kernel_layout(kernel);
    return close != NULL;
}

static bool is_balanced(const char *text) {
    long depth = 0;
    for (; *text != '\0' && depth >= 0; text++) depth += *text == '{' ? 1 : *text == '}' ? -1 : 0;
    return depth == 0;
}

cudaError_t fake_read_ptx(fake_library *library, const char *text) {
    const char *version = strstr(text, ".version"), *target = strstr(text, ".target");
    int major = 0, minor = 0, arch = 0;
    if (version == NULL && target == NULL) return cudaErrorInvalidKernelImage;
    if (version == NULL || sscanf(version, ".version %d.%d", &major, &minor) != 2 ||
        target == NULL || sscanf(target, ".target sm_%d", &arch) != 1 || !is_balanced(text))
        return cudaErrorInvalidPtx;
    /* PTX 9.0 came with CUDA 13.0, 8.0 with 12.0. */
    if (1000 * (major + 4) + 10 * minor > fake.settings.driver)
        return cudaErrorUnsupportedPtxVersion;
    if (arch > fake.settings.cc) return cudaErrorNoKernelImageForDevice;
    for (const char *p = text; (p = strstr(p, ".entry")) != NULL;) {
        p += 6;
        p += strspn(p, " \t\n");
        const size_t length = strcspn(p, " \t\n(");
        const char *open = strchr(p, '(');
        fake_kernel *kernel = fake_kernel_add(library, p, length);
        if (kernel == NULL) return cudaErrorMemoryAllocation;
        if (open == NULL || !read_ptx_params(kernel, open)) return cudaErrorInvalidPtx;
    }
    return cudaSuccess;
}

/* ---- cubins ---- */

enum { EIFMT_SIZED = 4, EIATTR_KPARAM_INFO = 0x17 };

/* Sizes of parameters out of a section .nv.info.<kernel>. */
static bool read_info(fake_kernel *kernel, const unsigned char *p, const unsigned char *end) {
    while (p + 4 <= end) {
        const unsigned bytes = p[2] | (unsigned)p[3] << 8;
        if (p[0] != EIFMT_SIZED) {
            p += 4;
            continue;
        }
        if (p[1] == EIATTR_KPARAM_INFO && bytes == 12) {
            uint16_t ordinal;
            uint32_t packed;
            memcpy(&ordinal, p + 8, sizeof ordinal);
            memcpy(&packed, p + 12, sizeof packed);
            if (ordinal >= FAKE_MAX_PARAMS) return false;
            kernel->param_bytes[ordinal] = (uint16_t)(packed >> 18);
            if (ordinal >= kernel->param_count) kernel->param_count = ordinal + 1u;
        }
        p += 4 + bytes;
    }
    fake_kernel_layout(kernel);
    return true;
}

cudaError_t fake_read_elf(fake_library *library, const unsigned char *image) {
    static const char prefix[] = ".nv.info.";
    Elf64_Ehdr head;
    Elf64_Shdr names, section;
    memcpy(&head, image, sizeof head);
    if (head.e_ident[EI_CLASS] != ELFCLASS64 || head.e_shentsize != sizeof section ||
        head.e_shstrndx >= head.e_shnum)
        return cudaErrorInvalidKernelImage;
    memcpy(&names, image + head.e_shoff + head.e_shstrndx * sizeof names, sizeof names);
    for (unsigned i = 0; i < head.e_shnum; i++) {
        memcpy(&section, image + head.e_shoff + i * sizeof section, sizeof section);
        const char *name = (const char *)image + names.sh_offset + section.sh_name;
        if (strncmp(name, prefix, sizeof prefix - 1) != 0) continue;
        name += sizeof prefix - 1;
        fake_kernel *kernel = fake_kernel_add(library, name, strlen(name));
        if (kernel == NULL) return cudaErrorMemoryAllocation;
        if (!read_info(kernel, image + section.sh_offset,
                       image + section.sh_offset + section.sh_size))
            return cudaErrorInvalidKernelImage;
    }
    return library->kernels != NULL ? cudaSuccess : cudaErrorInvalidKernelImage;
}
