/* SPDX-License-Identifier: Apache-2.0
 *
 * Datasets made of others, drawn samples and collated batches. Sample i of the fixture is
 * [i, i + 0.25, i + 0.5] and 10 * i.
 */
#include <math.h>

#include "data_fixture.h"

static void set_up(void) { open_context("", ""); }

TestSuite(dataset, .init = set_up, .fini = close_context, .timeout = 120);

enum { SAMPLES = 20 };

static void expect_samples(dhow_dataset *dataset, const int64_t *samples, int64_t count) {
    dhow_tensor *columns[2];
    int64_t indices[64], y[64];
    float x[64 * FEATURES];
    cr_assert_eq(dhow_dataset_sample_count(dataset), count);
    for (int64_t i = 0; i < count; i++) indices[i] = i;
    OK(dhow_dataset_read(dataset, indices, count, columns));
    cr_assert_eq(dhow_tensor_extent(columns[0], 0), count);
    OK(dhow_tensor_read(columns[0], x, (uint64_t)count * FEATURES * sizeof *x));
    OK(dhow_tensor_read(columns[1], y, (uint64_t)count * sizeof *y));
    for (int64_t i = 0; i < count; i++) {
        cr_assert_eq(y[i], 10 * samples[i], "sample %ld is %ld", (long)i, (long)y[i] / 10);
        for (int k = 0; k < FEATURES; k++)
            cr_assert_eq(x[i * FEATURES + k], (float)samples[i] + 0.25f * (float)k);
    }
    for (int c = 0; c < 2; c++) dhow_tensor_release(columns[c]);
}

Test(dataset, samples_are_read_by_index) {
    dhow_dataset *all = make_dataset(SAMPLES);
    dhow_tensor *columns[2];
    const int64_t three[] = {19, 0, 19}, wrong[] = {0, 20};
    int64_t y[3];
    OK(dhow_dataset_read(all, three, 3, columns));
    OK(dhow_tensor_read(columns[1], y, sizeof y));
    cr_assert(y[0] == 190 && y[1] == 0 && y[2] == 190);
    for (int c = 0; c < 2; c++) dhow_tensor_release(columns[c]);
    memset(columns, 0x5a, sizeof columns);
    FAILS(DHOW_OUT_OF_RANGE, dhow_dataset_read(all, wrong, 2, columns));
    SAYS("indices[1] is 20, the dataset has 20 samples");
    cr_assert(columns[0] == NULL && columns[1] == NULL);
    OK(dhow_dataset_read(all, NULL, 0, columns));
    cr_assert_eq(dhow_tensor_extent(columns[0], 0), 0);
    for (int c = 0; c < 2; c++) dhow_tensor_release(columns[c]);
    dhow_dataset_release(all);
}

Test(dataset, parts_and_rows_of_parts_have_the_samples_they_say) {
    static const int64_t chosen[] = {3, 3, 17, 0}, none[] = {-1};
    static const int64_t again[] = {17, 3, 3, 3, 17, 0};
    dhow_dataset *all = make_dataset(SAMPLES), *some, *other, *row;
    OK(dhow_dataset_subset(all, chosen, 4, &some));
    expect_samples(some, chosen, 4);
    OK(dhow_dataset_subset(some, (const int64_t[]){2, 0}, 2, &other));
    OK(dhow_dataset_concat((dhow_dataset *[]){other, some}, 2, &row));
    dhow_dataset_release(all);
    dhow_dataset_release(some);
    dhow_dataset_release(other);
    expect_samples(row, again, 6);
    FAILS(DHOW_OUT_OF_RANGE, dhow_dataset_subset(row, none, 1, &other));
    SAYS("indices[0] is -1");
    cr_assert_null(other);
    dhow_dataset_release(row);
}

