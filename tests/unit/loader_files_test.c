/* SPDX-License-Identifier: Apache-2.0
 *
 * Files that only look like plugins: every kind leaves a record and hurts nobody. They are made
 * here, from the bytes of a good plugin.
 */
#include <elf.h>
#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include "loader_fixture.h"
#include "powers.h"

/* ---- a folder with one made file ---- */

static char g_folder[64], g_file[128];
static unsigned char *g_good;
static size_t g_good_bytes;

static void make_folder(void) {
    (void)snprintf(g_folder, sizeof g_folder, "/tmp/dhow-loader-XXXXXX");
    cr_assert_not_null(mkdtemp(g_folder));
    cr_assert_eq(chmod(g_folder, 0755), 0);
    (void)snprintf(g_file, sizeof g_file, "%s/libdhow_plain.so", g_folder);
    FILE *f = fopen(DHOW_TEST_BAD_DIR "/good/libdhow_plain.so", "rb");
    cr_assert_not_null(f);
    cr_assert_eq(fseek(f, 0, SEEK_END), 0);
    g_good_bytes = (size_t)ftell(f);
    g_good = malloc(g_good_bytes);
    rewind(f);
    cr_assert_eq(fread(g_good, 1, g_good_bytes, f), g_good_bytes);
    (void)fclose(f);
}

static void remove_folder(void) {
    (void)remove(g_file);
    (void)remove(g_folder);
    free(g_good);
}

static void write_file(const void *data, size_t bytes) {
    FILE *f = fopen(g_file, "wb");
    cr_assert_not_null(f);
    cr_assert_eq(fwrite(data, 1, bytes, f), bytes);
    cr_assert_eq(fclose(f), 0);
}

static Elf64_Ehdr *header(void) { return (Elf64_Ehdr *)(void *)g_good; }

/* Writes the good plugin's bytes, changed by now, and expects this to become of it. */
static void expect_file(dhow_plugin_state state, const char *reason, const char *hint) {
    write_file(g_good, g_good_bytes);
    expect_record(g_folder, state, reason, hint);
}

TestSuite(loader_files, .init = make_folder, .fini = remove_folder);

/* ---- no library at all ---- */

Test(loader_files, a_copy_of_a_good_plugin_is_ready) { expect_file(DHOW_PLUGIN_READY, "", ""); }

Test(loader_files, a_text_file_is_not_elf) {
    write_file("INPUT(libother.so)\n", 19);
    expect_record(g_folder, DHOW_PLUGIN_NOT_ELF, "not an ELF file", "install the plugin again");
}

Test(loader_files, an_empty_file_is_not_elf) {
    write_file("", 0);
    expect_record(g_folder, DHOW_PLUGIN_NOT_ELF, "the file is empty", "install the plugin again");
}

Test(loader_files, a_directory_is_not_elf) {
    cr_assert_eq(mkdir(g_file, 0755), 0);
    expect_record(g_folder, DHOW_PLUGIN_NOT_ELF, "not a regular file", "remove the file");
}

Test(loader_files, a_fifo_does_not_hang_the_loader) {
    cr_assert_eq(mkfifo(g_file, 0644), 0);
    expect_record(g_folder, DHOW_PLUGIN_NOT_ELF, "not a regular file", "remove the file");
}

Test(loader_files, a_dangling_symlink_says_that_its_target_is_missing) {
    cr_assert_eq(symlink("/nowhere/libdhow_plain.so", g_file), 0);
    expect_record(g_folder, DHOW_PLUGIN_NOT_ELF, "cannot open: No such file", "install");
}

Test(loader_files, a_symlink_onto_itself_is_survived) {
    cr_assert_eq(symlink(g_file, g_file), 0);
    expect_record(g_folder, DHOW_PLUGIN_NOT_ELF, "symbolic links", "install");
}

Test(loader_files, a_symlink_to_a_good_plugin_is_ready) {
    cr_assert_eq(symlink(DHOW_TEST_BAD_DIR "/good/libdhow_plain.so", g_file), 0);
    expect_record(g_folder, DHOW_PLUGIN_READY, "", "");
}

Test(loader_files, the_same_file_under_two_paths_is_loaded_once) {
    cr_assert_eq(symlink(DHOW_TEST_BAD_DIR "/good/libdhow_plain.so", g_file), 0);
    char both[512];
    (void)snprintf(both, sizeof both, "%s:%s", DHOW_TEST_BAD_DIR "/good", g_folder);
    dhow_context *context = open_beside(both, NULL);
    cr_assert_eq(record_in(context, DHOW_TEST_BAD_DIR "/good").state, DHOW_PLUGIN_READY);
    dhow_plugin_record second = record_in(context, g_folder);
    cr_assert_eq(second.state, DHOW_PLUGIN_DUPLICATE);
    SAYS(second.reason, "the same file was found before");
    computes(context, "cpu");
    dhow_context_release(context);
}

/* Installed to the prefix it was configured for, dhow listed each plugin twice. */
Test(loader_files, the_same_folder_is_searched_once) {
    char both[512];
    (void)snprintf(both, sizeof both, "%s:%s/.", DHOW_TEST_BAD_DIR "/good",
                   DHOW_TEST_BAD_DIR "/good");
    dhow_context *context = open_beside(both, NULL);
    int found = 0;
    for (uint32_t i = 0; i < dhow_plugin_count(context); i++) {
        dhow_plugin_record record = DHOW_INIT(dhow_plugin_record);
        OK(dhow_plugin_at(context, i, &record));
        if (strncmp(record.path, DHOW_TEST_BAD_DIR "/good", strlen(DHOW_TEST_BAD_DIR "/good")) == 0)
            found++;
    }
    cr_assert_eq(found, 1);
    dhow_context_release(context);
}

