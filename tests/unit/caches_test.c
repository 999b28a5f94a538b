/* SPDX-License-Identifier: Apache-2.0
 *
 * Caches of keys and values in place: steps of growing lengths write and read what they are told,
 * by one plan; an output that cannot be written in place is right all the same; lengths that lead
 * out of a cache are told. On the device that DHOW_DEVICE names.
 */
#include <criterion/criterion.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "dhow/dhow.h"
#include "onnx_writer.h"

#define OK(call) cr_assert_eq((call), DHOW_OK, "%s: %s", #call, dhow_last_error())

static dhow_context *g_context;
static dhow_device *g_device;

static void set_up(void) {
    OK(dhow_context_create(NULL, &g_context));
    OK(dhow_device_get(g_context, NULL, &g_device));
}
static void tear_down(void) { dhow_context_release(g_context); }
TestSuite(caches, .init = set_up, .fini = tear_down, .timeout = 120);

enum { ROOM = 80, MOST = 1 << 15 };

static uint32_t g_state = 1;
static float next_number(void) {
    g_state = g_state * 1664525u + 1013904223u;
    return (float)(g_state >> 8) / 0x1p23f - 1;
}

/* Whether runs look at lengths before they begin. */
static bool lengths_are_checked(void) {
    return strncmp(dhow_device_name(g_device), "cpu", 3) == 0 || getenv("DHOW_VALIDATE") != NULL;
}

/* ---- a model of caches and attention ---- */

typedef struct trial {
    int64_t batch, shared, sharing, depth, features;
    int causal;
    double softcap;
    dhow_dtype dtype;
} trial;

typedef struct network {
    trial t;
    dhow_model *model;
    float keys[MOST], values[MOST]; /* what the caches are to hold */
    dhow_tensor *cache[2];
} network;

static dhow_tensor *upload(dhow_dtype dtype, int32_t rank, const int64_t *shape,
                           const float *numbers) {
    dhow_tensor *wide, *x;
    OK(dhow_tensor_from_data(g_device, DHOW_F32, rank, shape, numbers, &wide));
    OK(dhow_tensor_to_dtype(NULL, wide, dtype, &x));
    dhow_tensor_release(wide);
    return x;
}

static void download(dhow_tensor *x, float *numbers) {
    dhow_tensor *wide;
    OK(dhow_tensor_to_dtype(NULL, x, DHOW_F32, &wide));
    OK(dhow_tensor_read(wide, numbers, (uint64_t)dhow_tensor_count(wide) * sizeof *numbers));
    dhow_tensor_release(wide);
}

static dhow_tensor *ints(int64_t count, const int64_t *numbers) {
    dhow_tensor *x;
    OK(dhow_tensor_from_data(g_device, DHOW_I64, 1, &count, numbers, &x));
    return x;
}

static void draw(dhow_dtype dtype, float *numbers, int64_t count) {
    for (int64_t i = 0; i < count; i++) numbers[i] = next_number();
    dhow_tensor *x = upload(dtype, 1, &count, numbers); /* as the type has them */
    download(x, numbers);
    dhow_tensor_release(x);
}

static void begin(network *n, const trial *t) {
    const int64_t widths[] = {t->depth, t->features};
    static const char *const names[] = {"k", "v"}, *const caches[] = {"keys", "values"},
                             *const news[] = {"new keys", "new values"};
    dhow_model *m;
    dhow_model_value q, in[2], start, lengths, y;
    n->t = *t;
    OK(dhow_model_create(g_context, &m));
    OK(dhow_model_input(m, "q", t->dtype,
                        DHOW_SHAPE(t->batch, t->shared * t->sharing, -1, t->depth), &q));
    OK(dhow_model_input(m, "start", DHOW_I64, DHOW_SHAPE(t->batch), &start));
    OK(dhow_model_input(m, "lengths", DHOW_I64, DHOW_SHAPE(t->batch), &lengths));
    for (int i = 0; i < 2; i++) {
        dhow_model_value x;
        const int64_t room[] = {t->batch, t->shared, ROOM, widths[i]};
        float *const hold = i == 0 ? n->keys : n->values;
        draw(t->dtype, hold, room[0] * room[1] * room[2] * room[3]);
        n->cache[i] = upload(t->dtype, 4, room, hold);
        OK(dhow_model_input(m, names[i], t->dtype, DHOW_SHAPE(t->batch, t->shared, -1, widths[i]),
                            &x));
        OK(dhow_model_input(m, caches[i], t->dtype, 4, room, &in[i]));
        OK(dhow_model_update_cache(m, in[i], x, start, &in[i]));
        OK(dhow_model_output(m, news[i], in[i]));
    }
    OK(dhow_model_cached_attention(m, q, in[0], in[1], lengths, t->causal, 0, t->softcap, &y));
    OK(dhow_model_output(m, "y", y));
    OK(dhow_model_to(m, g_device));
    n->model = m;
}

