/* SPDX-License-Identifier: Apache-2.0
 *
 * Single instructions against the PTX ISA, and faults that no kernel of ours comes near.
 */
#include <criterion/criterion.h>
#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#include "../float_bits.h"
#include "ptx.h"

static const char k_head[] =
    ".version 9.0\n.target sm_90\n.address_size 64\n"
    ".visible .entry k(.param .u64 k_param_0, .param .u64 k_param_1)\n{\n"
    ".reg .pred %p<4>;\n.reg .b16 %rs<4>;\n.reg .b32 %r<8>;\n.reg .b64 %rd<8>;\n"
    ".reg .f32 %f<4>;\n.reg .f64 %fd<4>;\n.shared .align 4 .b8 area[256];\n"
    "ld.param.u64 %rd6, [k_param_0];\nld.param.u64 %rd7, [k_param_1];\n";
#define TAIL "ret;\n}\n"

static ptx_report run(const char *text, unsigned threads, bool counts_memory, uint64_t in[3],
                      uint64_t *out) {
    char error[256] = "";
    ptx_report report;
    ptx_module *m = ptx_parse(text, error, sizeof error);
    cr_assert_not_null(m, "%s", error);
    const ptx_allocation list[] = {{"in", in, 24, true, NULL}, {"out", out, 8, false, NULL}};
    const void *const args[] = {&in, &out};
    const ptx_launch launch = {1, threads, args, list, 2, counts_memory, 0};
    (void)ptx_run(ptx_find(m, "k"), &launch, &report);
    ptx_free(m);
    return report;
}

/* Registers 0, 1 and 2 of every type hold the operands, 3 takes the result of the type that is
 * named. */
static uint64_t result_of(const char *type, const char *instruction, uint64_t a, uint64_t b,
                          uint64_t c) {
    char text[2048];
    uint64_t in[3] = {a, b, c}, out = 0;
    (void)snprintf(
        text, sizeof text,
        "%sld.global.u64 %%rd0, [%%rd6];\nld.global.u64 %%rd1, [%%rd6+8];\nld.global.u64 "
        "%%rd2, [%%rd6+16];\n"
        "cvt.u32.u64 %%r0, %%rd0;\ncvt.u32.u64 %%r1, %%rd1;\ncvt.u32.u64 %%r2, %%rd2;\n"
        "cvt.u16.u64 %%rs0, %%rd0;\ncvt.u16.u64 %%rs1, %%rd1;\n"
        "mov.b32 %%f0, %%r0;\nmov.b32 %%f1, %%r1;\nmov.b32 %%f2, %%r2;\n"
        "mov.b64 %%fd0, %%rd0;\nmov.b64 %%fd1, %%rd1;\nmov.b64 %%fd2, %%rd2;\n%s\n"
        "st.global.%s [%%rd7], %%%s3;\n" TAIL,
        k_head, instruction, type,
        type[0] == 'f'   ? (type[1] == '3' ? "f" : "fd")
        : type[1] == '1' ? "rs"
        : type[1] == '3' ? "r"
                         : "rd");
    const ptx_report report = run(text, 1, false, in, &out);
    cr_assert_eq(report.count, 0, "%s", report.findings[0].text);
    return out;
}

#define F bits_of_f32
#define D bits_of_f64
#define NAN32 0x7fc00000u

