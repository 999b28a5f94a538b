/* SPDX-License-Identifier: Apache-2.0
 *
 * Cases of the file: what it exports, imports and needs, how it was linked, what its table says.
 * The symbols are read from the file, so that no code of the plugin runs.
 */
#include <dlfcn.h>
#include <elf.h>
#include <fcntl.h>
#include <link.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include "core/plugin/required.h"
#include "slots.h"

/* ---- the ELF file ---- */

typedef struct image {
    const unsigned char *bytes;
    uint64_t size;
    const ElfW(Shdr) * symbols, *dynamic; /* their sections */
    const char *symbol_names, *dynamic_names;
    uint64_t symbol_names_size, dynamic_names_size;
} image;

static const ElfW(Shdr) * section(const image *m, const ElfW(Ehdr) * head, uint32_t index) {
    if (index >= head->e_shnum || head->e_shoff > m->size || head->e_shoff % 8 != 0 ||
        m->size - head->e_shoff < (index + UINT64_C(1)) * sizeof(ElfW(Shdr)))
        return NULL;
    const ElfW(Shdr) *s = (const ElfW(Shdr) *)(const void *)(m->bytes + head->e_shoff) + index;
    const bool tables = s->sh_type == SHT_DYNSYM || s->sh_type == SHT_DYNAMIC;
    if (tables && s->sh_offset % 8 != 0) return NULL;
    return s->sh_offset <= m->size && s->sh_size <= m->size - s->sh_offset ? s : NULL;
}

static conform_result open_image(conform_env *env, image *m) {
    struct stat info;
    const int fd = open(env->slots->path, O_RDONLY | O_CLOEXEC);
    memset(m, 0, sizeof *m);
    CHECK(fd >= 0 && fstat(fd, &info) == 0, "%s cannot be read", env->slots->path);
    m->size = (uint64_t)info.st_size;
    void *bytes = mmap(NULL, m->size, PROT_READ, MAP_PRIVATE, fd, 0); /* lives as the process */
    (void)close(fd);
    CHECK(m->size >= sizeof(ElfW(Ehdr)), "it is no ELF file: it has %" PRIu64 " bytes", m->size);
    CHECK(bytes != MAP_FAILED, "%s cannot be mapped", env->slots->path);
    m->bytes = bytes;
    const ElfW(Ehdr) *head = bytes;
    CHECK(memcmp(head->e_ident, ELFMAG, SELFMAG) == 0, "it is no ELF file");
    CHECK(head->e_ident[EI_CLASS] == (sizeof(void *) == 8 ? ELFCLASS64 : ELFCLASS32),
          "it is built for another word size");
    for (uint32_t i = 0; i < head->e_shnum; i++) {
        const ElfW(Shdr) *s = section(m, head, i),
                         *names = s != NULL ? section(m, head, s->sh_link) : NULL;
        if (s == NULL || names == NULL || s->sh_type == SHT_NOBITS) continue;
        const char *text = (const char *)m->bytes + names->sh_offset;
        if (s->sh_type == SHT_DYNSYM) {
            m->symbols = s;
            m->symbol_names = text;
            m->symbol_names_size = names->sh_size;
        } else if (s->sh_type == SHT_DYNAMIC) {
            m->dynamic = s;
            m->dynamic_names = text;
            m->dynamic_names_size = names->sh_size;
        }
    }
    CHECK(m->symbols != NULL && m->dynamic != NULL, "it has no dynamic section");
    return CONFORM_PASS;
}

static const char *text_at(const char *names, uint64_t size, uint64_t at) {
    return at < size && memchr(names + at, '\0', size - at) != NULL ? names + at : "(broken name)";
}

static const ElfW(Sym) * symbol_at(const image *m, uint64_t i, const char **name) {
    if ((i + 1) * sizeof(ElfW(Sym)) > m->symbols->sh_size) return NULL;
    const ElfW(Sym) *s = (const void *)(m->bytes + m->symbols->sh_offset + i * sizeof *s);
    *name = text_at(m->symbol_names, m->symbol_names_size, s->st_name);
    return s;
}

