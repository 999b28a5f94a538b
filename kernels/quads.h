/* SPDX-License-Identifier: Apache-2.0
 *
 * matmul_nbits with codes of 4 bits on CUDA. The four items of a quad share two or four rows of w, 16 bytes of each at once: 32 codes,
 * which lie in one block. The warps of a group share k and meet in shared memory. Included by nbits.k.
 *
 * Codes become numbers by bytes: where the bits 3 to 6 of one hold a code c, it is the mantissa's top below the byte 0x40 of
 * 2.0f, so that f32 and bf16 have 2 + c / 8. f16 has c 2^-24, a code in the bits 0 to 3 below a byte of zeros.
 */
#ifdef K_CUDA
#if __CUDA_ARCH__ >= 800
#define TENSOR_f16 1
#define TENSOR_bf16 1
#endif
#define HAS_TENSOR K_CAT(TENSOR_, T)
#if HAS_TENSOR
#define SHARED_COLUMNS 2 /* of a quad, 8 apart */
#else
#define SHARED_COLUMNS 4
#endif
#define EACH_SHARED(s) UNROLL for (int s = 0; s < SHARED_COLUMNS; s++)
#define QUAD_COLUMNS (8 * SHARED_COLUMNS)
#define QUAD_CODES 32
#define QUAD_STEP (4 * QUAD_CODES) /* codes of a row that a warp takes at once */
#define QUAD_ROWS 4
#define WARPS (K_WG / 32)
#define OWN_LANE ((u32)LID % 32)
#define OWN_WARP ((u32)LID / 32)

typedef struct quad_weights {
    const u8 *w, *zeros;
    const T *scales, *zero_numbers;
    idx n, k, blocks;
    i32 shift, zero_mode;
} quad_weights;

FN k_wide quad_codes(const quad_weights &q, const idx column, const idx at)
{
    return *(const k_wide *)(q.w + ((column * q.blocks) << (q.shift - 1)) + (at >> 1));
}
#define LOW_CODES_f16 1 /* of bytes in the bits 0 to 3 */
FN u32 first_codes(const u32 word)
{
#if K_CAT(LOW_CODES_, T) && HAS_TENSOR
    return word & 0x0f0f0f0fu;
#else
    return word << 3 & 0x78787878u;
#endif
}
FN u32 second_codes(const u32 word)
{
#if K_CAT(LOW_CODES_, T) && HAS_TENSOR
    return word >> 4 & 0x0f0f0f0fu;
#else
    return word >> 1 & 0x78787878u;
#endif
}

#if HAS_TENSOR

/* Products on tensor cores (mma.m16n8k16): columns of c are the rows of the first operand. A quad's items lie in four blocks,
 * whose scales differ, so the second operand has a column for each block and row of a, zeros elsewhere: what comes out for an
 * item are the sums of its own block alone. The same with ones for codes makes sums of a, by which zero points count. */
#define QUAD_TEXT_(x) #x
#define QUAD_TEXT(x) QUAD_TEXT_(x)
#define HIGH_f16 0u
#define HIGH_bf16 0x40404040u
#define ONES_f16 0x3c003c00u
#define ONES_bf16 0x3f803f80u
#define FACTOR_f16 16777216.0f
#define FACTOR_bf16 8.0f
#define OFFSET_f16 0.0f
#define OFFSET_bf16 16.0f

FN void quad_multiply(f32 *sums, const u32 *codes, const u32 *a)
{
    asm("mma.sync.aligned.m16n8k16.row.col.f32." QUAD_TEXT(T) "." QUAD_TEXT(T) ".f32 {%0,%1,%2,%3}, {%4,%5,%6,%7}, {%8,%9}, {%0,%1,%2,%3};"
        : "+f"(sums[0]), "+f"(sums[1]), "+f"(sums[2]), "+f"(sums[3])
        : "r"(codes[0]), "r"(codes[1]), "r"(codes[2]), "r"(codes[3]), "r"(a[0]), "r"(a[1]));
}

/* The elements of a word's codes in pairs: 0 and 2, 4 and 6, 1 and 3, 5 and 7. */
FN void pairs_of_row(const T *from, u32 *pairs)
{
    UNROLL for (int i = 0; i < QUAD_CODES / 8; i++) {
        const k_wide x = ((const k_wide *)from)[i];
        UNROLL for (int p = 0; p < 2; p++) {
            pairs[4 * i + p] = __byte_perm(x.words[2 * p], x.words[2 * p + 1], 0x5410);
            pairs[4 * i + 2 + p] = __byte_perm(x.words[2 * p], x.words[2 * p + 1], 0x7632);
        }
    }
}