Test(dataset, an_empty_part_of_a_row_is_passed_over) {
    static const int64_t want[] = {0, 1, 0, 1};
    dhow_dataset *two = make_dataset(2), *none = make_dataset(0), *row;
    OK(dhow_dataset_concat((dhow_dataset *[]){none, two, none, none, two, none}, 6, &row));
    expect_samples(row, want, 4);
    dhow_dataset_release(two);
    dhow_dataset_release(none);
    dhow_dataset_release(row);
}

Test(dataset, a_split_deals_out_every_sample_once) {
    for (int shuffle = 0; shuffle < 2; shuffle++) {
        dhow_dataset *all = make_dataset(SAMPLES), *parts[3];
        int seen[SAMPLES] = {0}, moved = 0;
        OK(dhow_dataset_split(all, (const int64_t[]){12, -1, 3}, 3, shuffle, 7, parts));
        dhow_dataset_release(all);
        cr_assert_eq(dhow_dataset_sample_count(parts[1]), 5);
        for (int p = 0, at = 0; p < 3; p++) {
            for (int64_t i = 0; i < dhow_dataset_sample_count(parts[p]); i++, at++) {
                dhow_tensor *columns[2];
                int64_t y;
                OK(dhow_dataset_read(parts[p], &i, 1, columns));
                OK(dhow_tensor_read(columns[1], &y, sizeof y));
                seen[y / 10]++;
                moved += y != 10 * at;
                for (int c = 0; c < 2; c++) dhow_tensor_release(columns[c]);
            }
            dhow_dataset_release(parts[p]);
        }
        for (int i = 0; i < SAMPLES; i++) cr_assert_eq(seen[i], 1, "sample %d", i);
        cr_assert(shuffle ? moved > SAMPLES / 2 : moved == 0, "%d moved", moved);
    }
}

Test(dataset, what_does_not_fit_is_refused_with_its_name) {
    static const int64_t shape[] = {4, 2};
    dhow_dataset *all = make_dataset(SAMPLES), *out[2], *other;
    dhow_tensor *t;
    FAILS(DHOW_INVALID_ARGUMENT, dhow_dataset_split(all, (const int64_t[]){12, 9}, 2, 0, 0, out));
    SAYS("counts[1] is 9 where 8 of 20 samples are left");
    FAILS(DHOW_INVALID_ARGUMENT, dhow_dataset_split(all, (const int64_t[]){12, 7}, 2, 0, 0, out));
    SAYS("the parts hold 19 of 20 samples; give one the count -1, the rest");
    FAILS(DHOW_INVALID_ARGUMENT, dhow_dataset_split(all, (const int64_t[]){-1, -1}, 2, 0, 0, out));
    SAYS("one part alone can be -1");
    OK(dhow_tensor_zeros(g_cpu, DHOW_F32, 2, shape, &t));
    OK(dhow_dataset_from_tensors((dhow_tensor *[]){t, t}, 2, &other));
    FAILS(DHOW_INVALID_ARGUMENT, dhow_dataset_concat((dhow_dataset *[]){all, other}, 2, out));
    SAYS("column 0 of part 1 is f32[2], of part 0 f32[3]");
    FAILS(DHOW_INVALID_ARGUMENT, dhow_dataset_concat(out, 0, out));
    dhow_tensor_release(t);
    dhow_dataset_release(other);
    dhow_dataset_release(all);
}

/* ---- samples that are changed as they are read ---- */

typedef struct change {
    int released;
    int64_t fails_at;
} change;

/* x and y become x[0] * 2, the epoch, and the seed. */
static dhow_status double_first(void *user, const dhow_sample *sample, const void *const *in,
                                void *const *out) {
    const change *c = user;
    const float *x = in[0];
    if (sample->index == c->fails_at) return DHOW_IO_ERROR;
    if (sample->worker > 3 || x[0] != (float)sample->index) return DHOW_CORRUPT;
    *(float *)out[0] = 2 * x[0];
    *(int64_t *)out[1] = sample->epoch;
    *(uint64_t *)out[2] = sample->seed;
    return DHOW_OK;
}