Test(ptx_isa, instructions_give_what_the_isa_says) {
    const struct {
        const char *type, *text;
        uint64_t a, b, c, want;
    } k[] = {
        {"u32", "sub.s32 %r3, %r0, %r1;", 3, 5, 0, 0xfffffffe},
        {"u32", "mul.hi.u32 %r3, %r0, %r1;", 0x80000000, 6, 0, 3},
        {"u32", "mul.hi.s32 %r3, %r0, %r1;", 0x80000000, 6, 0, 0xfffffffd},
        {"u64", "mul.hi.s64 %rd3, %rd0, %rd1;", ~0ull, 2, 0, ~0ull},
        {"u64", "mul.hi.u64 %rd3, %rd0, %rd1;", ~0ull, 2, 0, 1},
        {"u64", "mul.wide.s32 %rd3, %r0, %r1;", 0xffffffff, 7, 0, (uint64_t)-7},
        {"u64", "mad.wide.u32 %rd3, %r0, %r1, %rd2;", 0xffffffff, 2, 5, 0x200000003},
        {"u32", "div.s32 %r3, %r0, %r1;", (uint64_t)-7, 2, 0, 0xfffffffd},
        {"u32", "rem.s32 %r3, %r0, %r1;", (uint64_t)-7, 2, 0, 0xffffffff},
        {"u32", "div.u32 %r3, %r0, %r1;", 7, 0, 0, 0xffffffff},
        {"u32", "shl.b32 %r3, %r0, %r1;", 1, 32, 0, 0},
        {"u32", "shr.s32 %r3, %r0, %r1;", 0x80000000, 40, 0, 0xffffffff},
        {"u32", "shr.u32 %r3, %r0, %r1;", 0x80000000, 31, 0, 1},
        {"u32", "clz.b32 %r3, %r0;", 0x10000, 0, 0, 15},
        {"u32", "clz.b32 %r3, %r0;", 0, 0, 0, 32},
        {"u32", "min.s32 %r3, %r0, %r1;", 0xffffffff, 1, 0, 0xffffffff},
        {"u32", "min.u32 %r3, %r0, %r1;", 0xffffffff, 1, 0, 1},
        {"u32", "prmt.b32 %r3, %r0, %r1, 0x7531;", 0x33221100, 0x77665544, 0, 0x77553311},
        {"u32", "prmt.b32 %r3, %r0, %r1, 0x88b8;", 0x80000000, 0, 0, 0x0000ff00},
        {"u64", "bfi.b64 %rd3, %rd0, %rd1, 8, 4;", 0xff, 0, 0, 0xf00},
        {"u32", "bfe.u32 %r3, %r0, 4, 8;", 0xabcd, 0, 0, 0xbc},
        {"u32", "cvt.s32.s8 %r3, %r0;", 0x80, 0, 0, 0xffffff80},
        {"u16", "cvt.s16.s8 %rs3, %rs0;", 0xff, 0, 0, 0xffff},
        {"u64", "cvt.s64.s32 %rd3, %r0;", 0x80000000, 0, 0, 0xffffffff80000000},
        {"u32", "cvt.rzi.s32.f32 %r3, %f0;", F(-3e9f), 0, 0, 0x80000000},
        {"u32", "cvt.rzi.u32.f32 %r3, %f0;", F(-1.5f), 0, 0, 0},
        {"u32", "cvt.rzi.s32.f32 %r3, %f0;", NAN32, 0, 0, 0},
        {"u64", "cvt.rzi.s64.f64 %rd3, %fd0;", 0x7ff8000000000000, 0, 0, 0x8000000000000000},
        {"u32", "cvt.rni.s32.f32 %r3, %f0;", F(2.5f), 0, 0, 2},
        {"f32", "cvt.rmi.f32.f32 %f3, %f0;", F(-1.5f), 0, 0, F(-2.0f)},
        {"f32", "cvt.rpi.f32.f32 %f3, %f0;", F(1.25f), 0, 0, F(2.0f)},
        {"f32", "cvt.sat.f32.f32 %f3, %f0;", NAN32, 0, 0, 0},
        {"f32", "cvt.rn.f32.s64 %f3, %rd0;", 16777217, 0, 0, F(16777216.0f)},
        {"f32", "cvt.rn.f32.f64 %f3, %fd0;", D(1.0 + 0x1p-24), 0, 0, F(1.0f)},
        {"u16", "cvt.rn.f16.f32 %rs3, %f0;", F(1.0f + 0x1p-11f), 0, 0,
         0x3c00}, /* ties go to even */
        {"u16", "cvt.rn.f16.f32 %rs3, %f0;", F(1.0f + 3 * 0x1p-11f), 0, 0, 0x3c02},
        {"u16", "cvt.rn.f16.f32 %rs3, %f0;", F(65520.0f), 0, 0, 0x7c00},
        {"u16", "cvt.rn.f16.f32 %rs3, %f0;", F(65519.0f), 0, 0, 0x7bff},
        {"u16", "cvt.rn.f16.f32 %rs3, %f0;", F(-0x1p-24f), 0, 0, 0x8001},
        {"u16", "cvt.rn.bf16.f32 %rs3, %f0;", F(1.0f + 0x1p-8f), 0, 0, 0x3f80},
        {"u16", "cvt.rn.bf16.f32 %rs3, %f0;", F(1.0f + 3 * 0x1p-8f), 0, 0, 0x3f82},
        {"u16", "cvt.rn.bf16.f32 %rs3, %f0;", 0xffc00001, 0, 0, 0x7fff},
        {"u32", "cvt.rn.f16x2.f32 %r3, %f0, %f1;", F(1.0f), F(65520.0f), 0, 0x3c007c00},
        {"u32", "cvt.rn.bf16x2.f32 %r3, %f0, %f1;", F(1.0f + 0x1p-8f), F(-2.0f), 0, 0x3f80c000},
        {"f32", "cvt.f32.f16 %f3, %rs0;", 0x0001, 0, 0, F(0x1p-24f)},
        {"f32", "cvt.f32.f16 %f3, %rs0;", 0xfc00, 0, 0, 0xff800000},
        {"f32", "fma.rn.f32 %f3, %f0, %f1, %f2;", F(1.0f + 0x1p-12f), F(1.0f + 0x1p-12f),
         F(-1.0f - 0x1p-11f), F(0x1p-24f)},
        {"f32", "fma.rm.f32 %f3, %f0, %f1, %f2;", F(1.0f), F(1.0f), F(-0x1p-30f),
         F(1.0f - 0x1p-24f)},
        {"f32", "add.rz.f32 %f3, %f0, %f1;", F(1.0f), F(0x1.8p-24f), 0, F(1.0f)},
        {"f32", "add.f32 %f3, %f0, %f1;", F(1.0f), F(0x1.8p-24f), 0, F(1.0f + 0x1p-23f)},
        {"f32", "mul.ftz.f32 %f3, %f0, %f1;", F(0x1p-100f), F(-0x1p-40f), 0, 0x80000000},
        {"f32", "max.f32 %f3, %f0, %f1;", NAN32, F(2.0f), 0, F(2.0f)},
        {"f32", "max.NaN.f32 %f3, %f0, %f1;", NAN32, F(2.0f), 0, 0x7fffffff},
        {"f32", "min.NaN.f32 %f3, %f0, %f1;", F(3.0f), F(2.0f), 0, F(2.0f)},
        {"f32", "copysign.f32 %f3, %f0, %f1;", F(-1.0f), F(2.0f), 0, F(-2.0f)},
        {"f32", "ex2.approx.ftz.f32 %f3, %f0;", F(3.0f), 0, 0, F(8.0f)},
        {"f32", "lg2.approx.f32 %f3, %f0;", F(8.0f), 0, 0, F(3.0f)},
        {"f32", "rsqrt.approx.f32 %f3, %f0;", F(4.0f), 0, 0, F(0.5f)},
        {"f64", "div.rn.f64 %fd3, %fd0, %fd1;", D(1.0), D(3.0), 0, D(1.0 / 3.0)},
        {"f64", "rcp.approx.ftz.f64 %fd3, %fd0;", D(3.0), 0, 0, D(1.0 / 3.0) & ~0xffffffffull},
        {"u64", "mov.b64 %rd3, {%r0, %r1};", 1, 2, 0, 0x200000001},
        {"u32", "mov.b64 {%r2, %r3}, %rd0;", 0x700000005, 0, 0, 7},
        {"u32", "setp.lt.f32 %p0, %f0, %f1; selp.b32 %r3, 1, 2, %p0;", NAN32, F(1.0f), 0, 2},
        {"u32", "setp.geu.f32 %p0, %f0, %f1; selp.b32 %r3, 1, 2, %p0;", NAN32, F(1.0f), 0, 1},
        {"u32", "setp.lt.s32 %p0, %r0, %r1; selp.b32 %r3, 1, 2, %p0;", 0xffffffff, 0, 0, 1},
        {"u32", "setp.lo.u32 %p0, %r0, %r1; selp.b32 %r3, 1, 2, %p0;", 0xffffffff, 0, 0, 2},
    };
    for (size_t i = 0; i < sizeof k / sizeof k[0]; i++) {
        const uint64_t got = result_of(k[i].type, k[i].text, k[i].a, k[i].b, k[i].c);
        cr_assert_eq(got, k[i].want, "%s gives 0x%" PRIx64 ", not 0x%" PRIx64, k[i].text, got,
                     k[i].want);
    }
}