static void end(network *n) {
    dhow_model_release(n->model);
    for (int i = 0; i < 2; i++) dhow_tensor_release(n->cache[i]);
}

/* What a step is given and gives. */
typedef struct step {
    int64_t steps, start[4], lengths[4];
    float q[MOST], k[MOST], v[MOST], y[MOST];
} step;

static dhow_status run(network *n, step *s, bool shared) {
    const trial *t = &n->t;
    dhow_tensor *in[7], *out[3];
    const int64_t heads = t->shared * t->sharing, q[] = {t->batch, heads, s->steps, t->depth},
                  k[] = {t->batch, t->shared, s->steps, t->depth},
                  v[] = {t->batch, t->shared, s->steps, t->features};
    draw(t->dtype, s->q, q[0] * q[1] * q[2] * q[3]);
    draw(t->dtype, s->k, k[0] * k[1] * k[2] * k[3]);
    draw(t->dtype, s->v, v[0] * v[1] * v[2] * v[3]);
    in[0] = upload(t->dtype, 4, q, s->q);
    in[1] = ints(t->batch, s->start);
    in[2] = ints(t->batch, s->lengths);
    in[3] = upload(t->dtype, 4, k, s->k);
    in[5] = upload(t->dtype, 4, v, s->v);
    in[4] = n->cache[0];
    in[6] = n->cache[1];
    for (int i = 0; i < 2; i++) {
        out[i] = n->cache[i];
        if (!shared)
            OK(dhow_tensor_create(g_device, t->dtype,
                                  DHOW_SHAPE(t->batch, t->shared, ROOM, i == 0 ? k[3] : v[3]),
                                  &out[i]));
    }
    OK(dhow_tensor_create(g_device, t->dtype, DHOW_SHAPE(t->batch, heads, s->steps, t->features),
                          &out[2]));
    const dhow_status status = dhow_model_run_into(n->model, NULL, in, 7, out, 3);
    if (status == DHOW_OK) download(out[2], s->y);
    for (int i = 0; i < 2 && !shared; i++) {
        dhow_tensor_release(n->cache[i]);
        n->cache[i] = out[i];
    }
    for (int i = 0; i < 6; i++)
        if (i != 4) dhow_tensor_release(in[i]);
    dhow_tensor_release(out[2]);
    return status;
}

/* ---- in doubles ---- */

static void write_steps(float *cache, const float *x, const trial *t, const step *s,
                        int64_t width) {
    for (int64_t b = 0; b < t->batch; b++)
        for (int64_t h = 0; h < t->shared; h++)
            for (int64_t i = 0; i < s->steps * width; i++)
                cache[((b * t->shared + h) * ROOM + s->start[b]) * width + i] =
                    x[(b * t->shared + h) * s->steps * width + i];
}

