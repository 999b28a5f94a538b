/* SPDX-License-Identifier: Apache-2.0
 *
 * The .npy format: round trips, what NumPy and others write, and files that are damaged or made to
 * harm.
 */
#include <sys/stat.h>
#include <unistd.h>

#include "files_fixture.h"

TestSuite(npy, .init = set_up, .fini = tear_down);

/* ---- making files ---- */

static unsigned char g_file[1 << 18];
static size_t g_bytes;

/* A file of a version with a header as given and data of `bytes`. */
static void make_file(int version, const char *header, const void *data, size_t bytes) {
    size_t length = strlen(header);
    memcpy(g_file, "\x93NUMPY", 6);
    g_file[6] = (unsigned char)version;
    g_file[7] = 0;
    g_bytes = 8;
    for (int i = 0; i < (version == 1 ? 2 : 4); i++)
        g_file[g_bytes++] = (unsigned char)(length >> (8 * i));
    memcpy(g_file + g_bytes, header, length);
    g_bytes += length;
    memcpy(g_file + g_bytes, data, bytes);
    g_bytes += bytes;
    write_bytes(g_file, g_bytes);
}

static dhow_tensor *load(void) {
    dhow_tensor *tensor;
    OK(dhow_npy_load(g_cpu, g_path, &tensor));
    return tensor;
}

/* The file is refused with this status, and the message names it and says why. */
static void expect_refusal(dhow_status wanted, const char *reason) {
    dhow_tensor *tensor = (void *)&tensor;
    dhow_status status = dhow_npy_load(g_cpu, g_path, &tensor);
    cr_assert_eq(status, wanted, "%s instead of %s: %s", dhow_status_name(status),
                 dhow_status_name(wanted), dhow_last_error());
    cr_assert_null(tensor);
    SAYS(g_path);
    SAYS(reason);
}

/* ---- round trips ---- */

Test(npy, every_dtype_and_rank_comes_back) {
    static const int64_t shape[DHOW_MAX_RANK] = {2, 3, 1, 2, 1, 2, 3, 2};
    for (int dtype = DHOW_F32; dtype <= DHOW_BOOL; dtype++) {
        for (int32_t rank = 0; rank <= DHOW_MAX_RANK; rank++) {
            dhow_tensor *tensor = counting_tensor((dhow_dtype)dtype, rank, shape), *back;
            OK(dhow_npy_save(tensor, g_path));
            back = load();
            if (dtype == DHOW_BF16) { /* comes back widened */
                dhow_tensor *wide;
                OK(dhow_tensor_create(g_cpu, DHOW_F32, rank, shape, &wide));
                OK(dhow_cast(NULL, tensor, wide));
                dhow_tensor_release(tensor);
                tensor = wide;
            }
            expect_same(tensor, back);
            dhow_tensor_release(tensor);
            dhow_tensor_release(back);
        }
    }
    cr_assert_eq(files_there(), 1);
}

Test(npy, empty_tensors_come_back) {
    dhow_tensor *tensor = counting_tensor(DHOW_F64, DHOW_SHAPE(3, 0, 2)), *back;
    OK(dhow_npy_save(tensor, g_path));
    back = load();
    expect_same(tensor, back);
    dhow_tensor_release(tensor);
    dhow_tensor_release(back);
}

Test(npy, views_are_written_in_row_major_order) {
    dhow_tensor *tensor = counting_tensor(DHOW_I16, DHOW_SHAPE(4, 6)), *turned, *part, *back;
    OK(dhow_tensor_transpose(tensor, 0, 1, &turned));
    OK(dhow_tensor_slice(turned, 0, 1, 6, 2, &part));
    OK(dhow_npy_save(part, g_path));
    back = load();
    expect_same(part, back);
    dhow_tensor_release(tensor);
    dhow_tensor_release(turned);
    dhow_tensor_release(part);
    dhow_tensor_release(back);
}

