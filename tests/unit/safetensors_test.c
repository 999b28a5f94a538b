/* SPDX-License-Identifier: Apache-2.0
 *
 * The safetensors format: round trips, and files that are damaged or made to harm.
 */
#include "dhow/plugin.h"
#include "files_fixture.h"

TestSuite(safetensors, .init = set_up, .fini = tear_down);

/* ---- making files ---- */

static unsigned char g_file[1 << 20];
static size_t g_bytes;

static void make_file_of(const void *header, size_t length, size_t data_bytes) {
    for (int i = 0; i < 8; i++) g_file[i] = (unsigned char)((uint64_t)length >> (8 * i));
    memcpy(g_file + 8, header, length);
    for (size_t i = 0; i < data_bytes; i++) g_file[8 + length + i] = (unsigned char)i;
    g_bytes = 8 + length + data_bytes;
    write_bytes(g_file, g_bytes);
}

static void make_file(const char *header, size_t data_bytes) {
    make_file_of(header, strlen(header), data_bytes);
}

static dhow_safetensors *open_file(void) {
    dhow_safetensors *file;
    OK(dhow_safetensors_open(g_context, g_path, &file));
    return file;
}

static void expect_refusal(dhow_status wanted, const char *reason) {
    dhow_safetensors *file = (void *)&file;
    dhow_status status = dhow_safetensors_open(g_context, g_path, &file);
    cr_assert_eq(status, wanted, "%s instead of %s: %s", dhow_status_name(status),
                 dhow_status_name(wanted), dhow_last_error());
    cr_assert_null(file);
    SAYS(g_path);
    SAYS(reason);
}

/* ---- round trips ---- */

Test(safetensors, every_dtype_and_rank_comes_back) {
    static const int64_t shape[DHOW_MAX_RANK] = {2, 1, 3, 2, 1, 2, 3, 1};
    enum { COUNT = 13 * 9 };
    dhow_tensor *tensors[COUNT], *back;
    static char texts[COUNT][32];
    const char *names[COUNT];
    uint32_t count = 0;
    for (int dtype = DHOW_F32; dtype <= DHOW_BOOL; dtype++) {
        for (int32_t rank = 0; rank <= DHOW_MAX_RANK; rank++, count++) {
            (void)snprintf(texts[count], sizeof texts[0], "layer.%d/%d \"q\" \\ \xc3\xa9", dtype,
                           rank);
            names[count] = texts[count];
            tensors[count] = counting_tensor((dhow_dtype)dtype, rank, shape);
        }
    }
    OK(dhow_safetensors_save(g_path, count, names, tensors));
    cr_assert_eq(files_there(), 1);
    dhow_safetensors *file = open_file();
    cr_assert_eq(dhow_safetensors_count(file), count);
    for (uint32_t i = 0; i < count; i++) {
        dhow_safetensors_entry entry = DHOW_INIT(dhow_safetensors_entry);
        OK(dhow_safetensors_at(file, i, &entry));
        cr_assert_str_eq(entry.name, names[i]); /* in the order of the data */
        OK(dhow_safetensors_load(file, names[i], g_cpu, &back));
        expect_same(tensors[i], back);
        dhow_tensor_release(back);
        dhow_tensor_release(tensors[i]);
    }
    dhow_safetensors_close(file);
    cr_assert_eq(read_bytes(g_file, sizeof g_file) > 16, 1);
    cr_assert_eq(g_file[0] % 8, 0, "the data begins on a multiple of 8");
}

Test(safetensors, files_without_tensors_and_tensors_without_elements_come_back) {
    OK(dhow_safetensors_save(g_path, 0, NULL, NULL));
    dhow_safetensors *file = open_file();
    cr_assert_eq(dhow_safetensors_count(file), 0);
    dhow_safetensors_close(file);
    static const char *const names[] = {"none", "", "some"};
    dhow_tensor *tensors[3] = {counting_tensor(DHOW_F32, DHOW_SHAPE(0, 3)),
                               counting_tensor(DHOW_U8, DHOW_SHAPE(2, 0)),
                               counting_tensor(DHOW_U8, DHOW_SHAPE(5))},
                *back;
    OK(dhow_safetensors_save(g_path, 3, names, tensors));
    file = open_file();
    cr_assert_eq(dhow_safetensors_count(file), 3);
    for (int i = 0; i < 3; i++) {
        OK(dhow_safetensors_load(file, names[i], g_cpu, &back));
        expect_same(tensors[i], back);
        dhow_tensor_release(back);
        dhow_tensor_release(tensors[i]);
    }
    dhow_safetensors_close(file);
}