/* Row i of head h of sequence b. */
static void expect_row(const network *n, const step *s, int64_t b, int64_t h, int64_t i,
                       double tolerance) {
    const trial *t = &n->t;
    const int64_t own = b * t->shared + h / t->sharing, heads = t->shared * t->sharing,
                  row = (b * heads + h) * s->steps + i,
                  seen = t->causal ? s->lengths[b] - s->steps + i + 1 : s->lengths[b];
    double weight[ROOM], sum = 0;
    for (int64_t j = 0; j < seen; j++) {
        double score = 0;
        for (int64_t d = 0; d < t->depth; d++)
            score +=
                (double)s->q[row * t->depth + d] * (double)n->keys[(own * ROOM + j) * t->depth + d];
        score /= sqrt((double)t->depth);
        if (t->softcap > 0) score = t->softcap * tanh(score / t->softcap);
        sum += weight[j] = exp(score);
    }
    for (int64_t f = 0; f < t->features; f++) {
        double y = 0;
        for (int64_t j = 0; j < seen; j++)
            y += weight[j] / sum * (double)n->values[(own * ROOM + j) * t->features + f];
        const double got = (double)s->y[row * t->features + f];
        cr_assert(fabs(got - y) <= tolerance,
                  "%d steps of [%d, %d by %d, %d], causal %d, cap %g, dtype %d, at %d of %d: row "
                  "%d of head %d is %g, not %g",
                  (int)s->steps, (int)t->batch, (int)t->shared, (int)t->sharing, (int)t->depth,
                  t->causal, t->softcap, (int)t->dtype, (int)s->start[b], (int)s->lengths[b],
                  (int)i, (int)h, got, y);
    }
}

static void expect_caches(const network *n) {
    static float held[MOST];
    for (int i = 0; i < 2; i++) {
        const float *want = i == 0 ? n->keys : n->values;
        download(n->cache[i], held);
        for (int64_t k = 0; k < dhow_tensor_count(n->cache[i]); k++)
            cr_assert_eq(held[k], want[k], "cache %d at %d is %g, not %g", i, (int)k,
                         (double)held[k], (double)want[k]);
    }
}

static void expect_step(network *n, step *s, bool shared) {
    const trial *t = &n->t;
    const double tolerance = t->dtype == DHOW_F32    ? 2e-6
                             : t->dtype == DHOW_F64  ? 1e-6
                             : t->dtype == DHOW_BF16 ? 2e-2
                                                     : 3e-3;
    OK(run(n, s, shared));
    write_steps(n->keys, s->k, t, s, t->depth);
    write_steps(n->values, s->v, t, s, t->features);
    for (int64_t b = 0; b < t->batch; b++)
        for (int64_t h = 0; h < t->shared * t->sharing; h++)
            for (int64_t i = 0; i < s->steps; i++) expect_row(n, s, b, h, i, tolerance);
    expect_caches(n);
}

static uint32_t steps_of(const network *n, uint32_t *plans) {
    dhow_model_summary summary = DHOW_INIT(dhow_model_summary);
    OK(dhow_model_get_summary(n->model, &summary));
    *plans = summary.plan_count;
    return summary.step_count;
}

static network g_network;
static step g_step;

Test(caches, steps_of_all_lengths_are_right_and_have_one_plan) {
    static const trial trials[] = {
        {1, 2, 1, 8, 8, 1, 0, DHOW_F32},    {2, 1, 3, 5, 12, 1, 0, DHOW_F32},
        {3, 2, 2, 33, 7, 0, 0, DHOW_F32},   {2, 2, 1, 16, 16, 1, 2, DHOW_F32},
        {1, 1, 9, 64, 64, 1, 0, DHOW_F32},  {2, 1, 2, 24, 24, 1, 0, DHOW_F16},
        {2, 2, 2, 16, 24, 0, 5, DHOW_BF16}, {1, 2, 2, 6, 3, 1, 1, DHOW_F64}};
    for (size_t k = 0; k < sizeof trials / sizeof *trials; k++) {
        step *s = &g_step;
        uint32_t plans;
        begin(&g_network, &trials[k]);
        for (int64_t at = 0; at < ROOM; at += at < 5 || at > ROOM - 4 ? 1 : 7) {
            s->steps = 1;
            for (int64_t b = 0; b < trials[k].batch; b++) { /* each at a place of its own */
                s->start[b] = (at + 11 * b) % ROOM;
                s->lengths[b] = s->start[b] + 1;
            }
            expect_step(&g_network, s, true);
        }
        (void)steps_of(&g_network, &plans);
        cr_expect_eq(plans, 1, "%u plans", plans);
        s->steps = 6; /* a prompt behind others */
        for (int64_t b = 0; b < trials[k].batch; b++) s->lengths[b] = (s->start[b] = 70 - b) + 6;
        expect_step(&g_network, s, true);
        end(&g_network);
    }
}