/* The bytes that NumPy itself writes for arange(6, dtype='<f4').reshape(2, 3). */
Test(npy, files_are_what_numpy_writes) {
    static const float data[6] = {0, 1, 2, 3, 4, 5};
    static const char header[] =
        "\x93NUMPY\x01\x00v\x00{'descr': '<f4', 'fortran_order': False, "
        "'shape': (2, 3), }";
    dhow_tensor *tensor;
    OK(dhow_tensor_from_data(g_cpu, DHOW_F32, DHOW_SHAPE(2, 3), data, &tensor));
    OK(dhow_npy_save(tensor, g_path));
    size_t bytes = read_bytes(g_file, sizeof g_file);
    cr_assert_eq(bytes, 128 + sizeof data);
    cr_assert_arr_eq(g_file, header, sizeof header - 1);
    for (size_t i = sizeof header - 1; i < 127; i++) cr_assert_eq(g_file[i], ' ');
    cr_assert_eq(g_file[127], '\n');
    cr_assert_arr_eq(g_file + 128, data, sizeof data);
    dhow_tensor_release(tensor);
}

/* ---- what others write ---- */

static void expect_i32(const int32_t *wanted, int64_t count) {
    int32_t values[16];
    dhow_tensor *tensor = load();
    cr_assert_eq(dhow_tensor_count(tensor), count);
    OK(dhow_tensor_read(tensor, values, (uint64_t)count * 4));
    for (int64_t i = 0; i < count; i++) cr_assert_eq(values[i], wanted[i], "element %ld", (long)i);
    dhow_tensor_release(tensor);
}

static const int32_t k_six[6] = {1, 2, 3, 4, 5, 6};

Test(npy, versions_2_and_3_are_read) {
    static const char header[] = "{'descr': '<i4', 'fortran_order': False, 'shape': (2, 3), }\n";
    for (int version = 1; version <= 3; version++) {
        make_file(version, header, k_six, sizeof k_six);
        expect_i32(k_six, 6);
    }
}

Test(npy, other_spellings_of_a_header_are_read) {
    static const char *const headers[] = {
        "{\"shape\":(6,),\"fortran_order\":False,\"descr\":\"<i4\"}",
        "{ 'descr' : '=i4' , 'fortran_order' : False , 'shape' : ( 6 , ) , } \n\t ",
        "{'descr': '|i4', 'fortran_order': False, 'shape': (2L, 3L)}",
        "{'fortran_order': True, 'shape': (6,), 'descr': '<i4'}",
        "{'shape': (1, 6, 1), 'descr': '<i4', 'fortran_order': False,}"};
    for (size_t i = 0; i < sizeof headers / sizeof headers[0]; i++) {
        make_file(1, headers[i], k_six, sizeof k_six);
        expect_i32(k_six, 6);
    }
}

Test(npy, fortran_order_is_turned) {
    static const int32_t columns[6] = {1, 4, 2, 5, 3, 6};
    make_file(1, "{'descr': '<i4', 'fortran_order': True, 'shape': (2, 3)}", columns, 24);
    expect_i32(k_six, 6);
    /* Three dimensions: element (i, j, k) of (1, 2, 3) lies at i + j + 2 k. */
    make_file(1, "{'descr': '<i4', 'fortran_order': True, 'shape': (1, 2, 3)}", columns, 24);
    expect_i32(k_six, 6);
}