static void note_release(void *user) { ((change *)user)->released++; }

static dhow_dataset *make_mapped(change *c) {
    const dhow_dataset_column columns[] = {DHOW_FIELDS(dhow_dataset_column, .dtype = DHOW_F32),
                                           DHOW_FIELDS(dhow_dataset_column, .dtype = DHOW_I64),
                                           DHOW_FIELDS(dhow_dataset_column, .dtype = DHOW_U64)};
    dhow_dataset *all = make_dataset(SAMPLES), *made;
    OK(dhow_dataset_map(all,
                        &DHOW_INIT(dhow_dataset_mapping, .column_count = 3, .columns = columns,
                                   .map = double_first, .release = note_release, .user = c),
                        &made));
    dhow_dataset_release(all);
    return made;
}

Test(dataset, a_mapping_is_told_the_same_whatever_the_workers) {
    uint64_t seeds[3][2][SAMPLES] = {{{0}}};
    for (uint32_t workers = 0; workers < 3; workers++) {
        change c = {.fails_at = -1};
        dhow_dataset *made = make_mapped(&c);
        dhow_loader *loader;
        OK(dhow_loader_create(made,
                              &DHOW_INIT(dhow_loader_options, .batch_size = 3 + (int)workers,
                                         .shuffle = 1, .seed = 5, .workers = workers),
                              &loader));
        for (int epoch = 0; epoch < 2; epoch++) {
            dhow_batch b = DHOW_INIT(dhow_batch);
            for (;;) {
                float x[8];
                int64_t in_epoch[8];
                uint64_t seed[8];
                OK(dhow_loader_next(loader, &b));
                if (b.sample_count == 0) break;
                OK(dhow_tensor_read(b.tensors[0], x, (uint64_t)b.sample_count * sizeof *x));
                OK(dhow_tensor_read(b.tensors[1], in_epoch,
                                    (uint64_t)b.sample_count * sizeof *in_epoch));
                OK(dhow_tensor_read(b.tensors[2], seed, (uint64_t)b.sample_count * sizeof *seed));
                for (int64_t i = 0; i < b.sample_count; i++) {
                    cr_assert_eq(in_epoch[i], epoch);
                    seeds[workers][epoch][(int)x[i] / 2] = seed[i];
                }
            }
        }
        dhow_loader_release(loader);
        dhow_dataset_release(made);
        cr_assert_eq(c.released, 1);
    }
    for (int w = 1; w < 3; w++) cr_assert_eq(memcmp(seeds[0], seeds[w], sizeof seeds[0]), 0);
    cr_assert_neq(seeds[0][0][1], seeds[0][1][1]);
    cr_assert_neq(seeds[0][0][1], seeds[0][0][2]);
}

Test(dataset, a_mapping_that_fails_names_its_sample) {
    change c = {.fails_at = 4};
    dhow_dataset *made = make_mapped(&c);
    dhow_loader *loader;
    dhow_batch b = DHOW_INIT(dhow_batch);
    OK(dhow_loader_create(made, &DHOW_INIT(dhow_loader_options, .batch_size = 3), &loader));
    OK(dhow_loader_next(loader, &b));
    FAILS(DHOW_IO_ERROR, dhow_loader_next(loader, &b));
    SAYS("map of sample 4 returned IO_ERROR");
    SAYS("batch 1");
    dhow_loader_release(loader);
    dhow_dataset_release(made);
    FAILS(DHOW_INVALID_ARGUMENT,
          dhow_dataset_map(NULL, &DHOW_INIT(dhow_dataset_mapping, .map = double_first), &made));
}

/* ---- drawn samples ---- */