Test(caches, a_cache_of_its_own_is_copied_and_a_shared_one_is_not) {
    const trial t = {1, 2, 1, 8, 8, 1, 0, DHOW_F32};
    step *s = &g_step;
    uint32_t plans;
    begin(&g_network, &t);
    s->steps = 1;
    s->lengths[0] = (s->start[0] = 3) + 1;
    expect_step(&g_network, s, false);
    const uint32_t copying = steps_of(&g_network, &plans);
    s->lengths[0] = (s->start[0] = 4) + 1;
    expect_step(&g_network, s, true);
    const uint32_t sharing = steps_of(&g_network, &plans);
    cr_expect_eq(copying, sharing + 2, "%u steps, %u where they are shared", copying, sharing);
    s->lengths[0] = (s->start[0] = 5) + 1;
    expect_step(&g_network, s, false);
    end(&g_network);
}

Test(caches, lengths_that_lead_out_are_told_and_write_nothing) {
    static const struct {
        int64_t start, length;
        const char *says;
    } wrong[] = {{ROOM, ROOM, "write_indices is 80 for sequence 1; it is 0 to 79"},
                 {-1, 1, "write_indices is -1"},
                 {3, ROOM + 1, "nonpad_kv_seqlen is 81 for sequence 1; it is 0 to 80"},
                 {3, INT64_MIN, "nonpad_kv_seqlen is -9223372036854775808"},
                 {INT64_MAX, 4, "write_indices is 9223372036854775807"}};
    const trial t = {2, 1, 2, 8, 8, 1, 0, DHOW_F32};
    step *s = &g_step;
    begin(&g_network, &t);
    s->steps = 1;
    for (int64_t b = 0; b < 2; b++) s->lengths[b] = (s->start[b] = 7) + 1;
    expect_step(&g_network, s, true);
    for (size_t i = 0; i < sizeof wrong / sizeof *wrong; i++) {
        s->start[1] = wrong[i].start;
        s->lengths[1] = wrong[i].length;
        const dhow_status status = run(&g_network, s, true);
        if (lengths_are_checked()) {
            cr_expect_eq(status, DHOW_INVALID_ARGUMENT);
            cr_expect_not_null(strstr(dhow_last_error(), wrong[i].says), "%s", dhow_last_error());
            expect_caches(&g_network);
            continue;
        }
        /* The device does not say: it writes nothing outside, and no length gives no numbers. */
        cr_expect_eq(status, DHOW_OK, "%s", dhow_last_error());
        const bool is_length = s->lengths[1] >= 0 && s->lengths[1] <= ROOM;
        for (int64_t k = 0; k < 16; k++) {
            cr_expect(isfinite(s->y[k]));
            cr_expect_eq(isfinite(s->y[16 + k]) != 0, is_length, "length %d", (int)s->lengths[1]);
        }
        step first = *s;
        first.start[1] = s->start[1] >= 0 && s->start[1] < ROOM ? s->start[1] : 0;
        if (first.start[1] == s->start[1]) {
            write_steps(g_network.keys, s->k, &t, &first, t.depth);
            write_steps(g_network.values, s->v, &t, &first, t.features);
        } else { /* of the first sequence alone */
            const trial one = {1, 1, 2, 8, 8, 1, 0, DHOW_F32};
            write_steps(g_network.keys, s->k, &one, &first, t.depth);
            write_steps(g_network.values, s->v, &one, &first, t.features);
        }
        expect_caches(&g_network);
    }
    end(&g_network);
}