/* What an item has of rows 0 to count - 1 at a, 2 * HALVES at most, by two columns. */
template <int HALVES>
FN void quad_sums(const quad_weights &q, const T *a, const idx count, const idx column, f32 (*sums)[SHARED_COLUMNS])
{
    const u32 lane = OWN_LANE, part = lane % 4;
    const idx columns[2] = {MINOF(column, q.n - 1), MINOF(column + 8, q.n - 1)};
    idx first = OWN_WARP * QUAD_STEP, at = first + part * QUAD_CODES;
    k_wide next[2];
    UNROLL for (int s = 0; s < 2; s++) next[s] = quad_codes(q, columns[s], MINOF(at, q.k - QUAD_CODES));
    ROLLED for (; first < q.k; first += WARPS * QUAD_STEP, at += WARPS * QUAD_STEP)
    {
        const idx block = MINOF(at, q.k - QUAD_CODES) >> q.shift;
        const k_wide codes[2] = {next[0], next[1]};
        u32 x[HALVES][2 * QUAD_CODES / 4];
        f32 products[HALVES][4], totals[HALVES][4];
        UNROLL for (int h = 0; h < HALVES; h++) {
            const idx r = 2 * h + lane / 4 % 2;
            UNROLL for (int e = 0; e < 2 * QUAD_CODES / 4; e++) x[h][e] = 0;
            if (part == lane / 8 && r < count && at < q.k) pairs_of_row(a + r * q.k + at, x[h]);
            UNROLL for (int e = 0; e < 4; e++) products[h][e] = totals[h][e] = 0;
        }
        if (first + WARPS * QUAD_STEP < q.k)
            UNROLL for (int s = 0; s < 2; s++) next[s] = quad_codes(q, columns[s], MINOF(at + WARPS * QUAD_STEP, q.k - QUAD_CODES));
        UNROLL for (int i = 0; i < 4; i++) {
            u32 pairs[2][4];
            const u32 ones[4] = {K_CAT(ONES_, T), K_CAT(ONES_, T), K_CAT(ONES_, T), K_CAT(ONES_, T)};
            UNROLL for (int s = 0; s < 2; s++) {
                const u32 even = first_codes(codes[s].words[i]), odd = second_codes(codes[s].words[i]);
                pairs[0][s] = __byte_perm(even, K_CAT(HIGH_, T), 0x4140);
                pairs[0][2 + s] = __byte_perm(even, K_CAT(HIGH_, T), 0x4342);
                pairs[1][s] = __byte_perm(odd, K_CAT(HIGH_, T), 0x4140);
                pairs[1][2 + s] = __byte_perm(odd, K_CAT(HIGH_, T), 0x4342);
            }
            UNROLL for (int h = 0; h < HALVES; h++) {
                UNROLL for (int p = 0; p < 2; p++) {
                    quad_multiply(products[h], pairs[p], x[h] + 4 * i + 2 * p);
                    quad_multiply(totals[h], ones, x[h] + 4 * i + 2 * p);
                }
            }
        }
        UNROLL for (int s = 0; s < 2; s++) {
            const f32 zero = zero_at(q.zeros, q.zero_numbers, columns[s], block, q.blocks, 4, q.zero_mode) + K_CAT(OFFSET_, T);
            const f32 scale = at < q.k ? LOAD(T, q.scales, columns[s] * q.blocks + block) : 0.0f;
            UNROLL for (int r = 0; r < 2 * HALVES; r++)
                sums[r][s] += scale * (K_CAT(FACTOR_, T) * products[r / 2][2 * s + r % 2] - zero * totals[r / 2][r % 2]);
        }
    }
}
#define SUMS_OF_FEW quad_sums<1>
#define FEW 2
#define SUMS_OF_MANY quad_sums<2>
#define QUAD_TAKES(zero_mode) 1

#else

/* 2 + c / 8 of the e-th byte. */
FN f32 quad_number(const u32 codes, const int e)
{
    f32 v;
    asm("prmt.b32 %0,%1,%2,%3;" : "=f"(v) : "r"(codes), "r"(0x40000000), "r"(0x7044 | e << 8));
    return v;
}