static int64_t draw(const double *weights, uint64_t seed, int64_t draws, int *counts) {
    dhow_dataset *all = make_dataset(SAMPLES);
    dhow_loader *loader;
    OK(dhow_loader_create(all,
                          &DHOW_INIT(dhow_loader_options, .batch_size = 64, .weights = weights,
                                     .draws = draws, .seed = seed),
                          &loader));
    dhow_batch b = DHOW_INIT(dhow_batch);
    int64_t total = 0;
    for (;;) {
        OK(dhow_loader_next(loader, &b));
        if (b.sample_count == 0) break;
        check_batch(loader, &b);
        for (int64_t i = 0; i < b.sample_count; i++)
            counts[dhow_loader_sample_at(loader, 0, b.first_sample + i)]++;
        total += b.sample_count;
    }
    cr_assert_eq(dhow_loader_sample_at(loader, 0, total), -1);
    dhow_loader_release(loader);
    dhow_dataset_release(all);
    return total;
}

Test(dataset, samples_are_drawn_by_their_weights) {
    enum { DRAWS = 40000 };
    double weights[SAMPLES] = {0}, sum = 0;
    int counts[SAMPLES] = {0}, same[SAMPLES] = {0}, others[SAMPLES] = {0};
    for (int i = 1; i < SAMPLES - 1; i++) sum += weights[i] = i % 3;
    cr_assert_eq(draw(weights, 1, DRAWS, counts), DRAWS);
    for (int i = 0; i < SAMPLES; i++) {
        const double p = weights[i] / sum, want = DRAWS * p;
        cr_assert(fabs(counts[i] - want) <= 5 * sqrt(want * (1 - p)), "sample %d: %d draws, not %g",
                  i, counts[i], want);
    }
    cr_assert_eq(draw(weights, 1, 0, same), SAMPLES);
    cr_assert_eq(draw(weights, 2, 0, others), SAMPLES);
    cr_assert_neq(memcmp(same, others, sizeof same), 0);
}

Test(dataset, weights_that_are_none_are_refused) {
    dhow_dataset *all = make_dataset(3);
    dhow_loader *loader;
    const double bad[][3] = {{0, 0, 0}, {1, -1, 1}, {1, (double)NAN, 1}, {1, 1, (double)INFINITY}};
    static const char *const says[] = {"all 3 weights are 0", "weights[1] is -1",
                                       "weights[1] is nan", "weights[2] is inf"};
    for (int i = 0; i < 4; i++) {
        FAILS(DHOW_INVALID_ARGUMENT,
              dhow_loader_create(all, &DHOW_INIT(dhow_loader_options, .weights = bad[i]), &loader));
        SAYS(says[i]);
    }
    FAILS(DHOW_INVALID_ARGUMENT,
          dhow_loader_create(all, &DHOW_INIT(dhow_loader_options, .weights = bad[1], .shuffle = 1),
                             &loader));
    SAYS("shuffle and weights exclude each other");
    FAILS(DHOW_INVALID_ARGUMENT,
          dhow_loader_create(all, &DHOW_INIT(dhow_loader_options, .draws = 3), &loader));
    SAYS("draws is 3 without weights");
    dhow_dataset_release(all);
}

/* ---- collated batches ---- */

enum { LENGTH = 5, WIDTH = 2 };

/* Sample i holds i % 5 + 1 rows of [i + row, -(i + row)], and rows of -1000. */
static dhow_status read_text(void *user, const int64_t *indices, int64_t count,
                             void *const *columns) {
    (void)user;
    for (int64_t i = 0; i < count; i++) {
        float *to = (float *)columns[0] + i * LENGTH * WIDTH;
        for (int r = 0; r < LENGTH; r++) {
            const float value = r <= indices[i] % LENGTH ? (float)(indices[i] + r) : -1000;
            to[r * WIDTH] = value;
            to[r * WIDTH + 1] = value == -1000 ? -1000 : -value;
        }
        ((int32_t *)columns[1])[i] = (int32_t)(indices[i] % LENGTH + 1);
    }
    return DHOW_OK;
}

static int64_t g_too_much;