/* Numbers of an input that no cache takes were looked at too, and refused. */
Test(caches, only_numbers_that_a_cache_takes_are_looked_at) {
    dhow_model *m;
    dhow_model_value cache, x, starts, start, out;
    OK(dhow_model_create(g_context, &m));
    OK(dhow_model_input(m, "cache", DHOW_F32, DHOW_SHAPE(1, 4, 2), &cache));
    OK(dhow_model_input(m, "x", DHOW_F32, DHOW_SHAPE(1, 1, 2), &x));
    OK(dhow_model_input(m, "starts", DHOW_I64, DHOW_SHAPE(3), &starts));
    OK(dhow_model_narrow(m, starts, 0, 1, 1, &start));
    OK(dhow_model_update_cache(m, cache, x, start, &out));
    OK(dhow_model_output(m, "out", out));
    OK(dhow_model_to(m, g_device));
    const float held[] = {1, 2, 3, 4, 5, 6, 7, 8}, put[] = {100, 200};
    for (int64_t at = 0; at < 5; at++) {
        float got[8];
        dhow_tensor *in[] = {upload(DHOW_F32, DHOW_SHAPE(1, 4, 2), held),
                             upload(DHOW_F32, DHOW_SHAPE(1, 1, 2), put),
                             ints(3, (const int64_t[]){4 - at, at, 1000})};
        const dhow_status status = dhow_model_run_into(m, NULL, in, 3, in, 1);
        cr_assert_eq(status, at < 4 || !lengths_are_checked() ? DHOW_OK : DHOW_INVALID_ARGUMENT,
                     "at %d: %s", (int)at, dhow_last_error());
        download(in[0], got);
        for (int64_t i = 0; i < 8; i++)
            cr_assert_eq(got[i], i / 2 == at ? put[i % 2] : held[i], "at %d: %g", (int)at,
                         (double)got[i]);
        for (int i = 0; i < 3; i++) dhow_tensor_release(in[i]);
    }
    dhow_model_release(m);
}

/* ---- what keeps a cache from being written in place ---- */

typedef enum reader { BEFORE, AFTER, ANOTHER_INPUT, READERS } reader;

/* out = cache with x at start; also = the sum of the cache as it was, or of another input. */
Test(caches, what_is_read_later_is_not_written_over) {
    for (reader r = BEFORE; r < READERS; r++) {
        dhow_model *m;
        dhow_model_value cache, x, start, other, out, sum;
        const int32_t all[] = {0, 1, 2};
        OK(dhow_model_create(g_context, &m));
        OK(dhow_model_input(m, "cache", DHOW_F32, DHOW_SHAPE(1, 4, 2), &cache));
        OK(dhow_model_input(m, "x", DHOW_F32, DHOW_SHAPE(1, 1, 2), &x));
        OK(dhow_model_input(m, "start", DHOW_I64, DHOW_SHAPE(1), &start));
        OK(dhow_model_input(m, "other", DHOW_F32, DHOW_SHAPE(1, 4, 2), &other));
        if (r == BEFORE) OK(dhow_model_reduce(m, DHOW_REDUCE_SUM, cache, all, 3, 0, &sum));
        OK(dhow_model_update_cache(m, cache, x, start, &out));
        if (r != BEFORE)
            OK(dhow_model_reduce(m, DHOW_REDUCE_SUM, r == AFTER ? cache : other, all, 3, 0, &sum));
        OK(dhow_model_output(m, "out", out));
        OK(dhow_model_output(m, "sum", sum));
        OK(dhow_model_to(m, g_device));
        const float held[] = {1, 2, 3, 4, 5, 6, 7, 8}, put[] = {100, 200};
        dhow_tensor *in[4], *to[2];
        in[0] = upload(DHOW_F32, DHOW_SHAPE(1, 4, 2), held);
        in[1] = upload(DHOW_F32, DHOW_SHAPE(1, 1, 2), put);
        in[2] = ints(1, (const int64_t[]){1});
        in[3] = r == ANOTHER_INPUT ? in[0] : upload(DHOW_F32, DHOW_SHAPE(1, 4, 2), held);
        to[0] = in[0];
        OK(dhow_tensor_create(g_device, DHOW_F32, 0, NULL, &to[1]));
        OK(dhow_model_run_into(m, NULL, in, 4, to, 2));
        float got[8], total;
        download(to[0], got);
        download(to[1], &total);
        cr_expect_eq(total, 36, "%d: the sum is %g", (int)r, (double)total);
        cr_expect(got[1] == 2 && got[2] == 100 && got[3] == 200 && got[4] == 5);
        for (int i = 0; i < 4; i++)
            if (i != 3 || r != ANOTHER_INPUT) dhow_tensor_release(in[i]);
        dhow_tensor_release(to[1]);
        dhow_model_release(m);
    }
}

/* ---- a file that says it by GroupQueryAttention ---- */

