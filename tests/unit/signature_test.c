/* SPDX-License-Identifier: Apache-2.0
 *
 * Kernels found in text, and text that is none.
 */
#include "kernel/signature.h"

#include <criterion/criterion.h>
#include <string.h>

#include "base/memory/alloc.h"
#include "dhow/status.h"

static uint32_t find(const char *text, const char *options, dhowi_found_kernel *first) {
    dhowi_found_kernel *found;
    uint32_t count;
    cr_assert_eq(dhowi_find_kernels("t.k", text, options, &found, &count), DHOW_OK, "%s",
                 dhow_last_error());
    if (count > 0) *first = found[0];
    dhowi_free(found);
    return count;
}

Test(signature, kernels_are_found_with_their_type_filled_in) {
    dhowi_found_kernel k;
    cr_assert_eq(
        find("KERNEL(K_T(relu), (ALIAS(T,x), ALIAS_OUT(T, y), VAL(i64,n))) {}", "-DT=f16", &k), 1);
    cr_assert_str_eq(k.name, "relu_f16");
    cr_assert_str_eq(k.signature, "(ALIAS(f16,x), ALIAS_OUT(f16,y), VAL(i64,n))");
    cr_assert_eq(
        find("/* KERNEL(a, ()) */ // KERNEL(b, ())\n#define X KERNEL(c, ()) \\\n KERNEL(d)\n"
             "\"KERNEL(e, ())\" KERNEL_ (f) KERNEL(g, ()) {}",
             "", &k),
        1);
    cr_assert_str_eq(k.name, "g");
}

Test(signature, text_that_does_not_parse_is_named_with_its_place) {
    static const struct {
        const char *text, *options, *says;
    } bad[] = {
        {"KERNEL", "", "t.k"},
        {"KERNEL(", "", "t.k"},
        {"KERNEL(a", "", "near '(a'"},
        {"KERNEL(a,", "", "near '(a,'"},
        {"KERNEL(K_T relu, ())", "-DT=f32", "near '(K_T relu"}, /* crashed once */
        {"KERNEL(K_T", "-DT=f32", "K_T"},
        {"KERNEL(K_T(relu), ())", "", "give -DT=<dtype>"},
        {"KERNEL(K_T(relu, ())", "-DT=f32", "t.k"},
        {"KERNEL(a, IN(f32,x))", "", "t.k"},
        {"KERNEL(a, (IN(f32,x)", "", "kernel a"},
        {"KERNEL(a, (IN(f32)))", "", "kernel a: the argument list does not parse near"},
        {"KERNEL(a, (IN(f33,x)))", "", "argument 'x' cannot have the type f33"},
        {"KERNEL(a, (OUT(bool,x)))", "", "argument 'x' cannot have the type bool; u8 takes bool"},
        {"KERNEL(a, (VAL(f16,x)))", "", "argument 'x' cannot have the type f16"},
        {"KERNEL(a, (IN(dims,x)))", "", "argument 'x' cannot have the type dims"},
        {"KERNEL(a, (PTR(f32,x)))", "", "argument 'x' is PTR; IN, OUT, INOUT"},
        {"KERNEL(a, (IN(f32,x) IN(f32,y)))", "", "',' or ')' expected near"},
        {"KERNEL(a, (IN(f32,9x)))", "", "kernel a"},
        {"KERNEL(a, (IN(f32,abcdefghijklmnopqrstuvwxyz)))", "", "kernel a"},
    };
    for (size_t i = 0; i < sizeof bad / sizeof bad[0]; i++) {
        dhowi_found_kernel *found;
        uint32_t count;
        cr_assert_neq(dhowi_find_kernels("t.k", bad[i].text, bad[i].options, &found, &count),
                      DHOW_OK, "%s", bad[i].text);
        cr_assert_null(found);
        cr_assert_eq(count, 0);
        cr_assert_not_null(strstr(dhow_last_error(), bad[i].says), "'%s' does not say '%s'",
                           dhow_last_error(), bad[i].says);
    }
}

Test(signature, more_arguments_than_a_kernel_may_have_are_refused) {
    char text[2048] = "KERNEL(a, (VAL(i32,x)";
    dhowi_found_kernel *found, k;
    uint32_t count;
    for (int i = 1; i < DHOW_MAX_KERNEL_ARGS; i++) (void)strcat(text, ",VAL(i32,x)");
    (void)strcat(text, "))");
    cr_assert_eq(find(text, "", &k), 1);
    text[strlen(text) - 2] = '\0';
    (void)strcat(text, ",VAL(i32,x)))");
    cr_assert_eq(dhowi_find_kernels("t.k", text, "", &found, &count), DHOW_INVALID_ARGUMENT);
    cr_assert_not_null(strstr(dhow_last_error(), "kernel a: more than 32 arguments"));
}
