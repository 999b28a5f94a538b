/* SPDX-License-Identifier: Apache-2.0
 *
 * What stands before a portable text, see source.h: the macros of its kernels' argument lists and
 * the first lines of their bodies, in each form.
 */
#include <stdbool.h>
#include <string.h>

#include "opencl.h"
#include "source.h"

static const char *dtype_name(int32_t type) {
    switch (type) {
#define CASE(name, number, text, bytes) \
    case number:                        \
        return text;
        DHOW_DTYPE_MAP(CASE)
#undef CASE
        default:
            return NULL;
    }
}

/* What stands before and after the type in a pointer's declaration. */
static const struct {
    const char *before, *after;
} pointers[] = {
    [DHOW_PARAM_IN] = {"GLOBAL const ", " *RESTRICT "},
    [DHOW_PARAM_OUT] = {"GLOBAL ", " *RESTRICT "},
    [DHOW_PARAM_INOUT] = {"GLOBAL ", " *"},
    [DHOW_PARAM_ALIAS] = {"GLOBAL const ", " *"},
    [DHOW_PARAM_ALIAS_OUT] = {"GLOBAL ", " *"},
};

/* Many launches have buffers that all begin at their start, and a plain pointer is the cheapest
 * argument there is; so a text compiles in several forms. With K_PLAIN buffers are pointers;
 * without it one last argument has the offsets of all. With K_JOINED that one has the values, too.
 * What is restricted is the parameter, since compilers look at nothing else. With K_ROLLED loops
 * are not unrolled beside being vectorised. K_WANTED(name) is 1 for the kernel that is compiled
 * alone. */
static const char forms[] =
    "#ifdef K_ROLLED\n"
    "#undef K_SIMD\n"
    "#define K_SIMD _Pragma(\"clang loop vectorize(assume_safety) unroll(disable)\")\n"
    "#endif\n"
    "#undef K_HEAD\n"
    "#define K_WANTED(name) K_CAT(K_WANTED_, name)\n"
    "#ifdef K_PLAIN\n"
    "#undef IN\n#undef OUT\n#undef INOUT\n#undef ALIAS\n#undef ALIAS_OUT\n"
    "#define IN(T, x) GLOBAL const T *RESTRICT x\n"
    "#define OUT(T, x) GLOBAL T *RESTRICT x\n"
    "#define INOUT(T, x) GLOBAL T *x\n"
    "#define ALIAS(T, x) GLOBAL const T *x\n"
    "#define ALIAS_OUT(T, x) GLOBAL T *x\n"
    "#define K_LIST(name)\n"
    "#define K_HEAD(name)\n"
    "#define K_TAIL(name)\n"
    "#else\n"
    "#undef IN\n#undef OUT\n#undef K_BUFFER\n"
    "#define IN(T, x) __global uchar *RESTRICT x##_p\n"
    "#define OUT(T, x) __global uchar *RESTRICT x##_p\n"
    "#define K_BUFFER(x) __global uchar *x##_p\n"
    "#define K_HEAD(name) K_CAT(K_HEAD_, name)\n"
    "#ifdef K_JOINED\n"
    "#define K_LIST(name) K_CAT(K_LIST_, name)\n"
    "#define K_TAIL(name)\n"
    "#else\n"
    "#define K_LIST(name)\n"
    "#define K_TAIL(name) K_CAT(K_TAIL_, name)\n"
    "#endif\n"
    "#endif\n";

static bool is_value(const dhow_kernel_param *p) { return p->kind == DHOW_PARAM_VALUE; }

static const char *value_name(const dhow_kernel_param *p) {
    return p->type == DHOW_PARAM_DIMS ? "dims" : dtype_name(p->type);
}

static int32_t check_params(const dhow_kernel_decl *kernel, dhow_error *err) {
    if (strlen(kernel->name) >= 256)
        return dhowi_cl_refuse(err, DHOW_INVALID_ARGUMENT,
                               "kernel '%.100s...': a name of %zu bytes", kernel->name,
                               strlen(kernel->name));
    for (uint32_t i = 0; i < kernel->param_count; i++) {
        const dhow_kernel_param *p = &kernel->params[i];
        if (p->kind == 0 || p->kind > DHOW_PARAM_VALUE ||
            (is_value(p) ? value_name(p) : dtype_name(p->type)) == NULL)
            return dhowi_cl_refuse(err, DHOW_INVALID_ARGUMENT,
                                   "kernel '%.100s': parameter %u is of kind %u and type %d",
                                   kernel->name, i, p->kind, p->type);
    }
    return DHOW_OK;
}