/* The file stays as long as the model. */
static dhow_model *group_query(int64_t room, bool biased, bytes *file) {
    const int64_t one = 1, x[] = {1, 1, 8}, past[] = {1, 1, room, 4}, k[] = {1, 1, 4},
                  bias[] = {1, 2, 1, -1};
    bytes graph = {0},
          node = node_of("GroupQueryAttention", "n", "q k v pk pv length total", "y keys values");
    put_text(&node, 7, "com.microsoft");
    add_int(&node, "num_heads", 2);
    add_int(&node, "kv_num_heads", 1);
    for (int i = 0; i < 3 && biased; i++) put_text(&node, 1, "");
    if (biased) put_text(&node, 1, "bias");
    put_message(&graph, GRAPH_NODE, &node);
    bytes values[] = {value_of("q", 3, x),
                      value_of("k", 3, k),
                      value_of("v", 3, k),
                      value_of("pk", 4, past),
                      value_of("pv", 4, past),
                      typed_value_of("length", 6, 1, &one),
                      typed_value_of("total", 6, 1, &one),
                      value_of("bias", 4, bias)};
    bytes outs[] = {value_of("y", 3, x), value_of("keys", 4, past), value_of("values", 4, past)};
    for (int i = 0; i < 8; i++) {
        if (i < 7 || biased)
            put_message(&graph, GRAPH_INPUT, &values[i]);
        else
            bytes_free(&values[i]);
    }
    for (int i = 0; i < 3; i++) put_message(&graph, GRAPH_OUTPUT, &outs[i]);
    dhow_model *m;
    *file = model_of(21, &graph);
    OK(dhow_model_load_memory(g_context, file->data, file->length, &m));
    OK(dhow_model_to(m, g_device));
    return m;
}

static dhow_tensor *lengths32(int32_t number) {
    dhow_tensor *x;
    OK(dhow_tensor_from_data(g_device, DHOW_I32, DHOW_SHAPE(1), &number, &x));
    return x;
}

/* Steps in caches that past and present share are those in caches apart, with one plan; but with a
 * bias, whose width grows. */
static void compare_group_query(bool biased, dhow_precision precision) {
    const int64_t room = 9, past[] = {1, 1, 9, 4};
    const uint32_t inputs = biased ? 8 : 7;
    bytes files[2];
    dhow_model *shared = group_query(room, biased, &files[0]),
               *apart = group_query(room, biased, &files[1]);
    OK(dhow_model_set_precision(shared, precision));
    dhow_tensor *cache[4], *y[2];
    dhow_model_summary summary = DHOW_INIT(dhow_model_summary);
    for (int i = 0; i < 4; i++) OK(dhow_tensor_zeros(g_device, DHOW_F32, 4, past, &cache[i]));
    for (int i = 0; i < 2; i++)
        OK(dhow_tensor_create(g_device, DHOW_F32, DHOW_SHAPE(1, 1, 8), &y[i]));
    for (int32_t at = 0; at < room; at++) {
        float numbers[34], a[8], b[8];
        for (int i = 0; i < 34; i++) numbers[i] = next_number();
        dhow_tensor *in[8] = {upload(DHOW_F32, DHOW_SHAPE(1, 1, 8), numbers),
                              upload(DHOW_F32, DHOW_SHAPE(1, 1, 4), numbers + 8),
                              upload(DHOW_F32, DHOW_SHAPE(1, 1, 4), numbers + 12),
                              cache[0],
                              cache[1],
                              lengths32(at),
                              lengths32(at + 1),
                              upload(DHOW_F32, DHOW_SHAPE(1, 2, 1, at + 1), numbers + 16)};
        OK(dhow_model_run_into(shared, NULL, in, inputs,
                               (dhow_tensor *const[]){y[0], cache[0], cache[1]}, 3));
        in[3] = cache[2];
        in[4] = cache[3];
        dhow_tensor *out[3];
        OK(dhow_model_run(apart, NULL, in, inputs, out, 3));
        download(y[0], a);
        download(out[0], b);
        for (int i = 0; i < 8; i++)
            cr_assert_float_eq(a[i], b[i], 2e-6f, "%d: %g, not %g", (int)at, (double)a[i],
                               (double)b[i]);
        /* The first call's present has the steps that are new alone. */
        for (int i = 0; i < 2 && at > 0; i++) {
            dhow_tensor_release(cache[2 + i]);
            cache[2 + i] = out[1 + i];
        }
        for (int i = 0; i < 2 && at == 0; i++) dhow_tensor_release(out[1 + i]);
        if (at == 0)
            for (int i = 0; i < 2; i++) OK(dhow_copy(cache[i], cache[2 + i]));
        dhow_tensor_release(out[0]);
        for (int i = 0; i < 8; i++)
            if (i != 3 && i != 4) dhow_tensor_release(in[i]);
    }
    OK(dhow_model_get_summary(shared, &summary));
    cr_expect(biased || summary.plan_count == 1);
    OK(dhow_model_get_summary(apart, &summary));
    cr_expect_gt(summary.plan_count, 1);
    for (int i = 0; i < 4; i++) dhow_tensor_release(cache[i]);
    for (int i = 0; i < 2; i++) dhow_tensor_release(y[i]);
    dhow_model_release(shared);
    dhow_model_release(apart);
    for (int i = 0; i < 2; i++) bytes_free(&files[i]);
}