static void expect_fault(const char *body, unsigned threads, ptx_fault fault, const char *words) {
    char text[2048];
    uint64_t in[3] = {0}, out = 0;
    (void)snprintf(text, sizeof text, "%smov.u32 %%r0, %%tid.x;\n%s\n" TAIL, k_head, body);
    const ptx_report report = run(text, threads, false, in, &out);
    cr_assert(report.count > 0 && report.findings[0].fault == fault, "%s: %s", body,
              report.findings[0].text);
    cr_assert_not_null(strstr(report.findings[0].text, words), "%s", report.findings[0].text);
}

static void expect_requests(const char *body, unsigned long long requests) {
    char text[2048];
    uint64_t in[3] = {0}, out = 0;
    (void)snprintf(text, sizeof text, "%smov.u32 %%r0, %%tid.x;\n%s\n" TAIL, k_head, body);
    const ptx_report report = run(text, 32, true, in, &out);
    cr_assert_eq(report.count, 0, "%s", report.findings[0].text);
    cr_assert_eq(report.requests, requests, "%s: %llu", body, report.requests);
}

Test(ptx_isa, lanes_that_part_meet_again) {
    const char *parts =
        "setp.lt.u32 %p0, %r0, 16;\n@%p0 bra A;\nld.global.u32 %r1, [%rd6];\nbra B;\n"
        "A: ld.global.u32 %r1, [%rd6+4];\nB: ld.global.u32 %r2, [%rd6];";
    const char *turns =
        "A: setp.eq.s32 %p0, %r0, 0;\n@%p0 bra B;\nadd.s32 %r0, %r0, -1;\nbra A;\n"
        "B: ld.global.u32 %r1, [%rd6];";
    expect_requests(parts, 3);
    expect_requests(turns, 1);
}

