/* SPDX-License-Identifier: Apache-2.0
 *
 * How the OpenCL plugin rewrites kernel texts: where tails and heads go, and where they do not.
 */
#include <criterion/criterion.h>
#include <stdlib.h>
#include <string.h>

#include "dhow/plugin.h"
#include "source.h"
#include "tests/plugin_host.h"

static dhow_error err = {.struct_size = sizeof(dhow_error)};

#define OK(call) cr_assert_eq((call), DHOW_OK, "%s: %s", #call, err.message)
#define FAILS(status, call) cr_assert_eq((call), (status), "%s: %s", #call, err.message)

/* The user's part of a portable module's OpenCL text. */
static char *rewritten(const char *text, bool alone) {
    dhow_module_desc desc = {.struct_size = sizeof desc,
                             .format = DHOW_MODULE_PORTABLE,
                             .name = "t.k",
                             .text = text,
                             .text_bytes = strlen(text),
                             .header = "HEADER",
                             .options = ""};
    dhowi_cl_text out = {.host = &plugin_host};
    OK(dhowi_cl_source_portable(&out, &desc, alone, &err));
    cr_assert(strstr(out.data, "\n#line 1 \"k.h\"\nHEADER\n") == out.data, "%s", out.data);
    static const char mark[] = "\n#line 1 \"t.k\"\n";
    const char *at = strstr(out.data, mark);
    cr_assert_not_null(at, "%s", out.data);
    char *copy = strdup(at + strlen(mark));
    dhowi_cl_text_free(&out);
    return copy;
}

static void check(const char *text, bool alone, const char *expected) {
    char *got = rewritten(text, alone);
    cr_assert_eq(strncmp(got, expected, strlen(expected)), 0, "from\n%s\ncame\n%s\ninstead of\n%s",
                 text, got, expected);
    cr_assert_str_eq(got + strlen(expected), "\n");
    free(got);
}

static void check_heads(const char *text, const char *expected) { check(text, false, expected); }

Test(opencl_source, every_kernel_gets_its_tail_and_head) {
    check_heads(
        "KERNEL(a, (IN(f32,x)))\n{ f(x); }\nKERNEL(b, ()){}",
        "KERNEL(a,  K_LIST(a)(IN(f32,x) K_TAIL(a)))\n{ K_HEAD(a)\n#line 2 \"t.k\"\n  f(x); }\n"
        "KERNEL(b,  K_LIST(b)( K_TAIL(b))){ K_HEAD(b)\n#line 3 \"t.k\"\n              }");
}

Test(opencl_source, names_made_by_macros_stay_as_written) {
    check_heads("KERNEL( K_T(softmax) , (IN(T,x), VAL(i64,n)) ) /* why */ // so\n {}",
                "KERNEL( K_T(softmax) ,  K_LIST(K_T(softmax) )(IN(T,x), VAL(i64,n) "
                "K_TAIL(K_T(softmax) )) ) "
                "/* why */ // so\n "
                "{ K_HEAD(K_T(softmax) )\n#line 2 \"t.k\"\n  }");
}

/* A kernel whose block ends after `block`, and one behind it. */
static void check_block(const char *block) {
    char text[512], expected[1024];
    (void)snprintf(text, sizeof text, "KERNEL(K_T(a), ()){%s int z; KERNEL(b, ()){}", block);
    size_t lines = 1, column = strlen("KERNEL(K_T(a), ()){");
    for (const char *at = block; *at != '\0'; at++) {
        lines += *at == '\n';
        column = *at == '\n' ? 0 : column + 1;
    }
    (void)snprintf(expected, sizeof expected,
                   "\n#if K_WANTED(K_T(a))\n#line 1 \"t.k\"\n"
                   "KERNEL(K_T(a),  K_LIST(K_T(a))( K_TAIL(K_T(a)))){ K_HEAD(K_T(a))\n"
                   "#line 1 \"t.k\"\n%*s%s\n#endif\n#line %zu \"t.k\"\n%*s int z; "
                   "\n#if K_WANTED(b)\n#line %zu \"t.k\"\n%*s"
                   "KERNEL(b,  K_LIST(b)( K_TAIL(b))){ K_HEAD(b)\n#line %zu \"t.k\"\n%*s}"
                   "\n#endif\n#line %zu \"t.k\"\n%*s",
                   19, "", block, lines, (int)column, "", lines, (int)column + 8, "", lines,
                   (int)column + 22, "", lines, (int)column + 23, "");
    check(text, true, expected);
}

Test(opencl_source, kernels_that_are_alone_are_enclosed_with_their_blocks) {
    check_block("}");
    check_block(" if (x) { f(); } else { g(); }\n\n}");
    check_block(" f(\"}\", '}'); /* } */ // }\n}");
    check_block("\n#define END }\n}");
    check_block("\n#if A\n if (a) {\n#elif B\n if (b) {\n#if C\n {\n#endif\n#else\n {\n#endif\n }\n}");
    check_block("\n#ifdef A\n#if B\n {\n#else\n {\n#endif\n }\n#endif\n}");
}