Test(safetensors, metadata_and_blanks_are_passed_over) {
    make_file(
        "{\"__metadata__\":{\"format\":\"pt\"},\n \"b\":{\"dtype\":\"U8\",\"shape\":[2],"
        "\"data_offsets\":[3,5]}, \"a\":{\"data_offsets\":[0,3],\"shape\":[3],\"dtype\":\"I8\"}}  "
        " ",
        5);
    dhow_safetensors *file = open_file();
    dhow_safetensors_entry entry = DHOW_INIT(dhow_safetensors_entry);
    cr_assert_eq(dhow_safetensors_count(file), 2);
    OK(dhow_safetensors_at(file, 0, &entry));
    cr_assert_str_eq(entry.name, "a");
    cr_assert(entry.dtype == DHOW_I8 && entry.rank == 1 && entry.shape[0] == 3 && entry.bytes == 3);
    cr_assert_eq(dhow_safetensors_at(file, 2, &entry), DHOW_OUT_OF_RANGE);
    SAYS("2");
    cr_assert_eq(dhow_safetensors_at(file, 0, NULL), DHOW_INVALID_ARGUMENT);
    dhow_safetensors_close(file);
}

Test(safetensors, a_name_that_is_not_there_is_told_with_those_that_are) {
    make_file("{\"weight\":{\"dtype\":\"U8\",\"shape\":[],\"data_offsets\":[0,1]}}", 1);
    dhow_safetensors *file = open_file();
    dhow_tensor *tensor = (void *)&tensor;
    cr_assert_eq(dhow_safetensors_load(file, "wieght", g_cpu, &tensor), DHOW_NOT_FOUND);
    cr_assert_null(tensor);
    SAYS(g_path);
    SAYS("no tensor 'wieght'");
    SAYS("weight");
    cr_assert_eq(dhow_safetensors_load(file, NULL, g_cpu, &tensor), DHOW_INVALID_ARGUMENT);
    cr_assert_eq(dhow_safetensors_load(file, "weight", g_cpu, NULL), DHOW_INVALID_ARGUMENT);
    dhow_safetensors_close(file);
}

/* ---- damaged and hostile files ---- */

Test(safetensors, a_file_cut_at_any_byte_is_corrupt) {
    make_file("{\"a\":{\"dtype\":\"F32\",\"shape\":[2],\"data_offsets\":[0,8]}}", 8);
    for (size_t bytes = 0; bytes < g_bytes; bytes++) {
        write_bytes(g_file, bytes);
        expect_refusal(DHOW_CORRUPT, "");
    }
}

Test(safetensors, a_file_that_shrinks_while_it_is_open_is_corrupt) {
    make_file("{\"a\":{\"dtype\":\"F32\",\"shape\":[2],\"data_offsets\":[0,8]}}", 8);
    dhow_safetensors *file = open_file();
    dhow_tensor *tensor = (void *)&tensor;
    cr_assert_eq(truncate(g_path, (off_t)g_bytes - 3), 0);
    cr_assert_eq(dhow_safetensors_load(file, "a", g_cpu, &tensor), DHOW_CORRUPT);
    cr_assert_null(tensor);
    SAYS(g_path);
    SAYS("3 bytes early");
    dhow_safetensors_close(file);
}

Test(safetensors, an_npy_file_is_called_one) {
    dhow_tensor *x;
    const float values[2] = {1, 2};
    OK(dhow_tensor_from_data(g_cpu, DHOW_F32, DHOW_SHAPE(2), values, &x));
    OK(dhow_npy_save(x, g_path));
    expect_refusal(DHOW_CORRUPT, "an .npy file, no safetensors file; dhow_npy_load() reads it");
    dhow_tensor_release(x);
}