static dhow_status to_the_longest(void *user, const dhow_collation *b) {
    int64_t longest = 0;
    (void)user;
    if (b->struct_size < sizeof(uint32_t) || b->column_count != 2) return DHOW_CORRUPT;
    for (int64_t i = 0; i < b->sample_count; i++) {
        const int32_t length = ((const int32_t *)b->columns[1])[i];
        if (length > longest) longest = length;
        float *rows = (float *)b->columns[0] + i * LENGTH * WIDTH;
        for (int r = length; r < LENGTH; r++) rows[r * WIDTH] = rows[r * WIDTH + 1] = 0;
    }
    b->extents[0][0] = longest + g_too_much;
    return b->index == 1000 ? DHOW_IO_ERROR : DHOW_OK;
}

static dhow_loader *texts_on(const char *device, uint32_t workers, dhow_dataset **out) {
    const dhow_dataset_column columns[] = {
        DHOW_FIELDS(dhow_dataset_column, .dtype = DHOW_F32, .rank = 2, .shape = {LENGTH, WIDTH}),
        DHOW_FIELDS(dhow_dataset_column, .dtype = DHOW_I32)};
    dhow_loader *loader;
    OK(dhow_dataset_create(g_context,
                           &DHOW_INIT(dhow_dataset_source, .sample_count = 33, .column_count = 2,
                                      .columns = columns, .read = read_text),
                           out));
    OK(dhow_loader_create(*out,
                          &DHOW_INIT(dhow_loader_options, .batch_size = 2, .workers = workers,
                                     .device = device_of(device), .collate = to_the_longest),
                          &loader));
    return loader;
}

static void expect_texts(const dhow_batch *b) {
    float rows[2 * LENGTH * WIDTH];
    int64_t longest = 0;
    for (int64_t i = 0; i < b->sample_count; i++)
        longest = (b->first_sample + i) % LENGTH + 1 > longest ? (b->first_sample + i) % LENGTH + 1
                                                               : longest;
    cr_assert_eq(dhow_tensor_extent(b->tensors[0], 1), longest, "batch %ld", (long)b->index);
    cr_assert_eq(dhow_tensor_extent(b->tensors[0], 2), WIDTH);
    OK(dhow_tensor_read(b->tensors[0], rows,
                        (uint64_t)(b->sample_count * longest * WIDTH) * sizeof *rows));
    for (int64_t i = 0; i < b->sample_count; i++) {
        const int64_t sample = b->first_sample + i;
        for (int64_t r = 0; r < longest; r++) {
            const float want = r <= sample % LENGTH ? (float)(sample + r) : 0;
            const float *got = rows + (i * longest + r) * WIDTH;
            cr_assert(got[0] == want && got[1] == -want, "sample %ld, row %ld: %g, not %g",
                      (long)sample, (long)r, (double)got[0], (double)want);
        }
    }
}

Test(dataset, batches_are_as_long_as_their_longest_sample) {
    static const char *const devices[] = {"cpu", "sim:0"};
    for (int d = 0; d < 2; d++) {
        for (uint32_t workers = 0; workers < 3; workers += 2) {
            dhow_dataset *texts;
            dhow_loader *loader = texts_on(devices[d], workers, &texts);
            for (int epoch = 0; epoch < 2; epoch++) {
                dhow_batch b = DHOW_INIT(dhow_batch);
                for (;;) {
                    OK(dhow_loader_next(loader, &b));
                    if (b.sample_count == 0) break;
                    expect_texts(&b);
                }
            }
            dhow_loader_release(loader);
            dhow_dataset_release(texts);
        }
    }
}

Test(dataset, extents_cannot_grow) {
    dhow_dataset *texts;
    dhow_batch b = DHOW_INIT(dhow_batch);
    g_too_much = 4;
    dhow_loader *loader = texts_on("cpu", 0, &texts);
    FAILS(DHOW_INVALID_ARGUMENT, dhow_loader_next(loader, &b));
    SAYS("collate set extents[0][0] to 6; 0 to 5 are allowed");
    dhow_loader_release(loader);
    dhow_dataset_release(texts);
}