Test(opencl_source, comments_strings_and_macros_are_no_kernels) {
    static const char *const texts[] = {"// KERNEL(a, (IN(f32,x))) {\n",
                                        "/* KERNEL(a, (IN(f32,x))) { */",
                                        "\"KERNEL(a, (IN(f32,x))) {\" '\"'",
                                        "#define MAKE(n) \\\n  KERNEL(n, (IN(f32,x))) {\n",
                                        "#define X /* \n KERNEL(a, ()) { */\n",
                                        "MY_KERNEL(a, ()) {}",
                                        "KERNEL(a, (IN(f32,x)));",
                                        "KERNEL (a) {",
                                        "KERNEL",
                                        "KERNEL(a, (",
                                        "KERNEL(a, (b)) ",
                                        "/* never ends",
                                        "\"never ends",
                                        "# error don't\n",
                                        "\\"};
    for (size_t i = 0; i < sizeof texts / sizeof texts[0]; i++) check_heads(texts[i], texts[i]);
    check_heads("# error don't\nKERNEL(a, ()) {}",
                "# error don't\nKERNEL(a,  K_LIST(a)( K_TAIL(a))) { K_HEAD(a)\n#line 2 \"t.k\"\n   "
                "            }");
}

Test(opencl_source, a_comment_inside_the_definition_does_not_hide_it) {
    check_heads("KERNEL /* ) */ (a, // ,(\n (IN(f32 /*)*/,x)))\n// {\n{",
                "KERNEL /* ) */ (a, // ,(\n  K_LIST(a)(IN(f32 /*)*/,x) K_TAIL(a)))\n// {\n{ "
                "K_HEAD(a)\n#line "
                "4 \"t.k\"\n ");
}

Test(opencl_source, the_line_that_includes_the_header_is_blanked_and_others_stay) {
    check_heads("#include \"dhow/kernel/k.h\"\n# include <k.h>\n#include \"task.h\"\nint i;",
                "\n\n#include \"task.h\"\nint i;");
}

Test(opencl_source, heads_declare_typed_pointers_from_parameters) {
    static const dhow_kernel_param params[] = {
        {DHOW_PARAM_IN, DHOW_F16, "a"},        {DHOW_PARAM_OUT, DHOW_F32, "b"},
        {DHOW_PARAM_INOUT, DHOW_I8, "c"},      {DHOW_PARAM_ALIAS, DHOW_U64, "d"},
        {DHOW_PARAM_ALIAS_OUT, DHOW_F64, "e"}, {DHOW_PARAM_VALUE, DHOW_PARAM_DIMS, "f"},
        {DHOW_PARAM_VALUE, DHOW_I64, "g"}};
    static const dhow_kernel_decl kernel = {"k_f16", "(...)", params, 7, 0};
    dhow_module_desc desc = {.name = "a \"b\".k",
                             .text = "",
                             .header = "",
                             .options = "",
                             .kernels = &kernel,
                             .kernel_count = 1};
    dhowi_cl_text out = {.host = &plugin_host};
    OK(dhowi_cl_source_portable(&out, &desc, false, &err));
    cr_assert(strstr(out.data,
                     "\n#define K_HEAD_k_f16"
                     " GLOBAL const f16 *RESTRICT a = (GLOBAL const f16 *)(a_p + k_offsets.at[0]);"
                     " GLOBAL f32 *RESTRICT b = (GLOBAL f32 *)(b_p + k_offsets.at[1]);"
                     " GLOBAL i8 *c = (GLOBAL i8 *)(c_p + k_offsets.at[2]);"
                     " GLOBAL const u64 *d = (GLOBAL const u64 *)(d_p + k_offsets.at[3]);"
                     " GLOBAL f64 *e = (GLOBAL f64 *)(e_p + k_offsets.at[4]);\n"
                     "#define K_TAIL_k_f16 , k_offsets_k_f16 k_offsets\n"
                     "typedef struct k_offsets_k_f16 { ulong at[5]; } k_offsets_k_f16;\n") != NULL,
              "%s", out.data);
    cr_assert(strstr(out.data,
                     " GLOBAL f64 *e = (GLOBAL f64 *)(e_p + k_values.at[4]);"
                     " dims f = k_values.f; i64 g = k_values.g;\n"
                     "typedef struct k_values_k_f16 { ulong at[5]; dims f; i64 g; } k_values_k_f16;"
                     "\n#define K_LIST_k_f16(...) (__global uchar *RESTRICT a_p, "
                     "__global uchar *RESTRICT b_p, __global uchar *c_p, __global uchar *d_p, "
                     "__global uchar *e_p, k_values_k_f16 k_values)\n") != NULL,
              "%s", out.data);
    cr_assert(strstr(out.data, "#line 1 \"a b.k\"\n") != NULL, "%s", out.data);
    dhowi_cl_text_free(&out);
    static const dhow_kernel_param bad[] = {{0, DHOW_F32, "x"},
                                            {DHOW_PARAM_VALUE + 1, DHOW_F32, "x"},
                                            {DHOW_PARAM_IN, 0, "x"},
                                            {DHOW_PARAM_VALUE, 0, "x"},
                                            {DHOW_PARAM_IN, DHOW_PARAM_DIMS, "x"}};
    for (size_t i = 0; i < sizeof bad / sizeof bad[0]; i++) {
        const dhow_kernel_decl wrong = {"k", "", &bad[i], 1, 0};
        desc.kernels = &wrong;
        FAILS(DHOW_INVALID_ARGUMENT, dhowi_cl_source_portable(&out, &desc, false, &err));
        dhowi_cl_text_free(&out);
    }
}