Test(safetensors, lies_about_the_header_s_length_are_refused) {
    make_file("{}", 0);
    for (uint64_t length = 3; length != 0; length *= 2) {
        for (int i = 0; i < 8; i++) g_file[i] = (unsigned char)(length >> (8 * i));
        write_bytes(g_file, g_bytes);
        expect_refusal(DHOW_CORRUPT, "a header of");
    }
    memset(g_file, 0xff, 8);
    write_bytes(g_file, g_bytes);
    expect_refusal(DHOW_CORRUPT, "a header of 18446744073709551615 bytes in a file of 10");
    make_file("", 0);
    expect_refusal(DHOW_CORRUPT, "does not begin with '{'");
}

#define ITEM(name, dtype, shape, offsets) \
    "\"" name "\":{\"dtype\":" dtype ",\"shape\":" shape ",\"data_offsets\":" offsets "}"

Test(safetensors, hostile_headers_are_refused) {
    static const struct {
        const char *header;
        dhow_status status;
        const char *reason;
    } bad[] = {
        {"[]", DHOW_CORRUPT, "does not begin with '{'"},
        {" {}", DHOW_CORRUPT, "does not begin with '{'"},
        {"{", DHOW_CORRUPT, "no JSON object"},
        {"{}{}", DHOW_CORRUPT, "no JSON object"},
        {"{\"a\":1}", DHOW_CORRUPT, "tensor 'a' is no object"},
        {"{\"a\":[]}", DHOW_CORRUPT, "tensor 'a' is no object"},
        {"{\"a\":null}", DHOW_CORRUPT, "tensor 'a' is no object"},
        {"{\"a\":{}}", DHOW_CORRUPT, "'a' has not exactly dtype, shape and data_offsets"},
        {"{\"__metadata__\":1}", DHOW_CORRUPT, "__metadata__ is no object"},
        {"{" ITEM("a", "\"U8\"", "[8]", "[0,8]") "," ITEM("a", "\"U8\"", "[8]", "[0,8]") "}",
         DHOW_CORRUPT, "duplicate"},
        {"{\"a\":{\"dtype\":\"U8\",\"shape\":[8],\"shape\":[8],\"data_offsets\":[0,8]}}",
         DHOW_CORRUPT, "duplicate"},
        {"{\"a\":{\"dtype\":\"U8\",\"shape\":[8],\"data_offsets\":[0,8],\"x\":1}}", DHOW_CORRUPT,
         "not exactly"},
        {"{\"a\":{\"dtype\":\"U8\",\"shape\":[8],\"offsets\":[0,8]}}", DHOW_CORRUPT,
         "data_offsets"},
        {"{" ITEM("a", "\"F8_E4M3\"", "[8]", "[0,8]") "}", DHOW_UNSUPPORTED, "dtype F8_E4M3"},
        {"{" ITEM("a", "\"f32\"", "[2]", "[0,8]") "}", DHOW_UNSUPPORTED, "dtype f32"},
        {"{" ITEM("a", "\"%n%s\"", "[2]", "[0,8]") "}", DHOW_UNSUPPORTED, "%n%s"},
        {"{" ITEM("a", "8", "[8]", "[0,8]") "}", DHOW_CORRUPT, "has no dtype"},
        {"{" ITEM("a", "\"U8\"", "8", "[0,8]") "}", DHOW_CORRUPT, "is no list"},
        {"{" ITEM("a", "\"U8\"", "[1,1,1,1,1,1,1,1,8]", "[0,8]") "}", DHOW_UNSUPPORTED,
         "at most 8"},
        {"{" ITEM("a", "\"U8\"", "[-8]", "[0,8]") "}", DHOW_CORRUPT, "extent 0 of tensor 'a'"},
        {"{" ITEM("a", "\"U8\"", "[8.0]", "[0,8]") "}", DHOW_CORRUPT, "extent 0 of tensor 'a'"},
        {"{" ITEM("a", "\"U8\"", "[8e0]", "[0,8]") "}", DHOW_CORRUPT, "extent 0 of tensor 'a'"},
        {"{" ITEM("a", "\"U8\"", "[\"8\"]", "[0,8]") "}", DHOW_CORRUPT, "extent 0 of tensor 'a'"},
        {"{" ITEM("a", "\"U8\"", "[true]", "[0,8]") "}", DHOW_CORRUPT, "extent 0 of tensor 'a'"},
        {"{" ITEM("a", "\"U8\"", "[99999999999999999999]", "[0,8]") "}", DHOW_CORRUPT, "too big"},
        {"{" ITEM("a", "\"U8\"", "[9223372036854775807]", "[0,8]") "}", DHOW_CORRUPT, "more bytes"},
        {"{" ITEM("a", "\"F64\"", "[4294967296,4294967296]", "[0,8]") "}", DHOW_CORRUPT,
         "more bytes"},
        {"{" ITEM("a", "\"U8\"", "[4294967296,4294967296,0]", "[0,0]") "}", DHOW_CORRUPT,
         "more bytes"},
        {"{" ITEM("a", "\"U8\"", "[8]", "[0,9]") "}", DHOW_CORRUPT, "its shape needs 8"},
        {"{" ITEM("a", "\"U8\"", "[7]", "[0,8]") "}", DHOW_CORRUPT, "its shape needs 7"},
        {"{" ITEM("a", "\"U8\"", "[8]", "[8,0]") "}", DHOW_CORRUPT, "no two ascending numbers"},
        {"{" ITEM("a", "\"U8\"", "[8]", "[-8,0]") "}", DHOW_CORRUPT, "no two ascending numbers"},
        {"{" ITEM("a", "\"U8\"", "[8]", "[0]") "}", DHOW_CORRUPT, "no two ascending numbers"},
        {"{" ITEM("a", "\"U8\"", "[8]", "[0,8,8]") "}", DHOW_CORRUPT, "no two ascending numbers"},
        {"{" ITEM("a", "\"U8\"", "[8]", "[0.0,8.0]") "}", DHOW_CORRUPT, "no two ascending numbers"},
        {"{" ITEM("a", "\"U8\"", "[8]", "8") "}", DHOW_CORRUPT, "no two ascending numbers"},
        {"{" ITEM("a", "\"U8\"", "[8]", "[9223372036854775800,9223372036854775807]") "}",
         DHOW_CORRUPT, "lies at bytes"},
        {"{" ITEM("a", "\"U8\"", "[4]", "[0,4]") "}", DHOW_CORRUPT,
         "the tensors end at byte 4, the file at 8"},
        {"{" ITEM("a", "\"U8\"", "[7]", "[1,8]") "}", DHOW_CORRUPT, "'a' begins at byte 1"},
        {"{" ITEM("a", "\"U8\"", "[3]", "[0,3]") "," ITEM("b", "\"U8\"", "[4]", "[4,8]") "}",
         DHOW_CORRUPT, "'b' begins at byte 4, the one before ends at 3"},
        {"{" ITEM("a", "\"U8\"", "[5]", "[0,5]") "," ITEM("b", "\"U8\"", "[4]", "[4,8]") "}",
         DHOW_CORRUPT, "'b' begins at byte 4, the one before ends at 5"},
        {"{" ITEM("a", "\"U8\"", "[8]", "[0,8]") "," ITEM("b", "\"U8\"", "[8]", "[0,8]") "}",
         DHOW_CORRUPT, "begins at byte 0, the one before ends at 8"},
        {"{}", DHOW_CORRUPT, "the tensors end at byte 0, the file at 8"},
        {"{\"\xff\xfe\":1}", DHOW_CORRUPT, "unable to decode byte 0xff"},
        {"{\"a\\u0000b\":{}}", DHOW_CORRUPT, "u0000"},
    };
    for (size_t i = 0; i < sizeof bad / sizeof bad[0]; i++) {
        make_file(bad[i].header, 8);
        expect_refusal(bad[i].status, bad[i].reason);
    }
    make_file_of("{}\0\0", 4, 0);
    expect_refusal(DHOW_CORRUPT, "no JSON object");
}