static const ElfW(Dyn) * dynamic_at(const image *m, uint64_t i) {
    if ((i + 1) * sizeof(ElfW(Dyn)) > m->dynamic->sh_size) return NULL;
    const ElfW(Dyn) *d = (const void *)(m->bytes + m->dynamic->sh_offset + i * sizeof *d);
    return d->d_tag != DT_NULL ? d : NULL;
}

static void add_name(char *list, size_t capacity, const char *name) {
    const size_t length = strlen(list);
    (void)snprintf(list + length, capacity - length, "%s%s", length > 0 ? ", " : "", name);
}

/* ---- cases ---- */

/* Tables of several major versions may lie side by side. */
static bool is_table(const char *name) {
    const char *digits = name + strlen("dhow_plugin_v");
    return strncmp(name, "dhow_plugin_v", strlen("dhow_plugin_v")) == 0 && *digits != '\0' &&
           strspn(digits, "0123456789") == strlen(digits);
}

static conform_result exports_one_symbol(conform_env *env) {
    image m;
    const char *name;
    char others[600] = "";
    bool found = false;
    TRY(open_image(env, &m));
    const ElfW(Sym) * s;
    for (uint64_t i = 1; (s = symbol_at(&m, i, &name)) != NULL; i++) {
        const unsigned bind = s->st_info >> 4, type = s->st_info & 15u;
        if (s->st_shndx == SHN_UNDEF || bind == STB_LOCAL) continue;
        if (!is_table(name)) {
            add_name(others, sizeof others, name);
            continue;
        }
        CHECK(type == STT_OBJECT, "%s is no data symbol", name);
        found = found || strcmp(name, DHOW_PLUGIN_SYMBOL) == 0;
    }
    CHECK(found, "it exports no %s", DHOW_PLUGIN_SYMBOL);
    CHECK(others[0] == '\0',
          "it exports more than %s: %s; hide them with -fvisibility=hidden and a version script",
          DHOW_PLUGIN_SYMBOL, others);
    return CONFORM_PASS;
}

static conform_result imports_nothing_of_dhow(conform_env *env) {
    image m;
    const char *name;
    TRY(open_image(env, &m));
    const ElfW(Sym) * s;
    for (uint64_t i = 1; (s = symbol_at(&m, i, &name)) != NULL; i++) {
        if (s->st_shndx != SHN_UNDEF) continue;
        CHECK(strncmp(name, "dhow", 4) != 0,
              "it needs the symbol %s; a plugin gets what it needs through its dhow_host", name);
    }
    return CONFORM_PASS;
}

/* A driver that is linked cannot be missing with a reason. */
static bool is_driver(const char *name) {
    static const char *const drivers[] = {"libdhow.so",   "libcuda.so",     "libOpenCL.so",
                                          "libnvidia-ml", "libamdhip64.so", "libze_loader.so"};
    for (size_t i = 0; i < sizeof drivers / sizeof drivers[0]; i++) {
        if (strncmp(name, drivers[i], strlen(drivers[i])) == 0) return true;
    }
    return false;
}

static conform_result links_no_driver(conform_env *env) {
    image m;
    char list[1000] = "";
    TRY(open_image(env, &m));
    const ElfW(Dyn) * d;
    for (uint64_t i = 0; (d = dynamic_at(&m, i)) != NULL; i++) {
        if (d->d_tag != DT_NEEDED) continue;
        const char *name = text_at(m.dynamic_names, m.dynamic_names_size, d->d_un.d_val);
        CHECK(!is_driver(name), "it is linked to %s; open it with dlopen() in probe()", name);
        add_name(list, sizeof list, name);
    }
    (void)snprintf(env->message, sizeof env->message, "needs %s",
                   list[0] != '\0' ? list : "nothing");
    return CONFORM_PASS;
}

static conform_result is_linked_for_dlopen(conform_env *env) {
    image m;
    bool now = false, nodelete = false;
    TRY(open_image(env, &m));
    const ElfW(Dyn) * d;
    for (uint64_t i = 0; (d = dynamic_at(&m, i)) != NULL; i++) {
        CHECK(d->d_tag != DT_TEXTREL, "its text is relocated; compile it with -fPIC");
        if (d->d_tag == DT_BIND_NOW) now = true;
        if (d->d_tag == DT_FLAGS && (d->d_un.d_val & DF_BIND_NOW) != 0) now = true;
        if (d->d_tag != DT_FLAGS_1) continue;
        now = now || (d->d_un.d_val & DF_1_NOW) != 0;
        nodelete = (d->d_un.d_val & DF_1_NODELETE) != 0;
    }
    CHECK(now, "link it with -Wl,-z,now: a missing function is then a message and no crash");
    CHECK(nodelete, "link it with -Wl,-z,nodelete: code that ran is never unloaded");
    return CONFORM_PASS;
}