template <int ROWS_>
FN void quad_sums(const quad_weights &q, const T *a, const idx count, const idx column, f32 (*sums)[SHARED_COLUMNS])
{
    const idx step = WARPS * QUAD_STEP;
    idx columns[SHARED_COLUMNS];
    idx at = OWN_WARP * QUAD_STEP + OWN_LANE % 4 * QUAD_CODES;
    k_wide next[SHARED_COLUMNS];
    EACH_SHARED(s) columns[s] = MINOF(column + 8 * s, q.n - 1);
    if (ROWS_ == 1 && at < q.k)
        EACH_SHARED(s) next[s] = quad_codes(q, columns[s], at);
    ROLLED for (; at < q.k; at += step)
    {
        const idx block = at >> q.shift;
        k_wide codes[SHARED_COLUMNS];
        f32 least[SHARED_COLUMNS], part[ROWS_][SHARED_COLUMNS];
        EACH_SHARED(s) codes[s] = ROWS_ == 1 ? next[s] : quad_codes(q, columns[s], at);
        if (ROWS_ == 1 && at + step < q.k) /* else registers are needed for sums */
            EACH_SHARED(s) next[s] = quad_codes(q, columns[s], at + step);
        EACH_SHARED(s) {
            least[s] = 2 + 0.125f * zero_at(q.zeros, q.zero_numbers, columns[s], block, q.blocks, 4, q.zero_mode);
            UNROLL for (int r = 0; r < ROWS_; r++) part[r][s] = 0;
        }
        UNROLL for (int i = 0; i < 8; i++) { /* halves of words */
            f32 code[SHARED_COLUMNS][4];
            EACH_SHARED(s) {
                const u32 word = codes[s].words[i / 2], even = first_codes(word), odd = second_codes(word);
                UNROLL for (int e = 0; e < 2; e++) {
                    code[s][2 * e] = quad_number(even, i % 2 * 2 + e) - least[s];
                    code[s][2 * e + 1] = quad_number(odd, i % 2 * 2 + e) - least[s];
                }
            }
            UNROLL for (int r = 0; r < ROWS_; r++) {
                f32 x[4];
                UNROLL for (int e = 0; e < 4; e += SHARE(T)) load_share(a + MINOF(r, count - 1) * q.k + at + 4 * i + e, x + e);
                EACH_SHARED(s) {
                    UNROLL for (int e = 0; e < 4; e++) part[r][s] += code[s][e] * x[e];
                }
            }
        }
        EACH_SHARED(s) {
            const f32 scale = 8 * LOAD(T, q.scales, columns[s] * q.blocks + block);
            UNROLL for (int r = 0; r < ROWS_; r++) sums[r][s] += scale * part[r][s];
        }
    }
}
#define SUMS_OF_FEW quad_sums<1>
#define FEW 1
#define SUMS_OF_MANY quad_sums<QUAD_ROWS>
#define QUAD_TAKES(zero_mode) ((zero_mode) != 2)

#endif

FN void multiply_quads(const quad_weights &q, const T *a, const T *bias, T *c, const idx m, const i32 bias_mode)
{
    __shared__ f32 red[QUAD_ROWS][WARPS][QUAD_COLUMNS];
    const u32 lane = OWN_LANE, warp = OWN_WARP, own = (u32)LID % QUAD_COLUMNS, row = (u32)LID / QUAD_COLUMNS;
    GROUP_FOR(tile, CDIV(q.n, QUAD_COLUMNS))
    {
        ROLLED for (idx i0 = 0; i0 < m; i0 += QUAD_ROWS)
        {
            const idx rows = MINOF(QUAD_ROWS, m - i0), column = tile * QUAD_COLUMNS + lane / 4;
            f32 sums[QUAD_ROWS][SHARED_COLUMNS] = {{0}};
            if (rows <= FEW)
                SUMS_OF_FEW(q, a + i0 * q.k, rows, column, sums);
            else
                SUMS_OF_MANY(q, a + i0 * q.k, rows, column, sums);
            UNROLL for (int r = 0; r < QUAD_ROWS; r++) {
                if (r >= rows) break;
                EACH_SHARED(s) {
                    f32 v = sums[r][s] + __shfl_xor_sync(0xffffffffu, sums[r][s], 1);
                    v += __shfl_xor_sync(0xffffffffu, v, 2);
                    if (lane % 4 == 0) red[r][warp][lane / 4 + 8 * s] = v;
                }
            }
            K_BARRIER();
            if (row < (u32)rows && tile * QUAD_COLUMNS + own < (u32)q.n) {
                const idx j = tile * QUAD_COLUMNS + own;
                f32 v = bias_mode != 0 ? LOAD(T, bias, j) : 0.0f;
                UNROLL for (int i = 0; i < WARPS; i++) v += red[row][i][own];
                STORE(T, c, (i0 + row) * q.n + j, v);
            }
            K_BARRIER();
        }
    }
}

#undef KERNEL /* with the registers that two groups on a multiprocessor leave: compilers would rather spill some */
#define KERNEL(name, args) extern "C" __global__ void __launch_bounds__(K_WG, 8 / sizeof(idx)) name args
#endif