Test(safetensors, deep_nesting_is_refused) {
    enum { DEPTH = 100000 };
    static char header[DEPTH + 64];
    (void)snprintf(header, sizeof header, "{\"a\":");
    size_t length = strlen(header);
    memset(header + length, '[', DEPTH);
    make_file_of(header, length + DEPTH, 0);
    expect_refusal(DHOW_CORRUPT, "no JSON object");
}

Test(safetensors, damaged_headers_never_load_wrong_memory) {
    make_file("{\"a\":{\"dtype\":\"F32\",\"shape\":[2,1],\"data_offsets\":[0,8]}}", 8);
    for (size_t at = 0; at < g_bytes - 8; at++) {
        for (int bit = 0; bit < 8; bit++) {
            dhow_safetensors *file;
            g_file[at] ^= (unsigned char)(1 << bit);
            write_bytes(g_file, g_bytes);
            if (dhow_safetensors_open(g_context, g_path, &file) == DHOW_OK) {
                dhow_safetensors_entry entry = DHOW_INIT(dhow_safetensors_entry);
                OK(dhow_safetensors_at(file, 0, &entry));
                cr_assert_eq(entry.bytes, 8);
                dhow_safetensors_close(file);
            } else {
                SAYS(g_path);
            }
            g_file[at] ^= (unsigned char)(1 << bit);
        }
    }
}

