/* SPDX-License-Identifier: Apache-2.0
 *
 * See elf_check.h.
 */
#include "plugin/elf_check.h"

#include <elf.h>
#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <link.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#if defined(__x86_64__)
enum { THIS_MACHINE = EM_X86_64 };
#elif defined(__aarch64__)
enum { THIS_MACHINE = EM_AARCH64 };
#elif defined(__riscv)
enum { THIS_MACHINE = EM_RISCV };
#elif defined(__powerpc64__)
enum { THIS_MACHINE = EM_PPC64 };
#elif defined(__i386__)
enum { THIS_MACHINE = EM_386 };
#else
#error "name this machine's e_machine here"
#endif

#if __BYTE_ORDER__ == __ORDER_LITTLE_ENDIAN__
enum { THIS_ORDER = ELFDATA2LSB };
#else
enum { THIS_ORDER = ELFDATA2MSB };
#endif
#if UINTPTR_MAX == UINT64_MAX
enum { THIS_CLASS = ELFCLASS64 };
#else
enum { THIS_CLASS = ELFCLASS32 };
#endif

typedef struct check {
    int fd;
    uint64_t file_bytes;
    char *reason;
    size_t capacity;
} check;

__attribute__((format(printf, 3, 4))) static dhow_plugin_state reject(check *c,
                                                                      dhow_plugin_state state,
                                                                      const char *format, ...) {
    va_list args;
    va_start(args, format);
    (void)vsnprintf(c->reason, c->capacity, format, args);
    va_end(args);
    return state;
}

static bool read_at(const check *c, uint64_t offset, void *data, size_t bytes) {
    return pread(c->fd, data, bytes, (off_t)offset) == (ssize_t)bytes;
}

static dhow_plugin_state check_segments(check *c, const ElfW(Ehdr) * header) {
    if (header->e_phentsize != sizeof(ElfW(Phdr)) || header->e_phnum == 0) {
        return reject(c, DHOW_PLUGIN_NOT_ELF, "the ELF file has no program headers");
    }
    for (unsigned i = 0; i < header->e_phnum; i++) {
        ElfW(Phdr) segment;
        uint64_t at = header->e_phoff + (uint64_t)i * sizeof segment;
        if (at < header->e_phoff || !read_at(c, at, &segment, sizeof segment)) {
            return reject(c, DHOW_PLUGIN_TRUNCATED, "the file ends inside its program headers");
        }
        if (segment.p_type != PT_LOAD && segment.p_type != PT_DYNAMIC) continue;
        uint64_t end;
        if (__builtin_add_overflow(segment.p_offset, segment.p_filesz, &end) ||
            end > c->file_bytes) {
            return reject(c, DHOW_PLUGIN_TRUNCATED,
                          "the file has %" PRIu64 " bytes, its headers ask for %" PRIu64
                          " and more",
                          c->file_bytes, segment.p_offset + segment.p_filesz);
        }
    }
    /* The section headers lie at the very end of what a linker writes: they tell of a cut that no
     * segment shows. */
    uint64_t end = header->e_shoff + (uint64_t)header->e_shnum * header->e_shentsize;
    if (header->e_shoff != 0 && end > c->file_bytes) {
        return reject(c, DHOW_PLUGIN_TRUNCATED,
                      "the file has %" PRIu64 " bytes, its section headers end at %" PRIu64,
                      c->file_bytes, end);
    }
    return DHOW_PLUGIN_READY;
}

static dhow_plugin_state check_file(check *c) {
    ElfW(Ehdr) header;
    if (c->file_bytes == 0) return reject(c, DHOW_PLUGIN_NOT_ELF, "the file is empty");
    unsigned char ident[EI_NIDENT] = {0};
    if (!read_at(c, 0, ident, sizeof ident) || memcmp(ident, ELFMAG, SELFMAG) != 0) {
        return reject(c, DHOW_PLUGIN_NOT_ELF, "not an ELF file");
    }
    if (ident[EI_CLASS] != THIS_CLASS || ident[EI_DATA] != THIS_ORDER) {
        return reject(c, DHOW_PLUGIN_WRONG_ARCH,
                      "ELF class %u and byte order %u, this process has %d and %d", ident[EI_CLASS],
                      ident[EI_DATA], THIS_CLASS, THIS_ORDER);
    }
    if (!read_at(c, 0, &header, sizeof header)) {
        return reject(c, DHOW_PLUGIN_TRUNCATED, "the file ends inside its ELF header");
    }
    if (header.e_machine != THIS_MACHINE) {
        return reject(c, DHOW_PLUGIN_WRONG_ARCH, "ELF machine %u, this process runs on %d",
                      header.e_machine, THIS_MACHINE);
    }
    if (header.e_type != ET_DYN) {
        return reject(c, DHOW_PLUGIN_NOT_ELF, "an ELF file of type %u, not a shared library",
                      header.e_type);
    }
    return check_segments(c, &header);
}

dhow_plugin_state dhowi_elf_check(const char *path, char *reason, size_t capacity) {
    check c = {.reason = reason, .capacity = capacity};
    reason[0] = '\0';
    c.fd = open(path, O_RDONLY | O_CLOEXEC | O_NONBLOCK);
    if (c.fd < 0) {
        return reject(&c, errno == EACCES ? DHOW_PLUGIN_NO_PERMISSION : DHOW_PLUGIN_NOT_ELF,
                      "cannot open: %s", strerror(errno));
    }
    struct stat info;
    dhow_plugin_state state;
    if (fstat(c.fd, &info) != 0 || !S_ISREG(info.st_mode)) {
        state = reject(&c, DHOW_PLUGIN_NOT_ELF, "not a regular file");
    } else {
        c.file_bytes = (uint64_t)info.st_size;
        state = check_file(&c);
    }
    (void)close(c.fd);
    return state;
}