Test(loader_files, an_unreadable_file_is_no_permission) {
    write_file(g_good, g_good_bytes);
    cr_assert_eq(chmod(g_file, 0), 0);
    powers_drop(); /* root may read everything */
    dhow_context *context = open_beside(g_folder, NULL);
    dhow_plugin_record record = record_in(context, g_folder);
    powers_take_back();
    cr_assert_eq(record.state, DHOW_PLUGIN_NO_PERMISSION, "%s", record.reason);
    SAYS(record.reason, "cannot open: Permission denied");
    SAYS(record.hint, "make the file readable");
    computes(context, "cpu");
    dhow_context_release(context);
}

Test(loader_files, files_of_other_names_are_passed_over) {
    (void)snprintf(g_file, sizeof g_file, "%s/libdhow_.so", g_folder);
    write_file("x", 1);
    dhow_context *context = open_beside(g_folder, NULL);
    for (uint32_t i = 0; i < dhow_plugin_count(context); i++) {
        dhow_plugin_record record = DHOW_INIT(dhow_plugin_record);
        OK(dhow_plugin_at(context, i, &record));
        cr_assert_null(strstr(record.path, g_folder), "%s", record.path);
    }
    dhow_context_release(context);
}

Test(loader_files, a_name_too_long_for_a_backend_still_leaves_a_record) {
    (void)snprintf(g_file, sizeof g_file, "%s/libdhow_abcdefghijklmnopqrstuvwxyz.so", g_folder);
    write_file("x", 1);
    expect_record(g_folder, DHOW_PLUGIN_NOT_ELF, "not an ELF file", "");
}

/* ---- a library, but not for here ---- */

Test(loader_files, another_machine_is_wrong_arch) {
    header()->e_machine = EM_S390;
    expect_file(DHOW_PLUGIN_WRONG_ARCH, "ELF machine 22, this process runs on",
                "install the plugin for this machine");
}

Test(loader_files, a_32_bit_library_is_wrong_arch) {
    header()->e_ident[EI_CLASS] = ELFCLASS32;
    expect_file(DHOW_PLUGIN_WRONG_ARCH, "ELF class 1", "install the plugin for this machine");
}

Test(loader_files, another_byte_order_is_wrong_arch) {
    header()->e_ident[EI_DATA] =
        header()->e_ident[EI_DATA] == ELFDATA2LSB ? ELFDATA2MSB : ELFDATA2LSB;
    expect_file(DHOW_PLUGIN_WRONG_ARCH, "byte order", "install the plugin for this machine");
}

Test(loader_files, an_object_file_is_no_library) {
    header()->e_type = ET_REL;
    expect_file(DHOW_PLUGIN_NOT_ELF, "an ELF file of type 1, not a shared library", "");
}

Test(loader_files, a_program_is_no_library) {
    header()->e_type = ET_EXEC;
    expect_file(DHOW_PLUGIN_NOT_ELF, "an ELF file of type 2", "");
}

Test(loader_files, a_library_without_program_headers_is_refused) {
    header()->e_phnum = 0;
    expect_file(DHOW_PLUGIN_NOT_ELF, "no program headers", "");
}

Test(loader_files, program_headers_past_the_end_are_truncated) {
    header()->e_phoff = UINT64_MAX - 8;
    expect_file(DHOW_PLUGIN_TRUNCATED, "program headers", "");
}

Test(loader_files, a_segment_whose_end_overflows_is_truncated) {
    Elf64_Phdr *segment = (Elf64_Phdr *)(void *)(g_good + header()->e_phoff);
    segment->p_filesz = UINT64_MAX;
    for (int i = 0; i < header()->e_phnum; i++) segment[i].p_filesz = UINT64_MAX - 1;
    expect_file(DHOW_PLUGIN_TRUNCATED, "", "install the plugin again");
}

/* ---- cut files ---- */

/* The record of a file cut to `bytes`, probed by a context that looks at nothing else but the CPU.
 */
static dhow_plugin_record look_at(size_t bytes, const char **reason) {
    static char text[512];
    write_file(g_good, bytes);
    const dhow_context_options options = DHOW_INIT(dhow_context_options, .plugin_path = g_folder,
                                                   .backends = "cpu,plain", .cache_dir = "off");
    dhow_context *context;
    OK(dhow_context_create(&options, &context));
    dhow_plugin_record record = record_in(context, g_folder);
    (void)snprintf(text, sizeof text, "%s", record.reason);
    *reason = text;
    dhow_context_release(context);
    return record;
}

Test(loader_files, a_plugin_cut_at_any_length_is_refused_before_it_is_loaded) {
    int lengths = 0;
    size_t step = g_good_bytes / 120;
    for (size_t bytes = 1; bytes < g_good_bytes; bytes += bytes < 64 ? 7 : step) {
        const char *reason;
        dhow_plugin_record record = look_at(bytes, &reason);
        dhow_plugin_state wanted = bytes < EI_NIDENT ? DHOW_PLUGIN_NOT_ELF : DHOW_PLUGIN_TRUNCATED;
        cr_assert_eq(record.state, wanted, "%zu of %zu bytes: %d: %s", bytes, g_good_bytes,
                     record.state, reason);
        cr_assert_neq(reason[0], '\0');
        lengths++;
    }
    cr_assert_geq(lengths, 100, "only %d lengths", lengths);
    const char *reason;
    cr_assert_eq(look_at(g_good_bytes - 1, &reason).state, DHOW_PLUGIN_TRUNCATED);
}
