/* SPDX-License-Identifier: Apache-2.0
 *
 * The CUDA plugin's way from text to binary, with the real NVRTC and no GPU: every built-in unit
 * compiles, and each kernel in it takes the arguments that its signature says - number, sizes and
 * order as the driver will lay them out. The first type of a unit becomes a cubin, f16 and bf16
 * become PTX, as a GPU gets it that is newer than NVRTC; that of other types is nvcc's, in the
 * folder KERNEL_TEXTS, where there is one.
 *
 * Exits with 77 (skipped) where NVRTC is not installed.
 */
#include <elf.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "cuda_plugin.h"
#include "kernel/builtin.h"
#include "tests/plugin_host.h"

enum { SKIPPED = 77, MAX_PARAMS = 64, PARAM_INFO = 0x17, PARAM_INFO_BYTES = 12 };

/* ---- what a cubin says ---- */

typedef struct layout {
    uint32_t count;
    uint32_t bytes[MAX_PARAMS];
} layout;

/* Attributes are {format, kind, value}; those of format 4 have a length and a body. */
static void read_attributes(const unsigned char *p, uint64_t bytes, layout *out) {
    const unsigned char *end = p + bytes;
    while (p + 4 <= end) {
        uint16_t length;
        memcpy(&length, p + 2, sizeof length);
        if (p[0] == 4 && p[1] == PARAM_INFO && length >= PARAM_INFO_BYTES) {
            uint16_t ordinal;
            uint32_t packed;
            memcpy(&ordinal, p + 8, sizeof ordinal);
            memcpy(&packed, p + 12, sizeof packed);
            if (ordinal < MAX_PARAMS) out->bytes[ordinal] = packed >> 18;
            if (ordinal < MAX_PARAMS && ordinal + 1u > out->count) out->count = ordinal + 1u;
        }
        p += p[0] == 4 ? 4 + length : 4;
    }
}

/* False when the cubin has no such kernel. */
static int layout_in_cubin(const unsigned char *cubin, uint64_t bytes, const char *kernel,
                           layout *out) {
    Elf64_Ehdr header;
    char wanted[160];
    memset(out, 0, sizeof *out);
    if (bytes < sizeof header) return 0;
    memcpy(&header, cubin, sizeof header);
    if (memcmp(header.e_ident, ELFMAG, SELFMAG) != 0) return 0;
    (void)snprintf(wanted, sizeof wanted, ".nv.info.%s", kernel);
    Elf64_Shdr names;
    memcpy(&names, cubin + header.e_shoff + (uint64_t)header.e_shstrndx * sizeof names,
           sizeof names);
    for (unsigned i = 0; i < header.e_shnum; i++) {
        Elf64_Shdr section;
        memcpy(&section, cubin + header.e_shoff + (uint64_t)i * sizeof section, sizeof section);
        if (strcmp((const char *)cubin + names.sh_offset + section.sh_name, wanted) != 0) continue;
        read_attributes(cubin + section.sh_offset, section.sh_size, out);
        return 1;
    }
    return 0;
}

/* ---- what PTX says ---- */

/* ".param .u64 name" or ".param .align 8 .b8 name[160]" */
static uint32_t parameter_bytes(const char *p) {
    const char *end = p + strcspn(p, ",)"), *bracket = memchr(p, '[', (size_t)(end - p));
    unsigned bits = 0;
    if (bracket != NULL) return (uint32_t)strtoul(bracket + 1, NULL, 10);
    (void)sscanf(p, ".param .%*1[a-z]%u", &bits);
    return bits / 8;
}

/* False when the text has no such kernel. */
static int layout_in_ptx(const char *text, const char *kernel, layout *out) {
    char wanted[160];
    memset(out, 0, sizeof *out);
    (void)snprintf(wanted, sizeof wanted, ".entry %s(", kernel);
    const char *p = strstr(text, wanted);
    if (p == NULL) return 0;
    const char *end = strchr(p, ')');
    while ((p = strstr(p, ".param")) != NULL && p < end && out->count < MAX_PARAMS) {
        out->bytes[out->count++] = parameter_bytes(p);
        p++;
    }
    return 1;
}

static int find_layout(const void *image, uint64_t bytes, const char *kernel, layout *out) {
    return memcmp(image, ELFMAG, SELFMAG) == 0 ? layout_in_cubin(image, bytes, kernel, out)
                                               : layout_in_ptx(image, kernel, out);
}

/* ---- what the signature says ---- */

static layout layout_of(const char *signature) {
    layout l = {0, {0}};
    for (const char *p = signature + 1; (p = strchr(p, '(')) != NULL; p++) {
        const int value = p - signature >= 3 && strncmp(p - 3, "VAL", 3) == 0;
        uint32_t bytes = 8;
        if (value && strncmp(p + 2, "32", 2) == 0) bytes = 4;
        if (value && strncmp(p + 1, "dims", 4) == 0) bytes = sizeof(dhow_dims);
        l.bytes[l.count++] = bytes;
    }
    return l;
}