Test(safetensors, places_that_are_no_files_are_refused) {
    expect_refusal(DHOW_NOT_FOUND, "cannot open: No such file or directory");
    cr_assert_eq(mkdir(g_path, 0700), 0);
    expect_refusal(DHOW_IO_ERROR, "not a regular file");
    cr_assert_eq(rmdir(g_path), 0);
    cr_assert_eq(mkfifo(g_path, 0600), 0);
    expect_refusal(DHOW_IO_ERROR, "not a regular file");
    dhow_safetensors *file;
    cr_assert_eq(dhow_safetensors_open(g_context, NULL, &file), DHOW_INVALID_ARGUMENT);
}

/* ---- saving ---- */

static dhow_tensor *g_tensor;

static void refuses_names(const char *first, const char *second, const char *reason) {
    const char *names[2] = {first, second};
    dhow_tensor *tensors[2] = {g_tensor, g_tensor};
    cr_assert_eq(dhow_safetensors_save(g_path, 2, names, tensors), DHOW_INVALID_ARGUMENT);
    SAYS(reason);
    cr_assert_eq(files_there(), 0);
}

static dhow_status save(const char *path) {
    static const char *const names[] = {"t"};
    return dhow_safetensors_save(path, 1, names, &g_tensor);
}

Test(safetensors, names_that_cannot_be_written_are_refused) {
    g_tensor = counting_tensor(DHOW_F32, DHOW_SHAPE(4));
    refuses_names("a", "a", "'a' is there twice");
    refuses_names("a", "__metadata__", "reserved");
    refuses_names("a", NULL, "name 1 is NULL");
    refuses_names("\xff", "b", "no UTF-8");
    refuses_names("a", "\xc0\x80", "no UTF-8");
    refuses_names("a", "\xed\xa0\x80", "no UTF-8");
    refuses_names("a", "\xf4\x90\x80\x80", "no UTF-8");
    refuses_names("a", "\xe2\x82", "no UTF-8");
    refuses_names("a", "\x80", "no UTF-8");
    cr_assert_eq(dhow_safetensors_save(g_path, 1, NULL, &g_tensor), DHOW_INVALID_ARGUMENT);
    dhow_tensor_release(g_tensor);
}

Test(safetensors, saving_where_it_cannot_be_done_leaves_nothing) {
    g_tensor = counting_tensor(DHOW_F32, DHOW_SHAPE(1000));
    expect_orderly_refusals(save);
    dhow_tensor_release(g_tensor);
}

/* All tensors were in memory at once before the first was written. */
Test(safetensors, saving_takes_memory_for_one_tensor_at_a_time) {
    enum { COUNT = 16, MIB = 16 };
    static const char *const names[COUNT] = {"a", "b", "c", "d", "e", "f", "g", "h",
                                             "i", "j", "k", "l", "m", "n", "o", "p"};
    dhow_tensor *tensors[COUNT];
    unsigned long pages;
    if (DHOW_PLUGIN_SANITIZERS != 0) cr_skip_test("sanitizers take addresses of their own");
    g_tensor = counting_tensor(DHOW_U8, DHOW_SHAPE(MIB << 20));
    for (int i = 0; i < COUNT; i++) tensors[i] = g_tensor;
    FILE *f = fopen("/proc/self/statm", "r");
    cr_assert_not_null(f);
    cr_assert_eq(fscanf(f, "%lu", &pages), 1);
    (void)fclose(f);
    struct rlimit room = {pages * (rlim_t)sysconf(_SC_PAGESIZE) + ((rlim_t)96 << 20),
                          RLIM_INFINITY};
    cr_assert_eq(setrlimit(RLIMIT_AS, &room), 0);
    OK(dhow_safetensors_save(g_path, COUNT, names, tensors));
    dhow_tensor_release(g_tensor);
}