Test(npy, big_endian_files_are_read) {
    static const struct {
        const char *code;
        unsigned bytes;
        double value;
        unsigned char data[8];
    } types[] = {{">f4", 4, 1.5, {0x3f, 0xc0}},
                 {">f8", 8, -2, {0xc0, 0}},
                 {">f2", 2, 1, {0x3c, 0}},
                 {">i2", 2, 258, {1, 2}},
                 {">u2", 2, 65280, {255, 0}},
                 {">i4", 4, 16909060, {1, 2, 3, 4}},
                 {">u4", 4, 16909060, {1, 2, 3, 4}},
                 {">i8", 8, 2, {0, 0, 0, 0, 0, 0, 0, 2}},
                 {">u8", 8, 3, {0, 0, 0, 0, 0, 0, 0, 3}},
                 {">i1", 1, 5, {5}}};
    for (size_t i = 0; i < sizeof types / sizeof types[0]; i++) {
        char header[128];
        double value = 0;
        dhow_tensor *tensor, *wide;
        (void)snprintf(header, sizeof header,
                       "{'descr': '%s', 'fortran_order': False, 'shape': ()}", types[i].code);
        make_file(1, header, types[i].data, types[i].bytes);
        tensor = load();
        if (types[i].code[1] == 'f' || strchr("48", types[i].code[2]) != NULL) {
            dhow_tensor_info info = DHOW_INIT(dhow_tensor_info);
            OK(dhow_tensor_get_info(tensor, &info));
            cr_assert_eq(info.bytes, types[i].bytes);
        }
        OK(dhow_tensor_create(g_cpu, DHOW_F64, 0, NULL, &wide));
        if (dhow_cast(NULL, tensor, wide) == DHOW_OK) {
            OK(dhow_tensor_read(wide, &value, sizeof value));
            cr_assert_eq(value, types[i].value, "%s: %g", types[i].code, value);
        } else { /* types that are only stored */
            unsigned char bytes[8];
            OK(dhow_tensor_read(tensor, bytes, types[i].bytes));
            for (unsigned k = 0; k < types[i].bytes; k++)
                cr_assert_eq(bytes[k], types[i].data[types[i].bytes - 1 - k]);
        }
        dhow_tensor_release(wide);
        dhow_tensor_release(tensor);
    }
}

Test(npy, bytes_after_the_data_are_left_alone) {
    unsigned char more[40] = {0};
    memcpy(more, k_six, sizeof k_six);
    make_file(1, "{'descr': '<i4', 'fortran_order': False, 'shape': (6,)}", more, sizeof more);
    expect_i32(k_six, 6);
}

/* ---- damaged and hostile files ---- */

Test(npy, a_file_cut_at_any_byte_is_corrupt) {
    for (int version = 1; version <= 2; version++) {
        make_file(version, "{'descr': '<i4', 'fortran_order': False, 'shape': (2, 3), }\n", k_six,
                  24);
        for (size_t bytes = 0; bytes < g_bytes; bytes++) {
            write_bytes(g_file, bytes);
            expect_refusal(DHOW_CORRUPT, bytes < 10 ? "not an .npy file" : "");
        }
    }
}