Test(caches, group_query_attention_in_one_memory_is_what_it_is_in_two) {
    compare_group_query(false, DHOW_PRECISION_DEVICE);
}

/* It was refused: the bias does not reach over all the room that there is. */
Test(caches, group_query_attention_with_a_bias_in_one_memory_is_what_it_is_in_two) {
    compare_group_query(true, DHOW_PRECISION_DEVICE);
}

/* They were cast to 16 bits and back in each step, with a plan for each length. */
Test(caches, caches_of_f32_stay_so_in_models_that_compute_in_16_bits) {
    const trial t = {1, 2, 1, 8, 8, 1, 0, DHOW_F32};
    step *s = &g_step;
    uint32_t plans;
    compare_group_query(false, DHOW_PRECISION_BF16);
    begin(&g_network, &t);
    s->steps = 1;
    s->lengths[0] = (s->start[0] = 3) + 1;
    expect_step(&g_network, s, true);
    const uint32_t steps = steps_of(&g_network, &plans);
    OK(dhow_model_set_precision(g_network.model, DHOW_PRECISION_F16));
    s->lengths[0] = (s->start[0] = 4) + 1;
    expect_step(&g_network, s, true);
    cr_expect_eq(steps_of(&g_network, &plans), steps);
    end(&g_network);
}

Test(caches, a_builder_refuses_what_does_not_fit) {
    dhow_model *m;
    dhow_model_value cache, x, wide, start, floats, q, out;
    OK(dhow_model_create(g_context, &m));
    OK(dhow_model_input(m, "cache", DHOW_F32, DHOW_SHAPE(2, 1, 8, 4), &cache));
    OK(dhow_model_input(m, "x", DHOW_F32, DHOW_SHAPE(2, 1, 9, 4), &x));
    OK(dhow_model_input(m, "wide", DHOW_F32, DHOW_SHAPE(2, 1, 1, 5), &wide));
    OK(dhow_model_input(m, "start", DHOW_I64, DHOW_SHAPE(3), &start));
    OK(dhow_model_input(m, "floats", DHOW_F32, DHOW_SHAPE(2), &floats));
    OK(dhow_model_input(m, "q", DHOW_F32, DHOW_SHAPE(2, 3, 1, 4), &q));
    cr_expect_eq(dhow_model_update_cache(m, cache, x, floats, &out), DHOW_INVALID_ARGUMENT);
    cr_expect_not_null(strstr(dhow_last_error(), "no more steps than there is room for"));
    cr_expect_eq(dhow_model_update_cache(m, cache, wide, floats, &out), DHOW_INVALID_ARGUMENT);
    cr_expect_eq(dhow_model_update_cache(m, cache, cache, floats, &out), DHOW_INVALID_ARGUMENT);
    cr_expect_not_null(strstr(dhow_last_error(), "one number for each sequence"));
    cr_expect_eq(dhow_model_cached_attention(m, q, cache, cache, start, 1, 0, 0, &out),
                 DHOW_INVALID_ARGUMENT);
    cr_expect_eq(dhow_model_cached_attention(m, wide, cache, cache, start, 1, 0, 0, &out),
                 DHOW_INVALID_ARGUMENT);
    cr_expect_not_null(strstr(dhow_last_error(), "heads being a multiple of h"));
    cr_expect_eq(dhow_model_cached_attention(m, q, cache, cache, 99, 1, 0, 0, &out),
                 DHOW_INVALID_ARGUMENT);
    dhow_model_release(m);
}