Test(ptx_isa, faults_are_named) {
    expect_fault("setp.lt.u32 %p0, %r0, 32;\n@%p0 bra A;\nbar.sync 0;\nbra B;\nA: bar.sync 0;\nB:",
                 64, PTX_BAD_BARRIER, "divergent barrier: thread 32");
    expect_fault("setp.eq.s32 %p0, %r0, 5;\n@%p0 ret;\nbar.sync 0;", 64, PTX_BAD_BARRIER,
                 "63 of 64");
    expect_fault("setp.eq.s32 %p0, %r0, 5;\n@%p0 ret;\nshfl.sync.bfly.b32 %r1|%p1, %r0, 1, 31, -1;",
                 32, PTX_BAD_SHUFFLE, "names lanes 0x20");
    expect_fault(
        "setp.gt.u32 %p0, %r0, 15;\n@%p0 ret;\nshfl.sync.bfly.b32 %r1|%p1, %r0, 16, 31, 65535;", 32,
        PTX_BAD_SHUFFLE, "reads lane 16");
    expect_fault(
        "setp.eq.s32 %p0, %r0, 5;\n@%p0 ret;\n"
        "ldmatrix.sync.aligned.m8n8.x4.shared.b16 {%r1, %r2, %r3, %r4}, [area];",
        32, PTX_BAD_SHUFFLE, "lanes 0x20 do not come");
    expect_fault("cp.async.cg.shared.global [area+8], [%rd6], 16, 16;", 1, PTX_MISALIGNED,
                 "16 bytes");
    expect_fault("A: bra A;", 1, PTX_ENDLESS, "does not end");
    expect_fault("st.shared.u32 [area+256], %r0;", 1, PTX_OUT_OF_BOUNDS, "shared memory");
    expect_fault("st.shared.u32 [area], %r0;", 2, PTX_RACE, "writes byte 0 of area");
    expect_fault("atom.shared.add.u32 %r1, [area], 1;", 1, PTX_UNINITIALISED, "byte 0 of area");
    expect_fault("st.shared.u32 [area], %r0;\natom.shared.add.u32 %r1, [area], 1;", 2, PTX_RACE,
                 "writes byte 0 of area");
    expect_fault(
        "setp.eq.s32 %p0, %r0, 0;\n@%p0 st.shared.u32 [area], %r0;\nbar.sync 0;\n"
        "ld.shared.u32 %r1, [area];\natom.shared.add.u32 %r1, [area], 1;",
        2, PTX_RACE, "writes byte 0 of area");
    expect_fault(/* by the last that added, when others did, too */
                 "setp.eq.s32 %p0, %r0, 0;\n@%p0 st.shared.u32 [area], %r0;\nbar.sync 0;\n"
                 "atom.shared.add.u32 %r1, [area], 1;\n@!%p0 ld.shared.u32 %r1, [area];",
                 2, PTX_RACE, "reads byte 0 of area");
    expect_fault("ld.global.u32 %r1, [%rd6+24];", 1, PTX_OUT_OF_BOUNDS,
                 "byte 24 of in, which has 24");
    expect_fault("ld.global.v2.u32 {%r1, %r2}, [%rd6+4];", 1, PTX_MISALIGNED, "8 bytes");
    expect_fault("st.global.u32 [%rd6], %r0;", 1, PTX_READ_ONLY, "writes byte 0 of in");
}