static conform_result has_the_name_of_its_file(conform_env *env) {
    const char *slash = strrchr(env->slots->path, '/');
    char wanted[80];
    TRY(conform_slots_load(env, env->slots) ? CONFORM_PASS : CONFORM_FAIL);
    CHECK(env->slots->api.name != NULL, "its name is NULL");
    (void)snprintf(wanted, sizeof wanted, "libdhow_%.32s.so", env->slots->api.name);
    CHECK(strcmp(slash != NULL ? slash + 1 : env->slots->path, wanted) == 0,
          "its file is not called %s, by which DHOW_BACKENDS knows it", wanted);
    return CONFORM_PASS;
}

static conform_result has_a_right_table(conform_env *env) {
    Dl_info info;
    const ElfW(Sym) *entry = NULL;
    TRY(conform_slots_load(env, env->slots) ? CONFORM_PASS : CONFORM_FAIL);
    const dhow_plugin *t = env->slots->table;
    CHECK(t->magic == DHOW_PLUGIN_MAGIC, "magic 0x%08x, expected 0x%08x", t->magic,
          DHOW_PLUGIN_MAGIC);
    CHECK(t->pointer_bytes == sizeof(void *), "pointer_bytes %u", t->pointer_bytes);
    CHECK(t->little_endian == (__BYTE_ORDER__ == __ORDER_LITTLE_ENDIAN__), "little_endian %u",
          t->little_endian);
    CHECK(t->struct_size >= DHOW_PLUGIN_MIN_SIZE && t->struct_size % 8 == 0,
          "struct_size %u; at least %zu and a multiple of 8 is allowed", t->struct_size,
          DHOW_PLUGIN_MIN_SIZE);
    if (dladdr1(t, &info, (void **)&entry, RTLD_DL_SYMENT) != 0 && entry != NULL) {
        CHECK(entry->st_size == 0 || t->struct_size <= entry->st_size,
              "struct_size %u, but the symbol has %" PRIu64 " bytes", t->struct_size,
              (uint64_t)entry->st_size);
    }
    CHECK(t->sanitizers == DHOW_PLUGIN_SANITIZERS,
          "built with sanitizers 0x%x, dhow-conform with 0x%x", t->sanitizers,
          DHOW_PLUGIN_SANITIZERS);
    CHECK(t->version != NULL && t->version[0] != '\0', "its version is empty");
    const char *missing = dhowi_plugin_missing_slot(&env->slots->api);
    CHECK(missing == NULL, "the required slot '%s' is NULL", missing);
    (void)snprintf(env->message, sizeof env->message, "minor %u, %u bytes, version %.60s", t->minor,
                   t->struct_size, t->version);
    return CONFORM_PASS;
}

static conform_result pairs_its_optional_slots(conform_env *env) {
    TRY(conform_slots_load(env, env->slots) ? CONFORM_PASS : CONFORM_FAIL);
#define PAIR(a, b) \
    CHECK((API->a == NULL) == (API->b == NULL), "of the slots %s and %s one is NULL", #a, #b)
    PAIR(host_alloc, host_free);
    PAIR(host_register, host_unregister);
    PAIR(map, unmap);
    PAIR(can_copy, peer_copy);
#undef PAIR
    return CONFORM_PASS;
}

const conform_case conform_abi_cases[] = {
    CASE("abi/exports", exports_one_symbol, "abi"),
    CASE("abi/imports", imports_nothing_of_dhow, "abi"),
    CASE("abi/needed", links_no_driver, "abi"),
    CASE("abi/link", is_linked_for_dlopen, "abi"),
    CASE("abi/table", has_a_right_table, "abi"),
    CASE("abi/name", has_the_name_of_its_file, "abi"),
    CASE("abi/pairs", pairs_its_optional_slots, "abi"),
};
CASES_END(conform_abi);