static int check_kernel(const dhowi_builtin *b, const void *image, uint64_t bytes) {
    layout got, want = layout_of(b->signature);
    if (!find_layout(image, bytes, b->name, &got)) {
        printf("%s: not in what is made of %s %s\n", b->name, b->unit, b->options);
        return 1;
    }
    if (got.count != want.count) {
        printf("%s: %u arguments, %u in %s\n", b->name, got.count, want.count, b->signature);
        return 1;
    }
    for (uint32_t i = 0; i < got.count; i++) {
        if (got.bytes[i] == want.bytes[i]) continue;
        printf("%s: argument %u has %u bytes, %u in %s\n", b->name, i + 1, got.bytes[i],
               want.bytes[i], b->signature);
        return 1;
    }
    return 0;
}

static const unsigned char *text_of(const char *unit) {
    for (size_t i = 0; i < dhowi_builtin_unit_count; i++)
        if (strcmp(dhowi_builtin_units[i].name, unit) == 0) return dhowi_builtin_units[i].text;
    return (const unsigned char *)"";
}

/* Whether no kernel before has its unit, or its unit and type. */
static int is_first(size_t at, int of_type) {
    for (size_t i = 0; i < at; i++) {
        if (strcmp(dhowi_builtin_kernels[i].unit, dhowi_builtin_kernels[at].unit) == 0 &&
            (!of_type ||
             strcmp(dhowi_builtin_kernels[i].options, dhowi_builtin_kernels[at].options) == 0))
            return 0;
    }
    return 1;
}

/* The type of a unit's options, "-DT=f16 -DK_LANES". */
static void type_of(const dhowi_builtin *b, char *out, size_t bytes) {
    const char *type = b->options + strlen("-DT=");
    (void)snprintf(out, bytes, "%.*s", (int)strcspn(type, " "), type);
}

/* What nvcc made of it; NULL where there is none. */
static void *read_text(const dhowi_builtin *b, const char *type) {
    const char *folder = getenv("KERNEL_TEXTS");
    char path[1024];
    if (folder == NULL) return NULL;
    (void)snprintf(path, sizeof path, "%s/%.*s.%s.64.ptx", folder, (int)strcspn(b->unit, "."),
                   b->unit, type);
    FILE *f = fopen(path, "rb");
    if (f == NULL) return NULL;
    (void)fseek(f, 0, SEEK_END);
    const long length = ftell(f);
    rewind(f);
    char *text = length > 0 ? calloc((size_t)length + 1, 1) : NULL;
    if (text != NULL && fread(text, 1, (size_t)length, f) != (size_t)length) text[0] = 0;
    (void)fclose(f);
    return text;
}

/* Compiled for a GPU that NVRTC knows, or one that is newer; by NVRTC into *image. */
static int compile(const dhowi_builtin *b, uint32_t arch, uint32_t index_bits, void **image,
                   uint64_t *bytes) {
    static char log[16384], text[1 << 18], header[1 << 18];
    dhowi_cuda_device device = {.host = &plugin_host, .arch = arch, .name = "a GPU"};
    dhow_error err = {.struct_size = sizeof err};
    if (dhowi_unpack(text_of(b->unit), NULL) >= sizeof text ||
        dhowi_unpack(dhowi_kernel_header, NULL) >= sizeof header) {
        printf("%s: its text is too long for this test\n", b->name);
        return 1;
    }
    (void)dhowi_unpack(text_of(b->unit), text);
    (void)dhowi_unpack(dhowi_kernel_header, header);
    const dhow_module_desc desc = {.struct_size = sizeof desc,
                                   .format = DHOW_MODULE_PORTABLE,
                                   .name = b->unit,
                                   .text = text,
                                   .text_bytes = strlen(text),
                                   .header = header,
                                   .options = b->options,
                                   .index_bits = index_bits,
                                   .log = log,
                                   .log_bytes = sizeof log};
    if (dhowi_cuda_compile(&device, &desc, image, bytes, &err) == DHOW_OK) return 0;
    printf("%s %s: %s\n%s\n", desc.name, desc.options, err.message, log);
    return 1;
}

int main(void) {
    enum { KNOWN = 90, NEWER = 99 };
    char where[600], type[16];
    int failed = 0;
    size_t units = 0, compiled = 0, kernels = 0;
    if (!dhowi_cuda_library_locate(&plugin_host, DHOWI_CUDA_NVRTC, where, sizeof where)) {
        printf("skipped: %s\n", where);
        return SKIPPED;
    }
    for (size_t i = 0; i < dhowi_builtin_kernel_count; i++) {
        if (!is_first(i, 1)) continue;
        const dhowi_builtin *first = &dhowi_builtin_kernels[i];
        const int is_cubin = is_first(i, 0);
        type_of(first, type, sizeof type);
        const int is_half = strcmp(type, "f16") == 0 || strcmp(type, "bf16") == 0;
        void *image = is_cubin || is_half ? NULL : read_text(first, type);
        uint64_t bytes = 0;
        units++;
        if (image == NULL) {
            compiled++;
            if (compile(first, is_cubin ? KNOWN : NEWER, compiled % 2 ? 32 : 64, &image, &bytes)) {
                failed++;
                continue;
            }
        }
        for (size_t k = i; k < dhowi_builtin_kernel_count; k++) {
            const dhowi_builtin *b = &dhowi_builtin_kernels[k];
            if (strcmp(b->unit, first->unit) != 0 || strcmp(b->options, first->options) != 0)
                continue;
            kernels++;
            failed += check_kernel(b, image, bytes);
        }
        free(image);
    }
    printf("%zu units, %zu of them by %s, %zu kernels: %d wrong\n", units, compiled, where, kernels,
           failed);
    return failed != 0 || kernels == 0;
}