Test(ptx_isa, atoms_of_several_threads_come_one_after_the_other) {
    char text[2048];
    uint64_t in[3] = {0}, out = 0;
    (void)snprintf(text, sizeof text,
                   "%smov.u32 %%r0, %%tid.x;\nsetp.eq.s32 %%p0, %%r0, 0;\n"
                   "@%%p0 st.shared.u32 [area], %%r0;\nbar.sync 0;\n"
                   "atom.shared.add.u32 %%r1, [area], 3;\nbar.sync 0;\n"
                   "ld.shared.u32 %%r2, [area];\nmul.wide.u32 %%rd5, %%r2, 100;\n"
                   "cvt.u64.u32 %%rd4, %%r1;\nadd.s64 %%rd5, %%rd5, %%rd4;\n"
                   "setp.ne.s32 %%p0, %%r0, 63;\n@%%p0 ret;\nst.global.u64 [%%rd7], %%rd5;\n" TAIL,
                   k_head);
    const ptx_report report = run(text, 64, false, in, &out);
    cr_assert_eq(report.count, 0, "%s", report.findings[0].text);
    cr_assert_eq(out,
                 3 * 64 * 100 + 3 * 63); /* all of them; what 63 threads before the last left */
}

/* k calls one function twice, which calls another that is declared ahead and comes later: each has
 * registers and parameters of its own. */
/* 64 bits by 64 bits, plus 64, in parts of 32; and a difference that borrows. Names of an inner
 * scope hide those outside, and no longer than it lasts. */
Test(ptx_isa, carries_are_kept) {
    const uint64_t a = 0xfedcba9876543210u, b = 0x9abcdef013579bdfu, c = 0xffffffff80000001u;
    static const char wide[] =
        "mov.u32 %r1, 77;\n{\n.reg .u32 %r0, %r1, %r2, %r3, %al, %ah, %bl, %bh, %cl, %ch;\n"
        "mov.b64 {%al,%ah}, %rd0;\nmov.b64 {%bl,%bh}, %rd1;\nmov.b64 {%cl,%ch}, %rd2;\n"
        "mad.lo.cc.u32 %r0, %al, %bl, %cl;\nmadc.hi.cc.u32 %r1, %al, %bl, %ch;\n"
        "madc.hi.u32 %r2, %al, %bh, 0;\nmad.lo.cc.u32 %r1, %al, %bh, %r1;\n"
        "madc.hi.cc.u32 %r2, %ah, %bl, %r2;\nmadc.hi.u32 %r3, %ah, %bh, 0;\n"
        "mad.lo.cc.u32 %r1, %ah, %bl, %r1;\nmadc.lo.cc.u32 %r2, %ah, %bh, %r2;\n"
        "addc.u32 %r3, %r3, 0;\n";
    static const char less[] =
        "{\n.reg .u32 %al, %ah, %bl, %bh;\n"
        "mov.b64 {%al,%ah}, %rd0;\nmov.b64 {%bl,%bh}, %rd1;\n"
        "sub.cc.u32 %al, %al, %bl;\nsubc.u32 %ah, %ah, %bh;\nmov.b64 %rd3, {%al,%ah};\n}\n";
    __extension__ typedef unsigned __int128 u128;
    const u128 want = (u128)a * b + c;
    char text[1024];
    (void)snprintf(text, sizeof text, "%smov.b64 %%rd3, {%%r0,%%r1};\n}\n", wide);
    cr_assert_eq(result_of("u64", text, a, b, c), (uint64_t)want);
    (void)snprintf(text, sizeof text, "%smov.b64 %%rd3, {%%r2,%%r3};\n}\n", wide);
    cr_assert_eq(result_of("u64", text, a, b, c), (uint64_t)(want >> 64));
    (void)snprintf(text, sizeof text, "%s}\nmov.u32 %%r3, %%r1;\n", wide);
    cr_assert_eq(result_of("u32", text, a, b, c), 77);
    cr_assert_eq(result_of("u64", less, b, a, 0), b - a);
}