Test(npy, hostile_headers_are_refused) {
#define HEADER(descr, order, shape) \
    "{'descr': " descr ", 'fortran_order': " order ", 'shape': " shape ", }"
    static const struct {
        const char *header;
        dhow_status status;
        const char *reason;
    } bad[] = {
        {"", DHOW_CORRUPT, "no dictionary"},
        {"{", DHOW_CORRUPT, "a key is missing"},
        {"{}", DHOW_CORRUPT, "descr, fortran_order or shape is missing"},
        {"[1, 2]", DHOW_CORRUPT, "no dictionary"},
        {"{'descr': '<f4'}", DHOW_CORRUPT, "is missing"},
        {"{'descr' '<f4'}", DHOW_CORRUPT, "a key is missing"},
        {"{'descr': '<f4', 'descr': '<f4'}", DHOW_CORRUPT, "unknown or there twice"},
        {"{'other': 1}", DHOW_CORRUPT, "unknown or there twice"},
        {"{'descr': '<f4' 'shape': ()}", DHOW_CORRUPT, "does not end"},
        {HEADER("'<f4'", "False", "(1,)") "x", DHOW_CORRUPT, "something follows"},
        {HEADER("'<f4", "False", "(1,)"), DHOW_UNSUPPORTED, "element type"},
        {HEADER("'<f\\4'", "False", "(1,)"), DHOW_CORRUPT, "descr is no text"},
        {HEADER("[('x', '<f4')]", "False", "(1,)"), DHOW_UNSUPPORTED, "structured"},
        {HEADER("'<c8'", "False", "(1,)"), DHOW_UNSUPPORTED, "'<c8'"},
        {HEADER("'<U7'", "False", "(1,)"), DHOW_UNSUPPORTED, "'<U7'"},
        {HEADER("'|O'", "False", "(1,)"), DHOW_UNSUPPORTED, "'|O'"},
        {HEADER("'<f44'", "False", "(1,)"), DHOW_UNSUPPORTED, "'<f44'"},
        {HEADER("'%n%s'", "False", "(1,)"), DHOW_UNSUPPORTED, "'%n%s'"},
        {HEADER("''", "False", "(1,)"), DHOW_UNSUPPORTED, "''"},
        {HEADER("'<f4'", "0", "(1,)"), DHOW_CORRUPT, "fortran_order is no bool"},
        {HEADER("'<f4'", "'True'", "(1,)"), DHOW_CORRUPT, "fortran_order is no bool"},
        {HEADER("'<f4'", "False", "1"), DHOW_CORRUPT, "no tuple"},
        {HEADER("'<f4'", "False", "[1]"), DHOW_CORRUPT, "no tuple"},
        {HEADER("'<f4'", "False", "(-1,)"), DHOW_CORRUPT, "no number"},
        {HEADER("'<f4'", "False", "(1.0,)"), DHOW_CORRUPT, "does not end"},
        {HEADER("'<f4'", "False", "(1e3,)"), DHOW_CORRUPT, "does not end"},
        {HEADER("'<f4'", "False", "(,)"), DHOW_CORRUPT, "no number"},
        {HEADER("'<f4'", "False", "(1,,2)"), DHOW_CORRUPT, "no number"},
        {HEADER("'<f4'", "False", "((1,),)"), DHOW_CORRUPT, "no number"},
        {HEADER("'<f4'", "False", "(99999999999999999999,)"), DHOW_CORRUPT, "no number"},
        {HEADER("'<f4'", "False", "(9223372036854775807,)"), DHOW_CORRUPT, "more bytes than"},
        {HEADER("'<f4'", "False", "(4611686018427387904,)"), DHOW_CORRUPT, "more bytes than"},
        {HEADER("'<f8'", "False", "(4294967296, 4294967296)"), DHOW_CORRUPT, "more bytes than"},
        {HEADER("'<f8'", "False", "(4294967296, 4294967296, 0)"), DHOW_CORRUPT, "more bytes than"},
        {HEADER("'<f4'", "False", "(1000000000000,)"), DHOW_CORRUPT, "4000000000000 bytes"},
        {HEADER("'<f4'", "False", "(3,)"), DHOW_CORRUPT, "12 bytes of data are announced"},
        {HEADER("'<f4'", "False", "(1,1,1,1,1,1,1,1,1)"), DHOW_UNSUPPORTED, "more than 8"},
        {"{'shape': (", DHOW_CORRUPT, "no number"},
        {"{'shape': (1", DHOW_CORRUPT, "does not end"},
    };
    for (size_t i = 0; i < sizeof bad / sizeof bad[0]; i++) {
        make_file(1, bad[i].header, k_six, 8);
        expect_refusal(bad[i].status, bad[i].reason);
    }
}

Test(npy, lies_about_the_header_s_length_are_refused) {
    static const char header[] = "{'descr': '<i4', 'fortran_order': False, 'shape': (6,)}";
    make_file(2, header, k_six, sizeof k_six);
    for (uint64_t length = 0; length < UINT64_C(1) << 32; length = length * 3 + 1) {
        if (length == sizeof header - 1) continue;
        for (int i = 0; i < 4; i++) g_file[8 + i] = (unsigned char)(length >> (8 * i));
        write_bytes(g_file, g_bytes);
        expect_refusal(DHOW_CORRUPT, "");
    }
    memset(g_file + 8, 0xff, 4);
    write_bytes(g_file, g_bytes);
    expect_refusal(DHOW_CORRUPT, "a header of 4294967295 bytes; at most 65536 are read");
}