/* The typed pointers, from parameters and the offsets in `from`; returns how many there are. */
static uint32_t add_pointers(dhowi_cl_text *out, const dhow_kernel_decl *kernel, const char *from) {
    uint32_t buffers = 0;
    for (uint32_t i = 0; i < kernel->param_count; i++) {
        const dhow_kernel_param *p = &kernel->params[i];
        if (is_value(p)) continue;
        const char *before = pointers[p->kind].before, *after = pointers[p->kind].after;
        const char *type = dtype_name(p->type);
        dhowi_cl_text_print(out, " %s%s%s%s = (%s%s *)(%s_p + %s.at[%u]);", before, type, after,
                            p->name, before, type, p->name, from, buffers++);
    }
    return buffers;
}

static void add_offsets_form(dhowi_cl_text *out, const dhow_kernel_decl *kernel) {
    const char *name = kernel->name;
    dhowi_cl_text_print(out, "#define K_HEAD_%s", name);
    const uint32_t buffers = add_pointers(out, kernel, "k_offsets");
    if (buffers == 0)
        dhowi_cl_text_print(out, "\n#define K_TAIL_%s\n", name);
    else
        dhowi_cl_text_print(out,
                            "\n#define K_TAIL_%s , k_offsets_%s k_offsets\n"
                            "typedef struct k_offsets_%s { ulong at[%u]; } k_offsets_%s;\n",
                            name, name, name, buffers, name);
}

/* The text's own list of arguments is left out: K_LIST_<name> swallows it. */
static void add_joined_form(dhowi_cl_text *out, const dhow_kernel_decl *kernel) {
    const char *name = kernel->name;
    dhowi_cl_text_print(out, "#define K_HEAD_%s", name);
    const uint32_t buffers = add_pointers(out, kernel, "k_values");
    for (uint32_t i = 0; i < kernel->param_count; i++)
        if (is_value(&kernel->params[i]))
            dhowi_cl_text_print(out, " %s %s = k_values.%s;", value_name(&kernel->params[i]),
                                kernel->params[i].name, kernel->params[i].name);
    dhowi_cl_text_print(out, "\ntypedef struct k_values_%s {", name);
    if (buffers > 0) dhowi_cl_text_print(out, " ulong at[%u];", buffers);
    for (uint32_t i = 0; i < kernel->param_count; i++)
        if (is_value(&kernel->params[i]))
            dhowi_cl_text_print(out, " %s %s;", value_name(&kernel->params[i]),
                                kernel->params[i].name);
    dhowi_cl_text_print(out, " } k_values_%s;\n#define K_LIST_%s(...) (", name, name);
    for (uint32_t i = 0; i < kernel->param_count; i++) {
        const dhow_kernel_param *p = &kernel->params[i];
        const char *kind = p->kind == DHOW_PARAM_IN || p->kind == DHOW_PARAM_OUT ? "RESTRICT " : "";
        if (!is_value(p)) dhowi_cl_text_print(out, "__global uchar *%s%s_p, ", kind, p->name);
    }
    dhowi_cl_text_print(out, "k_values_%s k_values)\n", name);
}

int32_t dhowi_cl_add_heads(dhowi_cl_text *out, const dhow_module_desc *desc, dhow_error *err) {
    int32_t status = DHOW_OK;
    for (uint32_t i = 0; i < desc->kernel_count && status == DHOW_OK; i++)
        status = check_params(&desc->kernels[i], err);
    if (status != DHOW_OK) return status;
    dhowi_cl_text_add(out, forms, sizeof forms - 1);
    dhowi_cl_text_print(out, "#ifdef K_JOINED\n");
    for (uint32_t i = 0; i < desc->kernel_count; i++) add_joined_form(out, &desc->kernels[i]);
    dhowi_cl_text_print(out, "#else\n");
    for (uint32_t i = 0; i < desc->kernel_count; i++) add_offsets_form(out, &desc->kernels[i]);
    dhowi_cl_text_print(out, "#endif\n");
    return DHOW_OK;
}