Test(ptx_isa, functions_are_called) {
    static const char head[] =
        ".version 9.0\n.target sm_90\n.address_size 64\n"
        ".func (.param .b64 func_retval0) twice(.param .b64 twice_param_0)\n;\n"
        ".func (.param .align 8 .b8 func_retval0[16]) both(.param .b64 both_param_0, .param .b64 "
        "both_param_1)\n{\n.reg .b64 %rd<4>;\n"
        "ld.param.u64 %rd1, [both_param_0];\nld.param.u64 %rd2, [both_param_1];\n"
        "{\n.param .b64 param0;\nst.param.b64 [param0+0], %rd1;\n.param .b64 retval0;\n"
        "call.uni (retval0), twice, (param0);\nld.param.b64 %rd3, [retval0+0];\n}\n"
        "st.param.b64 [func_retval0+0], %rd3;\nst.param.b64 [func_retval0+8], %rd2;\nret;\n}\n";
    static const char body[] =
        "ld.global.u64 %rd1, [%rd6];\nld.global.u64 %rd2, [%rd6+8];\n"
        "{\n.param .b64 param0;\nst.param.b64 [param0+0], %rd1;\n.param .b64 param1;\n"
        "st.param.b64 [param1+0], %rd2;\n.param .align 8 .b8 retval0[16];\n"
        "call.uni (retval0),\nboth,\n(\nparam0,\nparam1\n);\n"
        "ld.param.b64 %rd3, [retval0+0];\nld.param.b64 %rd4, [retval0+8];\n}\n"
        "{\n.param .b64 param0;\nst.param.b64 [param0+0], %rd3;\n.param .b64 retval0;\n"
        "call.uni (retval0), twice, (param0);\nld.param.b64 %rd5, [retval0+0];\n}\n"
        "add.s64 %rd5, %rd5, %rd4;\nst.global.u64 [%rd7], %rd5;\n" TAIL;
    static const char tail[] =
        ".func (.param .b64 func_retval0) twice(.param .b64 twice_param_0)\n{\n"
        ".reg .b64 %rd<4>;\nld.param.u64 %rd1, [twice_param_0];\nadd.s64 %rd2, %rd1, %rd1;\n"
        "st.param.b64 [func_retval0+0], %rd2;\nret;\n}\n";
    char text[4096];
    uint64_t in[3] = {5, 7, 0}, out = 0;
    (void)snprintf(text, sizeof text, "%s%s%s%s", head, strstr(k_head, ".visible"), body, tail);
    const ptx_report report = run(text, 2, false, in, &out);
    cr_assert_eq(report.count, 0, "%s", report.findings[0].text);
    cr_assert_eq(out, 27);
}

Test(ptx_isa, what_is_not_executed_is_refused_by_line_and_name) {
    static const struct {
        const char *body, *words;
    } k[] = {{"mma.sync.aligned.m16n8k8.row.col.f32.f16.f16.f32 {%f0, %f1, %f2, %f3}, {%r0, %r1}, "
              "{%r2}, {%f0, %f1, %f2, %f3};",
              "m16n8k8.row.col.f32.f16.f16.f32: a part"},
             {"atom.global.add.u32 %r1, [%rd6], 1;", "line 15: atom.global.add.u32"},
             {"add.cc.u64 %rd1, %rd0, 1;", "add.cc.u64: carries of other"},
             {"ld.u32 %r1, [%rd6];", "generic addresses"},
             {"add.u32 %r1, %r0;", "operands"},
             {"add.u32 %r1, %r0, %nope;", "%nope is unknown"},
             {"bra NOWHERE;", "no label NOWHERE"},
             {"call.uni nobody;", "no function nobody"}};
    for (size_t i = 0; i < sizeof k / sizeof k[0]; i++) {
        char text[2048], error[256] = "";
        (void)snprintf(text, sizeof text, "%s%s\n" TAIL, k_head, k[i].body);
        cr_assert_null(ptx_parse(text, error, sizeof error), "%s", k[i].body);
        cr_assert_not_null(strstr(error, k[i].words), "%s", error);
    }
}