Test(npy, other_versions_are_unsupported) {
    for (int version = 0; version < 256; version += version == 0 ? 4 : 83) {
        make_file(version, "{}", k_six, 24);
        expect_refusal(DHOW_UNSUPPORTED, "1 to 3 are read");
    }
}

Test(npy, damaged_headers_never_load_wrong_memory) {
    make_file(1, "{'descr': '<i4', 'fortran_order': False, 'shape': (2, 3), }\n", k_six, 24);
    for (size_t at = 0; at < g_bytes - 24; at++) {
        for (int bit = 0; bit < 8; bit++) {
            dhow_tensor *tensor;
            g_file[at] ^= (unsigned char)(1 << bit);
            write_bytes(g_file, g_bytes);
            if (dhow_npy_load(g_cpu, g_path, &tensor) == DHOW_OK) {
                cr_assert_leq(dhow_tensor_count(tensor) * 4, 96);
                dhow_tensor_release(tensor);
            } else {
                SAYS(g_path);
            }
            g_file[at] ^= (unsigned char)(1 << bit);
        }
    }
}

Test(npy, places_that_are_no_files_are_refused) {
    expect_refusal(DHOW_NOT_FOUND, "cannot open: No such file or directory");
    cr_assert_eq(mkdir(g_path, 0700), 0);
    expect_refusal(DHOW_IO_ERROR, "not a regular file");
    cr_assert_eq(rmdir(g_path), 0);
    cr_assert_eq(mkfifo(g_path, 0600), 0);
    expect_refusal(DHOW_IO_ERROR, "not a regular file");
    dhow_tensor *tensor;
    cr_assert_eq(dhow_npy_load(g_cpu, NULL, &tensor), DHOW_INVALID_ARGUMENT);
    cr_assert_eq(dhow_npy_load(g_cpu, "", &tensor), DHOW_NOT_FOUND);
}

static dhow_tensor *g_tensor;
static dhow_status save(const char *path) { return dhow_npy_save(g_tensor, path); }

Test(npy, saving_through_a_link_keeps_the_link_and_what_is_no_file_is_refused) {
    static const float values[] = {1, 2, 3};
    char target[128], link[128], pipe[128]; /* beside the fixture's file */
    struct stat info;
    dhow_tensor *t, *again;
    (void)snprintf(target, sizeof target, "%.100s.target", g_path);
    (void)snprintf(link, sizeof link, "%.100s.link", g_path);
    (void)snprintf(pipe, sizeof pipe, "%.100s.pipe", g_path);
    OK(dhow_tensor_from_data(g_cpu, DHOW_F32, DHOW_SHAPE(3), values, &t));
    OK(dhow_npy_save(t, target));
    cr_assert_eq(chmod(target, 0600), 0);
    cr_assert_eq(symlink(target, link), 0);
    OK(dhow_npy_save(t, link));
    cr_assert(lstat(link, &info) == 0 && S_ISLNK(info.st_mode), "the link was replaced");
    cr_assert(stat(target, &info) == 0 && (info.st_mode & 0777) == 0600, "the mode was changed");
    OK(dhow_npy_load(g_cpu, link, &again));
    dhow_tensor_release(again);
    cr_assert_eq(unlink(target), 0);
    cr_assert_eq(dhow_npy_save(t, link), DHOW_IO_ERROR);
    cr_assert_not_null(strstr(dhow_last_error(), "through the link"), "%s", dhow_last_error());
    cr_assert_eq(mkfifo(pipe, 0600), 0);
    cr_assert_eq(dhow_npy_save(t, pipe), DHOW_IO_ERROR);
    cr_assert_not_null(strstr(dhow_last_error(), "not a regular file"), "%s", dhow_last_error());
    dhow_tensor_release(t);
    (void)unlink(link);
    (void)unlink(pipe);
}

Test(npy, saving_where_it_cannot_be_done_leaves_nothing) {
    g_tensor = counting_tensor(DHOW_F32, DHOW_SHAPE(1000));
    expect_orderly_refusals(save);
    dhow_tensor_release(g_tensor);
}
